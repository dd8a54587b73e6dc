// The fault plan on a manual clock. Times are exact and equal in every run.

#include "tests/unit/soft/manual_fabric.h"

namespace mesh::soft {
namespace {

TEST(Faults, QueuePairFailsAfterSoManyWorkRequests) {
  ManualFabric fabric("", 1);
  ASSERT_TRUE(fabric.a->faults().arm({.kind = FaultKind::QpError, .after_work_requests = 3}).ok());
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_EQ(fabric.write(0, i, 64, 0), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 3u)
      << "three went, unsignaled; the fourth fails, two are flushed";
  EXPECT_EQ(fabric.sent[0][0].wc.wr_id, 3u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(fabric.sent[0][2].wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Faults, LostPeerEndsInRetryExceededAfterTheModelledTime) {
  for (const bool at_sender : {true, false}) {
    ManualFabric fabric("", 1);
    const Fault lost{.kind = FaultKind::PeerLost, .peer_host = at_sender ? "b" : "a"};
    ASSERT_TRUE((at_sender ? fabric.a : fabric.b)->faults().arm(lost).ok());
    const std::uint64_t start_ns = fabric.now_ns();
    ASSERT_EQ(fabric.announce(0, 1, 64), 0);
    fabric.run();
    ASSERT_EQ(fabric.sent[0].size(), 1u);
    EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(fabric.sent[0][0].at_ns - start_ns, (4096u << 8) * 2);
    EXPECT_TRUE(fabric.received[0].empty());
  }
}

TEST(Faults, LargePacketsVanishAndSmallOnesArrive) {
  ManualFabric fabric("", 2);
  ASSERT_TRUE(fabric.a->faults().arm({.kind = FaultKind::Mtu, .mtu = 1024}).ok());
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.announce(0, 1, 1024), 0);
  ASSERT_EQ(fabric.announce(0, 2, 1025), 0);
  ASSERT_EQ(fabric.announce(0, 3, 64), 0);  // behind the retried one
  ASSERT_EQ(fabric.announce(1, 4, 64), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 3u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(fabric.sent[0][1].wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(fabric.sent[0][1].at_ns - start_ns, (4096u << 8) * 2);
  EXPECT_EQ(fabric.sent[0][2].wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fabric.received[0].size(), 1u);
  ASSERT_EQ(fabric.sent[1].size(), 1u);
  EXPECT_EQ(fabric.sent[1][0].wc.status, IBV_WC_SUCCESS);
}

TEST(Faults, WritesAreLateFromTheChosenOneOn) {
  ManualFabric fabric("", 1);
  ASSERT_TRUE(
      fabric.a->faults()
          .arm({.kind = FaultKind::WriteDelay, .after_work_requests = 2, .delay_ns = 5'000'000'000})
          .ok());
  const std::uint64_t start_ns = fabric.now_ns();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(fabric.write(0, i, 64), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 4u);
  EXPECT_EQ(fabric.sent[0][1].at_ns, start_ns);
  EXPECT_EQ(fabric.sent[0][2].at_ns, start_ns + 5'000'000'000);
}

TEST(Faults, ADelayedWriteCannotTouchMemoryTakenBack) {
  ManualFabric fabric("", 1);
  ASSERT_TRUE(
      fabric.a->faults().arm({.kind = FaultKind::WriteDelay, .delay_ns = 1'000'000'000}).ok());
  fabric.left[0].memory[0] = std::byte{7};
  ASSERT_EQ(fabric.write(0, 1, 4096), 0);
  fabric.run(fabric.now_ns() + 500'000'000);
  ASSERT_EQ(fabric.b->dereg_mr(std::exchange(fabric.right[0].mr, nullptr)), 0);
  fabric.right[0].memory[0] = std::byte{99};
  fabric.run();
  EXPECT_EQ(fabric.right[0].memory[0], std::byte{99});
  ASSERT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Faults, ASourceTakenBackFailsAQueuePairThatHadBeenIdle) {
  ManualFabric fabric("", 2);
  const auto take_back = [&fabric](std::size_t pair) {
    return fabric.a->dereg_mr(std::exchange(fabric.left[pair].mr, nullptr));
  };
  ASSERT_EQ(fabric.write(0, 1, 64), 0);
  fabric.run();
  ASSERT_EQ(take_back(1), 0);  // another queue pair's, which is idle
  ASSERT_TRUE(
      fabric.a->faults().arm({.kind = FaultKind::WriteDelay, .delay_ns = 1'000'000'000}).ok());
  ASSERT_EQ(fabric.write(0, 2, 4096), 0);
  ASSERT_EQ(take_back(0), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 2u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(fabric.sent[0][1].wc.status, IBV_WC_LOC_PROT_ERR);
}

// Returns the history of a run as text: the times of all completions.
std::string reordered(std::uint64_t seed) {
  ManualFabric fabric("", 3);
  EXPECT_TRUE(
      fabric.a->faults().arm({.kind = FaultKind::Reorder, .delay_ns = 100'000, .seed = seed}).ok());
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(fabric.announce(i % 3, i, 64), 0);
  fabric.run();
  std::string history;
  std::uint64_t last_ns[3] = {};
  bool overtaken = false;
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const Seen& seen = fabric.received[pair].at(i);
      EXPECT_EQ(seen.wc.wr_id, i * 3 + pair) << "in order within a queue pair";
      EXPECT_GE(seen.at_ns, last_ns[pair]);
      last_ns[pair] = seen.at_ns;
      overtaken |= pair > 0 && seen.at_ns < last_ns[pair - 1];
      history += std::to_string(seen.at_ns) + " ";
    }
  }
  EXPECT_TRUE(overtaken);
  return history;
}

TEST(Faults, ReorderingIsRandomAndRepeatable) {
  EXPECT_EQ(reordered(1), reordered(1));
  EXPECT_NE(reordered(1), reordered(2));
}

// Writes one word to one place every microsecond, each write with its own number, and ends with a
// write with immediate. Returns the numbers that were seen there.
std::vector<std::uint64_t> disordered(std::uint64_t seed) {
  constexpr std::uint64_t kWrites = 100;
  ManualFabric fabric("", 1, {.send_depth = kWrites + 1});
  const Fault fault{.kind = FaultKind::OutOfOrder, .delay_ns = 10'000, .seed = seed};
  EXPECT_TRUE(fabric.b->faults().arm(fault, fabric.now_ns()).ok());
  auto& from = *reinterpret_cast<std::uint64_t*>(fabric.left[0].memory.data());
  const auto& at = *reinterpret_cast<const std::uint64_t*>(fabric.right[0].memory.data());
  std::vector<std::uint64_t> seen;
  const auto look = [&] {
    fabric.run(fabric.now_ns() + 1000);
    if (seen.empty() || seen.back() != at) seen.push_back(at);
    EXPECT_EQ(fabric.received[0].size(), at == kWrites + 1 ? 1u : 0u) << "it lands last";
  };
  for (from = 1; from <= kWrites; ++from) {
    EXPECT_EQ(fabric.write(0, from, sizeof from, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    look();
  }
  EXPECT_EQ(fabric.announce(0, from, sizeof from), 0);
  while (fabric.received[0].empty() && !testing::Test::HasFailure()) look();
  for (std::size_t i = 0; i < fabric.sent[0].size(); ++i)
    EXPECT_EQ(fabric.sent[0][i].wc.wr_id, i + 1) << "completions stay in order";
  return seen;
}

TEST(Faults, WritesOutOfOrderOvertakeOneAnotherUpToTheNextImmediate) {
  const std::vector<std::uint64_t> seen = disordered(1);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end())) << "an older one landed on a newer one";
  EXPECT_EQ(seen.back(), 101u);
  EXPECT_EQ(seen, disordered(1));
  EXPECT_NE(seen, disordered(2));
}

// Writes 1, 2, ... to one place, each after the completion of the write before. Returns how often
// an older number lay there afterwards.
std::size_t hidden(bool relaxed) {
  ManualFabric fabric("", 1);
  contract::Endpoint& right = fabric.right[0];
  EXPECT_EQ(fabric.b->dereg_mr(right.mr), 0);
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (relaxed) access |= static_cast<int>(IBV_ACCESS_RELAXED_ORDERING);
  right.mr = fabric.b->reg_mr(right.pd, right.memory.data(), right.memory.size(), access);
  EXPECT_TRUE(fabric.b->faults()
                  .arm({.kind = FaultKind::OutOfOrder, .delay_ns = 10'000, .repeats = false},
                       fabric.now_ns())
                  .ok());
  auto& from = *reinterpret_cast<std::uint64_t*>(fabric.left[0].memory.data());
  const auto& at = *reinterpret_cast<const std::uint64_t*>(right.memory.data());
  std::size_t older = 0;
  for (from = 1; from <= 60; ++from) {
    const std::uint64_t before = at;
    const std::size_t answers = fabric.sent[0].size();
    EXPECT_EQ(fabric.write(0, from, sizeof from, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    while (fabric.sent[0].size() == answers && !testing::Test::HasFailure())
      fabric.run(fabric.now_ns() + 1000);
    if (at < before) ++older;
    EXPECT_TRUE(relaxed || at == from) << "an answered write is there";
  }
  EXPECT_EQ(fabric.announce(0, from, sizeof from), 0);
  fabric.run();
  EXPECT_EQ(at, from) << "before a receive completes everything before it is there";
  return older;
}

TEST(Faults, InMemoryForRelaxedOrderingAnAnsweredWriteMayLandLater) {
  EXPECT_EQ(hidden(false), 0u);
  EXPECT_NE(hidden(true), 0u);
}

TEST(Faults, AShortPortFailureIsRetriedThrough) {
  ManualFabric fabric("", 1);
  const Fault down{.kind = FaultKind::PortDown, .after_ns = 1000, .duration_ns = 1'500'000};
  ASSERT_TRUE(fabric.b->faults().arm(down, fabric.now_ns()).ok());
  fabric.clock_ns += 2000;
  ASSERT_EQ(fabric.announce(0, 1, 64), 0);
  fabric.run();
  ASSERT_EQ(fabric.received[0].size(), 1u);
  EXPECT_EQ(fabric.received[0][0].wc.status, IBV_WC_SUCCESS);
  EXPECT_GE(fabric.received[0][0].at_ns, 1'000'000u + 1'501'000u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_SUCCESS);
}

TEST(Faults, AMuteCardCompletesNothingAndHearsItsPeer) {
  ManualFabric fabric("", 2);
  const Fault mute{.kind = FaultKind::Mute};
  ASSERT_TRUE(fabric.a->faults().arm(mute).ok());
  ASSERT_EQ(fabric.announce(0, 1, 64), 0);
  ASSERT_EQ(fabric.write(1, 2, 64), 0);
  fabric.run(fabric.now_ns() + 60'000'000'000);
  EXPECT_TRUE(fabric.sent[0].empty() && fabric.sent[1].empty()) << "neither success nor an error";
  EXPECT_TRUE(fabric.received[0].empty());
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(fabric.a->modify_qp(fabric.left[1].qp, &attr, IBV_QP_STATE), 0);
  fabric.run(fabric.now_ns() + 1'000'000'000);
  EXPECT_TRUE(fabric.sent[1].empty()) << "nothing is flushed";
  fabric.a->faults().lift(mute);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(fabric.received[0].size(), 1u);
  ASSERT_EQ(fabric.sent[1].size(), 1u);
  EXPECT_EQ(fabric.sent[1][0].wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Faults, WhatAMuteCardHasSentArrivesAndDoesNotComplete) {
  ManualFabric fabric(R"("gbps": 10, "delay_us": 1)", 1);
  ASSERT_EQ(fabric.announce(0, 1, 64), 0);
  fabric.run(fabric.now_ns() + 1200);  // it is on its way, and the answer is not there yet
  ASSERT_TRUE(fabric.a->faults().arm({.kind = FaultKind::Mute}).ok());
  fabric.run(fabric.now_ns() + 1'000'000'000);
  EXPECT_EQ(fabric.received[0].size(), 1u);
  EXPECT_TRUE(fabric.sent[0].empty());
  fabric.a->faults().disarm_all();
  fabric.run();
  EXPECT_EQ(fabric.sent[0].size(), 1u);
}

TEST(Faults, PlanRefusesNonsense) {
  FaultPlan plan;
  EXPECT_EQ(plan.arm({.kind = FaultKind::WriteDelay, .delay_ns = kFaultDelayMaxNs + 1}),
            Errc::InvalidArgument);
  EXPECT_EQ(plan.arm({.kind = FaultKind::PeerLost}), Errc::InvalidArgument);
  EXPECT_EQ(plan.arm({.kind = FaultKind::Mtu}), Errc::InvalidArgument);
  EXPECT_FALSE(plan.armed());
  for (std::size_t i = 0; i < kFaultsMax; ++i) EXPECT_TRUE(plan.arm({}).ok());
  EXPECT_EQ(plan.arm({}), Errc::Exhausted);
  plan.disarm_all();
  EXPECT_FALSE(plan.armed());
}

TEST(Faults, APortMayFlapMoreOftenThanThePlanHasRoom) {
  const Fault flap{.kind = FaultKind::PortDown, .nic = "n0", .duration_ns = 50};
  FaultPlan plan;
  for (std::uint64_t now_ns = 0; now_ns < 100 * (kFaultsMax + 1); now_ns += 100) {
    ASSERT_TRUE(plan.arm(flap, now_ns).ok()) << now_ns;
    EXPECT_TRUE(plan.port_down("n0", now_ns + 49));
    EXPECT_FALSE(plan.port_down("n0", now_ns + 50));
  }
}

}  // namespace
}  // namespace mesh::soft
