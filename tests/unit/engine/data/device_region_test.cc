// Device memory is registered through a descriptor of our own, or by its address where the rail
// knows the GPU's memory. It is never mistaken for host memory.

#include "engine/data/device_context.h"
#include "engine/data/dma_buffer.h"
#include "engine/data/registration.h"
#include "tests/device_memory/device_memory.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/data/region_provider.h"

namespace mesh::engine {
namespace {

class DeviceRegion : public testing::Test {
 protected:
  static constexpr std::array<std::uint32_t, 1> kFirst{0};
  static constexpr std::array<std::uint32_t, 2> kBoth{0, 1};

  DeviceRegion() {
    std::vector<DeviceContext*> pointers;
    for (std::uint32_t i = 0; i < rails_.size(); ++i) {
      rails_[i].info.name = fmt::format("n{}:1", i);
      rails_[i].info.dma_buffers = rails_[i].info.peer_memory = true;
      devices_.push_back(std::make_unique<DeviceContext>(provider_, rails_[i], i));
      EXPECT_TRUE(devices_.back()->open().ok());
      pointers.push_back(devices_.back().get());
    }
    table_ = std::make_unique<RegistrationTable>(std::move(pointers), Settings{}, 220);
  }
  MemoryRange range(MemoryType type = MemoryType::Device) const {
    return {.data = memory_.address(), .bytes = memory_.bytes(), .type = type};
  }
  // Registers as NCCL does: NCCL closes its descriptor right after the call.
  Result<Registration*> acquire_buffer(std::span<const std::uint32_t> on) {
    const UniqueFd buffer = memory_.export_buffer();
    MemoryRange device = range();
    device.fd = buffer.get();
    lent_ = device.fd;
    return table_->acquire(device, on);
  }
  void expect_refused(const MemoryRange& bad, const char* line) {
    EXPECT_EQ(table_->acquire(bad, kFirst).code(), Errc::InvalidArgument);
    EXPECT_TRUE(log_.warned(line));
    EXPECT_EQ(table_->size(), 0u);
  }

  testkit::LogCapture log_;
  testkit::DeviceMemory memory_{16384};
  testkit::RegionProvider provider_;
  std::array<verbs::Rail, 2> rails_{};
  std::vector<std::unique_ptr<DeviceContext>> devices_;
  std::unique_ptr<RegistrationTable> table_;
  int lent_ = -1;
};

TEST_F(DeviceRegion, KeepsADescriptorOfItsOwnForRailsThatNeedTheRegionLater) {
  Registration* const first = *acquire_buffer(kFirst);
  const int own = provider_.last.fd;
  EXPECT_NE(own, lent_);
  EXPECT_EQ(provider_.last.bytes, memory_.bytes());
  EXPECT_NE(provider_.last_access & static_cast<int>(IBV_ACCESS_RELAXED_ORDERING), 0);
  Registration* const later = *acquire_buffer(kBoth);
  EXPECT_EQ(later, first);
  EXPECT_EQ(provider_.last.fd, own) << "the second rail's is of the same descriptor";
  EXPECT_EQ(provider_.live.size(), 2u);
  struct stat info {};
  EXPECT_EQ(::fstat(own, &info), 0);
  table_->release(later, kBoth);
  table_->release(first, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
  EXPECT_EQ(::fcntl(own, F_GETFD), -1) << "the descriptor goes with the last user";
}

TEST_F(DeviceRegion, IsNeverServedFromHostMemoryAndNeverInlined) {
  Registration* const host = *table_->acquire(range(MemoryType::Host), kFirst);
  Registration* const device = *acquire_buffer(kFirst);
  EXPECT_NE(host, device);
  EXPECT_NE(host->keys(0).lkey, device->keys(0).lkey);
  EXPECT_EQ(host->inline_bytes, 220u);
  EXPECT_EQ(device->inline_bytes, 0u);
  table_->lower_inline_bytes(64);
  EXPECT_EQ(host->inline_bytes, 64u) << "a queue pair was granted less";
  EXPECT_EQ(device->inline_bytes, 0u);
  table_->release(host, kFirst);
  EXPECT_EQ(table_->size(), 1u);
  table_->release(device, kFirst);
  Registration* const again = *acquire_buffer(kFirst);
  EXPECT_EQ(again->keys(0).lkey, 3u) << "an allocation at the address of an older one";
  table_->release(again, kFirst);
}

TEST_F(DeviceRegion, WithoutADescriptorTheAddressIsRegistered) {
  Registration* const device = *table_->acquire(range(), kFirst);
  EXPECT_TRUE(provider_.by_address);
  EXPECT_EQ(device->inline_bytes, 0u);
  table_->release(device, kFirst);
}

TEST_F(DeviceRegion, ARailThatTakesNoneIsNamed) {
  rails_[0].info.peer_memory = rails_[0].info.dma_buffers = false;
  EXPECT_EQ(table_->acquire(range(), kFirst).code(), Errc::System);
  EXPECT_TRUE(log_.warned("n0:1 takes no addresses of GPUs (peer memory)"));
  EXPECT_EQ(acquire_buffer(kFirst).code(), Errc::System);
  EXPECT_TRUE(log_.warned("n0:1 takes no DMA buffers"));
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(DeviceRegion, WhatIsNoBufferIsRefusedWithOneLine) {
  MemoryRange bad = range();
  bad.fd = 1 << 20;
  expect_refused(bad, "descriptor 1048576: it is not open");
  const UniqueFd buffer = memory_.export_buffer();
  bad.fd = buffer.get();
  bad.offset = 4096;
  expect_refused(bad, "16384 bytes from offset 4096 are not in its 0..16384");
  bad.offset = UINT64_MAX - 4095;
  expect_refused(bad, "from offset 18446744073709547520 are not in");
  provider_.refuse_after = 0;
  provider_.refusal = EINVAL;
  EXPECT_EQ(acquire_buffer(kFirst).code(), Errc::System);
  EXPECT_TRUE(log_.warned("(the descriptor is no DMA buffer, or too short)"));
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(DeviceRegion, AProcessWithoutADescriptorLeftHearsOfTheLimit) {
  const UniqueFd buffer = memory_.export_buffer();
  MemoryRange whole = range();
  whole.fd = buffer.get();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit full{.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  const Errc refused = table_->acquire(whole, kFirst).code();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(refused, Errc::System);
  EXPECT_TRUE(log_.warned("the process may have 1 (RLIMIT_NOFILE, ulimit -n)"));
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(DeviceRegion, MemoryThatIsFreedTooEarlyIsGivenBackInPeace) {
  Registration* const device = *acquire_buffer(kFirst);
  memory_.free();
  table_->release(device, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
}

TEST(DmaBuffer, OffsetAndAddressLieEquallyFarIntoTheirPages) {
  for (const std::uint64_t page : {std::uint64_t{4096}, std::uint64_t{65536}}) {
    const auto at = [](std::uint64_t address) { return reinterpret_cast<void*>(address); };
    // As NCCL passes them: whole pages from offset 0.
    verbs::DmaBufferRange out =
        range_in_buffer({.data = at(4 * page), .bytes = 100, .fd = 3, .offset = 0}, page);
    EXPECT_EQ(out.address, 4 * page);
    EXPECT_EQ(out.offset, 0u);
    EXPECT_EQ(out.bytes, 100u);
    // The address lies in the middle of a page at whose start the buffer begins.
    out = range_in_buffer({.data = at(4 * page + 512), .bytes = 100, .fd = 3, .offset = 0}, page);
    EXPECT_EQ(out.address, 4 * page);
    EXPECT_EQ(out.offset, 0u);
    EXPECT_EQ(out.bytes, 612u);
    // Address and offset both lie in the middle of a page.
    out = range_in_buffer({.data = at(4 * page + 512), .bytes = 100, .fd = 3, .offset = page + 512},
                          page);
    EXPECT_EQ(out.address, 4 * page + 512);
    EXPECT_EQ(out.offset, page + 512);
    EXPECT_EQ(out.bytes, 100u);
  }
}

}  // namespace
}  // namespace mesh::engine
