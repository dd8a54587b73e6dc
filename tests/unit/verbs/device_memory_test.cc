// Whether device memory can be had, as rdma-core and the kernel tell it.

#include "src/verbs/rdma_provider.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

namespace mesh::verbs {
namespace {

RdmaOptions options() {
  RdmaOptions made;
  made.api.fork_init = [] { return 0; };
  return made;
}

TEST(RdmaDeviceMemory, DmaBuffersAreTheLibrarysOrNobodys) {
  RdmaOptions with = options();
  with.api.reg_dmabuf_mr = [](ibv_pd*, auto... rest) -> ibv_mr* {
    EXPECT_EQ(std::tuple(rest...),
              std::tuple(4096ul, 100ul, 0x7000ul, 9, int{IBV_ACCESS_LOCAL_WRITE}));
    errno = EINVAL;
    return nullptr;
  };
  const DmaBufferRange range{.fd = 9, .offset = 4096, .bytes = 100, .address = 0x7000};
  EXPECT_EQ(make_rdma_provider(with)->reg_dmabuf_mr(nullptr, range, IBV_ACCESS_LOCAL_WRITE),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_rdma_provider(options())->reg_dmabuf_mr(nullptr, range, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "rdma-core before 34";
}

TEST(RdmaDeviceMemory, PeerMemoryIsAModuleOfTheKernels) {
  const std::string root = testing::TempDir() + "/peer-memory-" + std::to_string(::getpid());
  RdmaOptions with = options();
  with.sysfs_root = root;
  EXPECT_FALSE(make_rdma_provider(with)->has_peer_memory(nullptr));
  std::filesystem::create_directories(root + "/module/nvidia_peermem");
  std::ofstream(root + "/module/nvidia_peermem/version") << "570.00\n";
  EXPECT_TRUE(make_rdma_provider(with)->has_peer_memory(nullptr));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace mesh::verbs
