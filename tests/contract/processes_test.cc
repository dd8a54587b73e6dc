// The contract between two processes, with both copy modes of the software fabric.

#include "src/base/clock.h"
#include "tests/contract/contract_fixture.h"
#include "tests/contract/other_process.h"

namespace mesh::contract {
namespace {

class TwoProcesses : public ::testing::TestWithParam<ProviderKind> {
 protected:
  void SetUp() override {
    pair_ = GetParam().pair_options();
    other_ = std::make_unique<OtherProcess>(GetParam(), Side::Right,
                                            pair_);  // forks, so it comes before any thread of ours
    host_ = GetParam().open(Side::Left);
    ASSERT_NE(host_.provider, nullptr);
    ASSERT_TRUE(open_endpoint(ours_, host_, pair_));
    ASSERT_TRUE(other_->connect(name()));
    ASSERT_TRUE(connect_endpoint(ours_, other_->name().gid, other_->name().qp_num, pair_));
    for (std::size_t i = 0; i < ours_.memory.size(); ++i) ours_.memory[i] = expected_byte(1, i);
  }
  void TearDown() override { close_endpoint(ours_); }

  EndpointName name() const {
    return {ours_.gid.gid, ours_.qp->qp_num, ours_.mr->rkey, ours_.address()};
  }
  SendRequest to_other(std::uint64_t wr_id, std::uint32_t bytes) const {
    SendRequest request = write_request(ours_, ours_, wr_id, bytes);
    request.wr.wr.rdma.remote_addr = other_->name().address;
    request.wr.wr.rdma.rkey = other_->name().rkey;
    return request;
  }
  bool poll_one(ibv_cq* cq, ibv_wc* wc, std::uint64_t patience_ns = 50'000'000'000) {
    const Clock clock;
    const std::uint64_t until_ns = clock.now_ns() + patience_ns;
    int found = 0;
    while (found == 0 && clock.now_ns() < until_ns) found = ibv_poll_cq(cq, 1, wc);
    return found == 1;
  }

  PairOptions pair_;
  std::unique_ptr<OtherProcess> other_;
  Host host_;
  Endpoint ours_;
};

TEST_P(TwoProcesses, BytesAndAnnouncementsArrive) {
  ASSERT_TRUE(other_->post_receives(10));
  for (const std::uint32_t bytes : {1u, 8u, 64u, 65u, 4096u, 65537u, 1u << 20, 3u << 20}) {
    SendRequest request = to_other(bytes, bytes);
    request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.wr.imm_data = htonl(bytes + 1);
    ASSERT_EQ(post(ours_, request), 0);
    ibv_wc wc{};
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    const ibv_wc announced = other_->next_receive();
    EXPECT_EQ(announced.byte_len, bytes);
    EXPECT_EQ(ntohl(announced.imm_data), bytes + 1);
    EXPECT_TRUE(other_->holds(1, bytes)) << bytes;
  }
}

TEST_P(TwoProcesses, BothDirectionsWork) {
  ASSERT_TRUE(other_->fill(9));
  ASSERT_EQ(post_receive(ours_, 1), 0);
  std::thread turner([&] {
    ibv_wc wc{};
    EXPECT_TRUE(poll_one(ours_.receive_cq, &wc));
    EXPECT_EQ(wc.byte_len, 300'000u);
    EXPECT_EQ(ntohl(wc.imm_data), 5u);
  });
  EXPECT_TRUE(other_->write(name(), 300'000, 5));
  turner.join();
  for (std::size_t i = 0; i < 300'000; ++i) ASSERT_EQ(ours_.memory[i], expected_byte(9, i));
  EXPECT_EQ(ours_.memory[300'000], expected_byte(1, 300'000));
}

TEST_P(TwoProcesses, ReadFetchesFromTheOtherProcess) {
  ASSERT_TRUE(other_->fill(4));
  SendRequest request = to_other(1, 1'000'003);
  request.wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post(ours_, request), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  for (std::size_t i = 0; i < 1'000'003; ++i) ASSERT_EQ(ours_.memory[i], expected_byte(4, i));
}

TEST_P(TwoProcesses, DeregisteredMemoryIsOutOfReach) {
  ASSERT_TRUE(other_->deregister());
  ASSERT_EQ(post(ours_, to_other(1, 4096)), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(TwoProcesses, KilledPeerEndsInRetryExceeded) {
  ASSERT_EQ(post(ours_, to_other(1, 64)), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  other_->kill();
  ASSERT_EQ(post(ours_, to_other(2, 1 << 20)), 0);
  ASSERT_EQ(post(ours_, to_other(3, 8)), 0);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(TwoProcesses, StoppedPeerIsWaitedFor) {
  other_->stop();
  ASSERT_EQ(post(ours_, to_other(1, 2 << 20)), 0);
  ibv_wc wc{};
  if (GetParam().traits.needs_its_process) {
    EXPECT_FALSE(poll_one(ours_.send_cq, &wc, 100'000'000))
        << "fifty times what a dead peer would get";
    other_->resume();
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  } else {
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc)) << "an adapter needs no process to write to memory";
    other_->resume();
  }
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(other_->holds(1, 2 << 20));
}

TEST_P(TwoProcesses, AgentTurnsForAProcessThatDoesNot) {
  ASSERT_TRUE(other_->nap());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(post(ours_, to_other(i, 100'000)), 0);
    ibv_wc wc{};
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc)) << "message " << i;
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  ibv_wc wc{};
  EXPECT_FALSE(poll_one(ours_.send_cq, &wc,
                        250'000'000));  // its agent falls asleep; only a doorbell wakes it
  ASSERT_EQ(post(ours_, to_other(99, 100'000)), 0);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Processes, TwoProcesses, ::testing::ValuesIn(process_kinds()), kind_name);

}  // namespace mesh::contract
