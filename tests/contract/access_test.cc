// A peer can write only where the memory region, its protection domain and the queue pair allow it.

#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

// The ways in which a remote key can be wrong.
enum class Wrong { Key, Range, Stale };

void expect_access_error(const std::vector<ibv_wc>& sends) {
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_EQ(sends[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(sends[0].wr_id, 1u);
  EXPECT_EQ(sends[1].status, IBV_WC_WR_FLUSH_ERR);
}

void spoil(SendRequest& request, Wrong wrong, Endpoint& target) {
  if (wrong == Wrong::Key) request.wr.wr.rdma.rkey += 0x01010000;
  if (wrong == Wrong::Range) request.wr.wr.rdma.remote_addr += target.memory.size() - 4095;
  if (wrong == Wrong::Stale) {
    EXPECT_EQ(target.provider->dereg_mr(std::exchange(target.mr, nullptr)), 0);
  }
}

class ContractAccess : public Contract {
 protected:
  void check(Wrong wrong) {
    connect_pair();
    ASSERT_EQ(post_receive(right_, 60), 0);
    SendRequest request = write_request(left_, right_, 1, 4096);
    request.wr.send_flags = 0;  // an error produces a completion even for an unsignaled request
    std::memset(left_.memory.data(), 0xee, 4096);
    spoil(request, wrong, right_);
    ASSERT_EQ(post(left_, request), 0);
    request.wr.wr_id = 2;
    ASSERT_EQ(post(left_, request), 0);
    expect_access_error(wait(left_.send_cq, 2));
    for (const std::byte byte : right_.memory) ASSERT_EQ(byte, std::byte{0});
    EXPECT_EQ(wait_one(right_.receive_cq).status, IBV_WC_WR_FLUSH_ERR)
        << "the target's queue pair fails too";
  }
};

TEST_P(ContractAccess, WrongKeyFailsBothSides) { check(Wrong::Key); }
TEST_P(ContractAccess, OneByteOutOfRangeFailsBothSides) { check(Wrong::Range); }
TEST_P(ContractAccess, DeregisteredKeyFailsBothSides) { check(Wrong::Stale); }

TEST_P(ContractAccess, ReadOnlyRegionRefusesWrites) {
  connect_pair();
  ibv_mr* narrow = right_.provider->reg_mr(right_.pd, right_.memory.data(), 4096,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(narrow, nullptr);
  SendRequest request = write_request(left_, right_, 1, 8);
  request.wr.wr.rdma.rkey = narrow->rkey;
  ASSERT_EQ(post(left_, request), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(right_.provider->dereg_mr(narrow), 0);
}

TEST_P(ContractAccess, KeyOfAnotherDomainIsRefused) {
  connect_pair();
  ibv_pd* const pd = right_.provider->alloc_pd(right_.context);
  ibv_mr* const mr = right_.provider->reg_mr(pd, right_.memory.data(), 4096, kAllAccess);
  ASSERT_NE(mr, nullptr);
  SendRequest request = write_request(left_, right_, 1, 8);
  request.wr.wr.rdma.rkey = mr->rkey;
  ASSERT_EQ(post(left_, request), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(right_.provider->dereg_mr(mr), 0);
  EXPECT_EQ(right_.provider->dealloc_pd(pd), 0);
}

TEST_P(ContractAccess, QueuePairThatDoesNotGrantWritesRefusesThem) {
  PairOptions options = pair_options();
  options.access = IBV_ACCESS_REMOTE_READ;
  connect_pair(options);
  std::memset(left_.memory.data(), 0xee, 8);
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 8)), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, traits().write_not_granted);
  EXPECT_EQ(right_.memory[0], std::byte{0});
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Providers, ContractAccess, ::testing::ValuesIn(provider_kinds()),
                         kind_name);

}  // namespace mesh::contract
