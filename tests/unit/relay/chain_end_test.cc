// The ends of a chain: errors of the far end, of a middle host and of the near end, and forged
// slots.

#include "src/base/timeouts.h"
#include "src/relay/chain.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineEnd, testkit::LineOptions;

class ChainEnd : public ::testing::TestWithParam<std::size_t> {
 protected:
  static LineOptions options() {
    LineOptions options;
    options.middles = GetParam();
    return options;
  }
  static std::vector<ibv_wc_status> statuses(const std::vector<ibv_wc>& completions) {
    std::vector<ibv_wc_status> all;
    all.reserve(completions.size());
    for (const ibv_wc& completion : completions) all.push_back(completion.status);
    return all;
  }
  using Statuses = std::vector<ibv_wc_status>;
};

TEST_P(ChainEnd, AWrongKeyComesThroughAndFailsTheFarEnd) {
  Line line(options());
  ASSERT_EQ(line.post_receives(0, 1), 0);
  ASSERT_EQ(line.post_receives(1, 2), 0);
  std::memset(line.end(0).memory.data(), 0xee, 4096);
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 8}), 0);
  ASSERT_TRUE(line.until_sent(0, 1));
  ASSERT_EQ(line.post(0, {.wr_id = 2, .to = 8, .bytes = 4096, .flags = 0, .rkey_off_by = 0x10100}),
            0);
  ASSERT_EQ(line.post(0, {.wr_id = 3, .to = 8, .bytes = 4096, .flags = 0}), 0);
  ASSERT_TRUE(line.until_sent(0, 3));
  EXPECT_EQ(statuses(line.end(0).sent),
            (Statuses{IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_EQ(line.end(0).sent[1].wr_id, 2u);
  ASSERT_TRUE(line.until_received(1, 2)) << "the far end's queue pair fails too";
  EXPECT_EQ(line.end(1).received[0].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_TRUE(line.until_received(0, 1)) << "and the poster's receives are flushed";
  for (std::size_t i = 8; i < 4104; ++i) ASSERT_EQ(line.end(1).memory[i], std::byte{0});
  ASSERT_EQ(line.post(1, {.wr_id = 9, .bytes = 8}), 0);
  ASSERT_TRUE(line.until_sent(1, 1));
  EXPECT_EQ(line.end(1).sent[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(ChainEnd, AFarEndThatIsInErrorEndsInRetryExceeded) {
  Line line(options());
  ASSERT_EQ(line.to_error(1), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 7, .bytes = 64}), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 8, .bytes = 64}), 0);
  ASSERT_TRUE(line.until_sent(0, 2));
  EXPECT_EQ(statuses(line.end(0).sent), (Statuses{IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}));
}

TEST_P(ChainEnd, AMiddleHostThatClosesSaysTheStatusToBothEnds) {
  LineOptions patient = options();
  patient.timeout = 20;
  Line line(patient);
  ASSERT_EQ(line.post_receives(0, 1), 0);
  ASSERT_EQ(line.post_receives(1, 1), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 64}), 0);
  ASSERT_TRUE(line.until_sent(0, 1));
  line.chain(0).close(IBV_WC_GENERAL_ERR);
  for (std::uint64_t i = 2; i < 5; ++i) ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 300}), 0);
  ASSERT_TRUE(line.until_sent(0, 4));
  EXPECT_EQ(line.end(0).sent[1].status, IBV_WC_GENERAL_ERR);
  EXPECT_EQ(line.end(0).sent[3].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_TRUE(line.until_received(0, 1)) << "an idle side hears of it by its receives";
  ASSERT_TRUE(line.until_received(1, 1));
  EXPECT_EQ(line.chain(0).state(), ChainState::Gone);
  EXPECT_EQ(line.chain(0).status(), IBV_WC_GENERAL_ERR);
  EXPECT_TRUE(line.end(1).device->progress(line.end(1).qp.get()).failed);
}

TEST_P(ChainEnd, WhatWasDoneBeforeTheCloseCompletesAsDone) {
  Line line(options());
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 300}), 0);
  ASSERT_TRUE(line.until_sent(0, 4));
  for (std::size_t i = 0; i < line.middles(); ++i) line.chain(i).close(IBV_WC_RETRY_EXC_ERR);
  ASSERT_TRUE(line.until_sent(0, 8));
  bool failed = false;
  for (const ibv_wc& completion : line.end(0).sent) {
    EXPECT_TRUE(!failed || completion.status == IBV_WC_WR_FLUSH_ERR);
    failed |= completion.status != IBV_WC_SUCCESS;
  }
}

TEST_P(ChainEnd, AQueuePairOfTheMiddleHostThatFailsIsRetryExceeded) {
  for (const Side side : kSides) {
    LineOptions patient = options();
    patient.timeout = 14;
    Line line(patient);
    ASSERT_EQ(line.post_receives(0, 1), 0);
    ASSERT_EQ(line.to_error(0, side), 0);
    ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 64}), 0);
    ASSERT_EQ(line.post(0, {.wr_id = 2, .bytes = 64}), 0);
    ASSERT_TRUE(line.until_sent(0, 2));
    EXPECT_EQ(statuses(line.end(0).sent), (Statuses{IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}));
    ASSERT_TRUE(line.until_received(0, 1));
  }
}

// Nobody answers, but nothing fails either: the end device has handed over all its writes.
TEST_P(ChainEnd, AMiddleHostThatOnlyStopsIsSeenByItsSilence) {
  Line line(options());
  LineEnd& end = line.end(0);
  EXPECT_FALSE(end.device->stuck(end.qp.get(), 1));
  EXPECT_FALSE(end.device->stuck(end.qp.get(), 1 + 2 * kRelayWorkToCountNs))
      << "nothing is outstanding";
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 64}), 0);
  for (int i = 0; i < 1000; ++i) line.poll(0);
  EXPECT_EQ(end.device->progress(end.qp.get()).outstanding, 1u);
  const std::uint64_t now_ns = 10 * kRelayWorkToCountNs;
  EXPECT_FALSE(end.device->stuck(end.qp.get(), now_ns));
  EXPECT_FALSE(end.device->stuck(end.qp.get(), now_ns + kRelayWorkToCountNs - 1));
  EXPECT_TRUE(end.device->stuck(end.qp.get(), now_ns + kRelayWorkToCountNs));
  end.device->fail(end.qp.get(), IBV_WC_RETRY_EXC_ERR);
  while (end.sent.empty()) line.poll(0);
  EXPECT_EQ(end.sent[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(end.device->progress(end.qp.get()).outstanding, 0u);
}

TEST_P(ChainEnd, AMiddleHostThatIsGoneIsRetryExceeded) {
  Line line(options());
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 64}), 0);
  ASSERT_TRUE(line.until_sent(0, 1));
  line.drop_chain(0);
  ASSERT_EQ(line.post(0, {.wr_id = 2, .bytes = 64}), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 3, .bytes = 64}), 0);
  ASSERT_TRUE(line.until_sent(0, 3));
  EXPECT_EQ(line.end(0).sent[1].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(line.end(0).sent[2].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(ChainEnd, AnEndIsDestroyedWithWorkOutstanding) {
  Line line(options());
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 70000}), 0);
    ASSERT_EQ(line.post(1, {.wr_id = i, .bytes = 70000}), 0);
  }
  line.turn();
  line.destroy(0);
  ASSERT_TRUE(line.until_sent(1, 16));
  line.settle();
  EXPECT_TRUE(line.end(0).sent.empty()) << "a destroyed queue pair leaves no completions";
  EXPECT_NE(line.chain(0).state(), ChainState::Carrying);
}

INSTANTIATE_TEST_SUITE_P(Middles, ChainEnd, ::testing::Values(1, 2));

}  // namespace
}  // namespace mesh::relay
