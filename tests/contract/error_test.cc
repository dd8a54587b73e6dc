// Behaviour on errors: flushes, a receiver that is not ready, memory that is taken back.

#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

TEST_P(Contract, ErrorStateFlushesSignaledOrNot) {
  PairOptions options = pair_options();
  options.timeout = 20;  // long, so that only the flush can end the requests
  connect_pair(options);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_receive(left_, 100 + i), 0);
  ASSERT_EQ(to_error(right_), 0);  // so that nobody acknowledges the posts of left_
  for (std::uint64_t i = 0; i < 4; ++i) {
    SendRequest request = write_request(left_, right_, i, 64);
    if (i % 2 == 0) request.wr.send_flags = 0;
    ASSERT_EQ(post(left_, request), 0);
  }
  ASSERT_EQ(to_error(left_), 0);
  const std::vector<ibv_wc> sends = wait(left_.send_cq, 4);
  ASSERT_EQ(sends.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sends[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(sends[i].wr_id, i);
  }
  const std::vector<ibv_wc> receives = wait(left_.receive_cq, 3);
  ASSERT_EQ(receives.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(receives[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(receives[i].wr_id, 100 + i);
  }
}

TEST_P(Contract, PostedInTheErrorStateIsFlushed) {
  connect_pair();
  ASSERT_EQ(to_error(left_), 0);
  SendRequest late = write_request(left_, right_, 50, 8);
  late.wr.send_flags = 0;
  ASSERT_EQ(post(left_, late), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(post_receive(left_, 51), 0);
  if (!traits().flushes_late_receives) {
    EXPECT_TRUE(settle(left_.receive_cq).empty()) << "the trait has become wrong";
    return;
  }
  EXPECT_EQ(wait_one(left_.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(Contract, SilentPeerEndsInRetryExceeded) {
  connect_pair();
  ASSERT_EQ(to_error(right_), 0);
  ASSERT_EQ(post(left_, write_request(left_, right_, 7, 64)), 0);
  ASSERT_EQ(post(left_, write_request(left_, right_, 8, 64)), 0);
  const std::vector<ibv_wc> sends = wait(left_.send_cq, 2);
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_EQ(sends[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(sends[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(Contract, WrongLocalKeyIsALocalProtectionError) {
  connect_pair();
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 8)), 0);
  SendRequest request = write_request(left_, right_, 2, 8);
  request.sge.lkey += 0x01010000;
  ASSERT_EQ(post(left_, request), 0);
  ASSERT_EQ(post(left_, write_request(left_, right_, 3, 8)), 0);
  const std::vector<ibv_wc> sends = wait(left_.send_cq, 3);
  ASSERT_EQ(sends.size(), 3u);
  EXPECT_EQ(sends[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(sends[1].status, traits().wrong_local_key);
  EXPECT_EQ(sends[2].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(Contract, ReceiverNotReadyIsRetriedUntilItIs) {
  connect_pair();
  SendRequest request = write_request(left_, right_, 1, 8);
  request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  ASSERT_EQ(post(left_, request), 0);
  EXPECT_TRUE(settle(left_.send_cq).empty());
  ASSERT_EQ(post_receive(right_, 4), 0);
  EXPECT_EQ(wait_one(right_.receive_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait(left_.send_cq, 1).size(), 1u);
}

TEST_P(Contract, ReceiverNeverReadyFailsAfterItsRetries) {
  PairOptions options = pair_options();
  options.rnr_retry = 2;
  connect_pair(options);
  SendRequest request = write_request(left_, right_, 1, 8);
  request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  ASSERT_EQ(post(left_, request), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(Contract, NothingLandsAfterDeregistration) {
  connect_pair();
  std::memset(left_.memory.data(), 0xab, 1 << 20);
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 1 << 20)), 0);
  ASSERT_EQ(right_.provider->dereg_mr(std::exchange(right_.mr, nullptr)), 0);
  std::vector<std::byte> canary(right_.memory);
  const ibv_wc sends = wait_one(left_.send_cq);
  EXPECT_TRUE(sends.status == IBV_WC_SUCCESS || sends.status == IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(std::memcmp(canary.data(), right_.memory.data(), canary.size()), 0);
}

TEST_P(Contract, TooLongASendFailsBothSides) {
  connect_pair();
  ASSERT_EQ(post_receive(right_, 4, 100), 0);
  SendRequest request = write_request(left_, right_, 1, 101);
  request.wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post(left_, request), 0);
  const std::vector<ibv_wc> sends = wait(left_.send_cq, 1);
  const std::vector<ibv_wc> receives = wait(right_.receive_cq, 1);
  ASSERT_EQ(sends.size() + receives.size(), 2u);
  EXPECT_EQ(sends[0].status, traits().too_long_send);
  EXPECT_EQ(receives[0].status, traits().too_long_receive);
}

TEST_P(Contract, AfterErrorAndResetItConnectsAgain) {
  connect_pair();
  ASSERT_EQ(to_error(left_), 0);
  ASSERT_EQ(to_error(right_), 0);
  settle(left_.send_cq);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(left_.provider->modify_qp(left_.qp, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(right_.provider->modify_qp(right_.qp, &attr, IBV_QP_STATE), 0);
  ASSERT_TRUE(connect_endpoints(left_, right_, pair_options()));
  left_.memory[0] = std::byte{42};
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 8)), 0);
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(right_.memory[0], std::byte{42});
}

TEST_P(Contract, DestroyedQueuePairLeavesNoCompletions) {
  connect_pair();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post_receive(left_, i), 0);
  ASSERT_EQ(to_error(left_), 0);
  ASSERT_EQ(left_.provider->destroy_qp(std::exchange(left_.qp, nullptr)), 0);
  // The kernel driver of soft-RoCE flushes in a separate task. Completions that the task had queued
  // before the queue pair was destroyed stay in the queue.
  for (const ibv_wc& completion : settle(left_.receive_cq)) {
    EXPECT_FALSE(traits().forgets_destroyed);
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Providers, Contract, ::testing::ValuesIn(provider_kinds()), kind_name);

}  // namespace mesh::contract
