// Whether device memory can be registered, as rdma-core and the kernel tell it.

#include "src/verbs/rail_traits.h"

#include "src/verbs/rdma_provider.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

// A host whose devices differ in the device memory that they accept.
class Devices : public testkit::FakeProvider {
 public:
  ibv_mr* reg_dmabuf_mr(ibv_pd*, const DmaBufferRange& range, int) override {
    EXPECT_EQ(range.fd, -1);
    errno = answers.at(asked++);
    return nullptr;
  }
  bool has_peer_memory(ibv_context*) override { return peer_memory; }
  std::vector<int> answers;
  std::size_t asked = 0;
  bool peer_memory = false;
};

class FindDeviceMemory : public testing::Test {
 protected:
  void find(std::vector<int> answers, const char* gdr = "auto") {
    provider_.answers = std::move(answers);
    rails_.resize(provider_.answers.size());
    for (std::size_t i = 0; i < rails_.size(); ++i) rails_[i].info.name = fmt::format("n{}:1", i);
    settings_.gdr = gdr;
    find_device_memory(provider_, settings_, rails_);
  }
  mesh::testkit::LogCapture log_;
  Devices provider_;
  Settings settings_;
  std::vector<Rail> rails_;
};

TEST_F(FindDeviceMemory, WhoeverLooksAtTheDescriptorTakesBuffers) {
  find({EBADF, EINVAL});
  for (const Rail& rail : rails_) {
    EXPECT_TRUE(rail.info.dma_buffers);
    EXPECT_FALSE(rail.info.peer_memory);
  }
  EXPECT_TRUE(
      log_.said(LogLevel::Detail, "rail n1:1: DMA buffers; no module of peer memory is loaded"));
}

TEST_F(FindDeviceMemory, WhatOneRailLacksIsUsedOnNone) {
  provider_.peer_memory = true;
  find({EBADF, EOPNOTSUPP});
  for (const Rail& rail : rails_) {
    EXPECT_FALSE(rail.info.dma_buffers);
    EXPECT_TRUE(rail.info.peer_memory);
  }
  EXPECT_TRUE(log_.said(LogLevel::Detail, "rail n1:1: peer memory; no DMA buffers: Operation not"));
  EXPECT_TRUE(log_.said(LogLevel::Info, "rail n0:1: GPU memory is used only as every rail can"));
}

TEST_F(FindDeviceMemory, OffAsksNobody) {
  provider_.peer_memory = true;
  find({EBADF}, "off");
  EXPECT_EQ(provider_.asked, 0u);
  EXPECT_FALSE(rails_[0].info.dma_buffers || rails_[0].info.peer_memory);
  EXPECT_TRUE(log_.said(LogLevel::Detail, "rail n0:1", 0));
}

}  // namespace
}  // namespace mesh::verbs
