// Memory that the process itself may not touch, such as a GPU's. It is registered through a
// descriptor, or by its address where the provider has peer memory.

#include "tests/device_memory/device_memory.h"
#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

using testkit::DeviceMemory, verbs::DmaBufferRange;

constexpr std::uint32_t kBytes = 300'000;  // not a multiple of the page size

enum class Way : std::uint8_t { Descriptor, Address };

class ContractDeviceMemory : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    ASSERT_NO_FATAL_FAILURE(connect_pair());
  }

  static ibv_mr* add(Endpoint& endpoint, const DeviceMemory& memory, Way way) {
    if (way == Way::Address)
      return endpoint.provider->reg_mr(endpoint.pd, memory.address(), memory.bytes(), kAllAccess);
    const UniqueFd buffer = memory.export_buffer();  // closed when add() returns
    return endpoint.provider->reg_dmabuf_mr(
        endpoint.pd, {.fd = buffer.get(), .bytes = memory.bytes(), .address = at(memory)},
        kAllAccess);
  }
  static std::uint64_t at(const DeviceMemory& memory) {
    return reinterpret_cast<std::uintptr_t>(memory.address());
  }
  int refusal(const DmaBufferRange& range) {
    errno = 0;
    ibv_mr* const mr = left_.provider->reg_dmabuf_mr(left_.pd, range, kAllAccess);
    EXPECT_EQ(mr, nullptr);
    return errno;
  }

  SendRequest request_between(const DeviceMemory& from, ibv_mr* from_mr, const DeviceMemory& to,
                              ibv_mr* to_mr) {
    SendRequest request = write_request(left_, right_, 1, kBytes);
    request.sge = {at(from), kBytes, from_mr->lkey};
    request.wr.wr.rdma.remote_addr = at(to);
    request.wr.wr.rdma.rkey = to_mr->rkey;
    return request;
  }

  void check_transfer(ibv_wr_opcode opcode, Way way) {
    const bool reads = opcode == IBV_WR_RDMA_READ;
    DeviceMemory left(kBytes), right(kBytes);
    ibv_mr* const left_mr = add(left_, left, way);
    ibv_mr* const right_mr = add(right_, right, way);
    ASSERT_NE(left_mr, nullptr) << std::strerror(errno);
    ASSERT_NE(right_mr, nullptr) << std::strerror(errno);
    std::byte* const filled = (reads ? right : left).device_view();
    for (std::uint32_t i = 0; i < kBytes; ++i) filled[i] = static_cast<std::byte>(i * 7 + i / 256);
    SendRequest request = request_between(left, left_mr, right, right_mr);
    request.wr.opcode = opcode;
    ASSERT_EQ(post(left_, request), 0);
    EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(left.device_view(), right.device_view(), kBytes), 0);
    EXPECT_EQ(left_.provider->dereg_mr(left_mr), 0);
    EXPECT_EQ(right_.provider->dereg_mr(right_mr), 0);
  }
};

TEST_P(ContractDeviceMemory, WritesGoFromDeviceToDevice) {
  check_transfer(IBV_WR_RDMA_WRITE, Way::Descriptor);
}
TEST_P(ContractDeviceMemory, ReadsGoFromDeviceToDevice) {
  check_transfer(IBV_WR_RDMA_READ, Way::Descriptor);
}
TEST_P(ContractDeviceMemory, PeerMemoryTakesTheAddress) {
  ASSERT_TRUE(left_.provider->has_peer_memory(left_.context));
  check_transfer(IBV_WR_RDMA_WRITE, Way::Address);
}

TEST_P(ContractDeviceMemory, ARangeWithinTheBufferIsWhereItsOffsetSays) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  DeviceMemory from(2 * page), to(3 * page);
  ibv_mr* const from_mr = add(left_, from, Way::Descriptor);
  const UniqueFd buffer = to.export_buffer();
  ibv_mr* const to_mr = right_.provider->reg_dmabuf_mr(
      right_.pd,
      {.fd = buffer.get(), .offset = page + 40, .bytes = 8, .address = at(to) + page + 40},
      kAllAccess);
  ASSERT_NE(from_mr, nullptr);
  ASSERT_NE(to_mr, nullptr) << std::strerror(errno);
  std::memcpy(from.device_view(), "eight by", 8);
  SendRequest request = request_between(from, from_mr, to, to_mr);
  request.sge.length = 8;
  request.wr.wr.rdma.remote_addr += page + 40;
  ASSERT_EQ(post(left_, request), 0);
  ASSERT_EQ(wait(left_.send_cq, 1).size(), 1u);
  EXPECT_EQ(std::memcmp(to.device_view() + page + 40, "eight by", 8), 0);
  request.wr.wr.rdma.remote_addr -= 1;
  ASSERT_EQ(post(left_, request), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_REM_ACCESS_ERR)
      << "the rest of its page is not registered";
  EXPECT_EQ(left_.provider->dereg_mr(from_mr), 0);
  EXPECT_EQ(right_.provider->dereg_mr(to_mr), 0);
}

TEST_P(ContractDeviceMemory, MemoryThatTheDeviceHasFreedIsGivenBackInPeace) {
  DeviceMemory memory(kBytes);
  ibv_mr* const mr = add(left_, memory, Way::Descriptor);
  ASSERT_NE(mr, nullptr);
  memory.free();
  EXPECT_EQ(left_.provider->dereg_mr(mr), 0);
}

TEST_P(ContractDeviceMemory, WhatIsNoBufferIsRefused) {
  const DeviceMemory memory(8192);
  const UniqueFd buffer = memory.export_buffer();
  const DmaBufferRange good{.fd = buffer.get(), .bytes = 8192, .address = at(memory)};
  DmaBufferRange range = good;
  range.fd = -1;
  EXPECT_EQ(refusal(range), EBADF);
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  range.fd = file.get();
  EXPECT_EQ(refusal(range), EINVAL) << "no DMA buffer";
  range = good;
  range.bytes = memory.bytes() + 1;
  EXPECT_EQ(refusal(range), EINVAL) << "longer than the buffer";
  range = good;
  range.offset = memory.bytes();
  EXPECT_EQ(refusal(range), EINVAL) << "behind the buffer";
  range = good;
  range.offset = 8;
  EXPECT_EQ(refusal(range), EINVAL) << "the offset lies elsewhere in its page than the address";
}

// Inlining reads the memory with the CPU. It must crash, so that such a mistake is noticed.
using ContractDeviceMemoryDeathTest = ContractDeviceMemory;
TEST_P(ContractDeviceMemoryDeathTest, InliningItCrashes) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  DeviceMemory left(kBytes), right(kBytes);
  ibv_mr* const left_mr = add(left_, left, Way::Descriptor);
  ibv_mr* const right_mr = add(right_, right, Way::Descriptor);
  ASSERT_TRUE(left_mr != nullptr && right_mr != nullptr);
  SendRequest request = request_between(left, left_mr, right, right_mr);
  request.sge.length = 8;
  request.wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_DEATH(post(left_, request), "");
  EXPECT_EQ(left_.provider->dereg_mr(left_mr), 0);
  EXPECT_EQ(right_.provider->dereg_mr(right_mr), 0);
}

// NCCL (gdr.cc) probes for DMA-buffer support with a descriptor that cannot be valid. A provider
// with support examines the descriptor.
class ContractDeviceMemoryAsked : public Contract {};
TEST_P(ContractDeviceMemoryAsked, ADescriptorOfMinusOneTellsWhetherBuffersAreTaken) {
  connect_pair();
  errno = 0;
  EXPECT_EQ(left_.provider->reg_dmabuf_mr(left_.pd, {}, 0), nullptr);
  const bool refused = errno == EOPNOTSUPP || errno == EPROTONOSUPPORT;
  EXPECT_EQ(!refused, traits().device_memory) << std::strerror(errno);
  if (traits().device_memory) {
    EXPECT_EQ(errno, EBADF);
  }
}

// Returns the provider kinds that can register device memory.
std::vector<ProviderKind> kinds_with_device_memory() {
  std::vector<ProviderKind> kinds = provider_kinds();
  std::erase_if(kinds, [](const ProviderKind& kind) { return !kind.traits.device_memory; });
  return kinds;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ContractDeviceMemory);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ContractDeviceMemoryDeathTest);
INSTANTIATE_TEST_SUITE_P(Providers, ContractDeviceMemory,
                         ::testing::ValuesIn(kinds_with_device_memory()), kind_name);
INSTANTIATE_TEST_SUITE_P(Providers, ContractDeviceMemoryDeathTest,
                         ::testing::ValuesIn(kinds_with_device_memory()), kind_name);
INSTANTIATE_TEST_SUITE_P(Providers, ContractDeviceMemoryAsked,
                         ::testing::ValuesIn(provider_kinds()), kind_name);

}  // namespace
}  // namespace mesh::contract
