#include "src/verbs/rail_traits.h"

#include "src/verbs/rdma_provider.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using testkit::FakeProvider;

Rail rail_of(FakeProvider& provider, const std::string& device, std::uint64_t guid) {
  Rail rail;
  rail.context = OpenDevice(ContextHandle(provider, provider.open_device(device)));
  rail.info.device = device;
  rail.info.guid = guid;
  rail.info.speed_mbps = 200'000;
  rail.info.mtu = 4096;
  rail.qp_wr_max = 8192;
  rail.inline_bytes_max = 512;
  rail.message_bytes_max = 1u << 30;
  return rail;
}

struct Host {
  FakeProvider provider;
  std::vector<Rail> rails;
  explicit Host(const std::vector<std::uint64_t>& guids) {
    for (std::size_t i = 0; i < guids.size(); ++i)
      provider.fakes.push_back(
          {.entry = {.name = fmt::format("d{}", i), .pci_path = {}}, .ports = {}});
    for (std::size_t i = 0; i < guids.size(); ++i)
      rails.push_back(rail_of(provider, fmt::format("d{}", i), guids[i]));
  }
};

TEST(RailTraits, AreThoseOfTheWorstRail) {
  Host host({1, 2});
  host.rails[1].info.speed_mbps = 100'000;
  host.rails[0].info.mtu = 1024;
  host.rails[1].qp_wr_max = 64;
  host.rails[1].inline_bytes_max = 220;
  host.rails[0].message_bytes_max = 1u << 20;
  const FabricTraits traits = traits_of("fake", host.rails);
  EXPECT_EQ(traits.fabric, "fake");
  EXPECT_EQ(traits.devices, (std::vector<std::string>{"d0", "d1"}));
  EXPECT_EQ(traits.rails, 2u);
  EXPECT_EQ(traits.speed_mbps, 100'000u);
  EXPECT_EQ(traits.mtu, 1024u);
  EXPECT_EQ(traits.qp_wr_max, 64u);
  EXPECT_EQ(traits.inline_bytes_max, 220u);
  EXPECT_EQ(traits.message_bytes_max, 1u << 20);
}

constexpr std::uint64_t kAll = UINT64_MAX;  // all rails meet one peer

// They have its GUID and its number (rdma_sysfs_test.cc).
TEST(RailTraits, VirtualFunctionsOfAPortShareItsCable) {
  Host parts({1, 1, 1, 2});
  for (const std::size_t rail : {0u, 1u, 2u})
    EXPECT_EQ(rails_of_cable(parts.rails, parts.rails[rail], kAll), 3u) << rail;
  EXPECT_EQ(rails_of_cable(parts.rails, parts.rails[1], 0b0110), 2u);
  EXPECT_EQ(rails_of_cable(parts.rails, parts.rails[3], kAll), 1u);
}

TEST(RailTraits, WhatOneRailDoesNotTellTheOthersDo) {
  Host host({1, 2});
  host.rails[0].info.speed_mbps = 0;
  host.rails[1].qp_wr_max = -1;
  const FabricTraits traits = traits_of("fake", host.rails);
  EXPECT_EQ(traits.speed_mbps, 200'000u);
  EXPECT_EQ(traits.qp_wr_max, 8192u);
}

TEST(RailTraits, HalvesOfACableAreRailsWithOneGuidAndPort) {
  Host cables({1, 2}), halves({1, 1, 2}), ports({1, 1});
  ports.rails[1].info.port = 2;
  EXPECT_EQ(rails_of_cable(cables.rails, cables.rails[0], kAll), 1u);
  EXPECT_EQ(rails_of_cable(halves.rails, halves.rails[0], kAll), 2u);
  EXPECT_EQ(rails_of_cable(halves.rails, halves.rails[2], kAll), 1u)
      << "beside a cable of two halves";
  EXPECT_EQ(rails_of_cable(ports.rails, ports.rails[0], kAll), 1u);
}

// A virtual machine shows two adapters with one GUID, or without any.
TEST(RailTraits, RailsOfOneGuidAreHalvesOnlyIfTheyMeetOnePeer) {
  Host adapters({1, 1}), unknown({0, 0});
  EXPECT_EQ(rails_of_cable(adapters.rails, adapters.rails[0], 0b01), 1u);
  EXPECT_EQ(rails_of_cable(adapters.rails, adapters.rails[1], 0b10), 1u);
  EXPECT_EQ(rails_of_cable(unknown.rails, unknown.rails[0], kAll), 1u);
}

// Whether device memory can be registered, as rdma-core and the kernel tell it.

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
  const mesh::testkit::Folder sysfs;
  RdmaOptions with = options();
  with.sysfs_root = sysfs.root();
  EXPECT_FALSE(make_rdma_provider(with)->has_peer_memory(nullptr));
  sysfs.write("module/nvidia_peermem/version", "570.00\n");
  EXPECT_TRUE(make_rdma_provider(with)->has_peer_memory(nullptr));
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
    for (Rail& rail : rails_) ask_device_memory(provider_, settings_, rail);
    level_device_memory(rails_);
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
