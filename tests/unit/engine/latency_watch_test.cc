// The latency of a path is measured while messages go over it, and by nothing else.

#include <mesh/snapshot.h>

#include "engine/data/path.h"
#include "engine/data/peer_link.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Talk, testkit::kA, testkit::kB, testkit::LogCapture;

constexpr std::size_t kTimedBytes = 256 << 10;
constexpr std::uint64_t kUs = 1000;

LatencyHistogram latency_of(const Bed& bed, std::size_t host, std::size_t path) {
  const EngineSnapshot shot = bed.hosts[host].engine->snapshot();
  EXPECT_EQ(shot.peers.size(), 1u);
  return shot.peers.at(0).paths.at(path).latency;
}

std::uint64_t samples_at_least(const LatencyHistogram& latency, std::uint64_t ns) {
  std::uint64_t count = latency.counts.back();
  for (std::size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    const std::uint64_t from_ns = i == 0 ? 0 : LatencyHistogram::kBounds[i - 1];
    if (from_ns >= ns) count += latency.counts[i];
  }
  return count;
}

// Exchanges a large message every 10 ms for so long. In between nothing is under way.
void talk_for(Talk& talk, std::uint64_t ns) {
  const std::uint64_t until_ns = talk.bed.now_ns() + ns;
  while (talk.bed.now_ns() < until_ns) {
    talk.exchange(kTimedBytes);
    talk.bed.rounds(20);
    talk.bed.advance_ns(10 * kNsPerMs);
  }
}

TEST(LatencyWatch, APathWithTrafficIsTimedTenTimesASecondWhereItSends) {
  Bed bed({.fabric = testkit::kHalves, .timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, kTimedBytes);
  talk_for(talk, 5 * kNsPerSecond);
  for (const std::size_t path : {0u, 1u}) {
    EXPECT_NEAR(static_cast<double>(latency_of(bed, 0, path).total()), 50, 6);
    EXPECT_EQ(latency_of(bed, 1, path).total(), 0u) << "the receiver's";
  }
}

TEST(LatencyWatch, APathWithoutMessagesIsLeftAlone) {
  Bed bed({.timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, kTimedBytes);
  const auto posted = [&bed] { return bed.stats(0).work_requests + bed.stats(1).work_requests; };
  bed.rounds(100);
  const std::uint64_t before = posted();
  bed.tick_ns = kNsPerMs;
  bed.rounds(3000);
  EXPECT_EQ(posted(), before);
  talk.exchange(8);
  bed.rounds(3000);
  EXPECT_EQ(latency_of(bed, 0, 0).total(), 1u) << "one message, one sample";
  const std::uint64_t after = posted();
  bed.rounds(3000);
  EXPECT_EQ(posted(), after);
}

TEST(LatencyWatch, ASlowPathShowsInItsOwnTimesAndInNoOthers) {
  Bed bed({.fabric = testkit::kHalves, .timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, kTimedBytes);
  bed.tick_ns = kUs;
  constexpr std::uint64_t kSlowNs = 2 * kNsPerMs;
  bed.hosts[0].fault({.kind = soft::FaultKind::WriteDelay, .nic = "n1", .delay_ns = kSlowNs});
  talk_for(talk, 2 * kNsPerSecond);
  const LatencyHistogram quick = latency_of(bed, 0, 0), slow = latency_of(bed, 0, 1);
  EXPECT_GE(slow.total(), 15u);
  EXPECT_EQ(samples_at_least(slow, kSlowNs), slow.total());
  EXPECT_GE(quick.total(), 15u);
  EXPECT_EQ(samples_at_least(quick, kNsPerMs / 2), 0u);
  EXPECT_GE(slow.sum_ns / slow.total(), kSlowNs);
}

// NCCL has nothing to wait for when its messages are done, so nobody turns the loop.
TEST(LatencyWatch, AWriteThatNobodyElsePollsForIsSeenSoon) {
  Bed bed({.timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, kTimedBytes);
  talk_for(talk, kNsPerSecond);
  const LatencyHistogram before = latency_of(bed, 0, 0);
  talk.exchange(8);
  for (testkit::BedHost& host : bed.hosts) host.loops_stand = true;
  bed.tick_ns = kNsPerMs;
  bed.rounds(1000);
  const LatencyHistogram since = latency_of(bed, 0, 0).since(before);
  EXPECT_EQ(since.total(), 1u);
  EXPECT_LE(since.sum_ns, 3 * kNsPerMs);
}

TEST(LatencyWatch, AWriteThatItsPathLosesCountsNothingAndHoldsUpNothing) {
  Bed bed({.fabric = testkit::kHalves, .timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, kTimedBytes);
  talk.exchange(kTimedBytes);
  bed.hosts[0].fault({.kind = soft::FaultKind::Mute, .nic = "n1"});
  engine::Path& lost = talk.pair.send->link.paths()[1];
  const LogCapture log;
  bed.tick_ns = kNsPerMs;
  ASSERT_TRUE(bed.until([&] { return lost.latency.under_way(); }));
  talk.exchange(kTimedBytes);  // what the path holds goes over the other one
  EXPECT_GE(log.count(LogLevel::Warn, "n1:1"), 1) << log.joined();
  EXPECT_FALSE(lost.latency.under_way());
  EXPECT_EQ(latency_of(bed, 0, 1).total(), 0u);
  bed.hosts[0].provider->faults().disarm_all();
  ASSERT_TRUE(bed.until([&] { return talk.pair.send->link.paths().all_up(); }));
  EXPECT_EQ(latency_of(bed, 0, 1).total(), 0u);
  bed.tick_ns = kUs;
  talk_for(talk, kNsPerSecond);
  EXPECT_GE(latency_of(bed, 0, 1).total(), 5u) << "it is timed again";
  talk.end();
  EXPECT_TRUE(bed.empties());
}

TEST(LatencyWatch, APathWhoseSendQueueIsFullIsNotTimed) {
  TransferPolicy policy;
  policy.sq_depth = 64;
  policy.slots = 256;
  Bed bed({.policy = policy, .timed_ns = kLookToNextNs});
  Talk talk(bed, kA, kB, 128);
  std::vector<Request*> open;
  for (std::size_t i = 0; i < 128; ++i) open.push_back(talk.receive({.at = i, .bytes = 1}).value());
  bed.rounds(100);
  bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = true;
  for (std::size_t i = 0; i < 128; ++i) open.push_back(talk.send({.at = i, .bytes = 1}).value());
  engine::Path& path = talk.pair.send->link.paths()[0];
  ASSERT_FALSE(path.queue_pairs[0]->has_room(1));
  ASSERT_FALSE(path.latency.under_way());
  bed.advance_ns(2 * kLookToNextNs);
  bed.rounds(100);
  EXPECT_FALSE(path.latency.under_way());
  EXPECT_EQ(path.health.state, engine::PathState::Up);
  bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = false;
  EXPECT_TRUE(bed.finish_all(open));
}

// The only path carries small packets alone, and is lost again and again: the empty writes that get
// through are no progress of the messages.
TEST(LatencyWatch, WritesThatGetThroughDoNotPutOffTheEndOfAPathThatCarriesNothing) {
  Bed bed({.path_timeout_s = 20, .ack_timer = 14, .timed_ns = kLookToNextNs});
  const LogCapture log;
  Talk talk(bed, kA, kB, kTimedBytes);
  talk.exchange(kTimedBytes);
  auto& faults = bed.hosts[0].provider->faults();
  const engine::Path& path = talk.pair.send->link.paths()[0];
  soft::Fault no_large_ones{.kind = soft::FaultKind::Mtu, .nic = "n0", .mtu = 256};
  ASSERT_TRUE(faults.arm(no_large_ones).ok());
  no_large_ones.after_work_requests = 2;  // the probes
  bool up = true;
  bed.each_round = [&] {
    const bool was_up = std::exchange(up, path.health.state == engine::PathState::Up);
    if (up || !was_up) return;
    faults.disarm_all();
    EXPECT_TRUE(faults.arm(no_large_ones).ok());
  };
  bed.tick_ns = kNsPerMs;
  Request* const receiving = talk.receive({.bytes = kTimedBytes}).value();
  Request* const sending = talk.send({.bytes = kTimedBytes}).value();
  const std::uint64_t began_ns = bed.now_ns();
  EXPECT_EQ(bed.finish(sending).code(), Errc::Timeout);
  EXPECT_NE(bed.finish(receiving).code(), Errc::Ok);
  bed.each_round = nullptr;
  EXPECT_GE(path.health.failures, 3u);
  EXPECT_GE(latency_of(bed, 0, 0).total(), 3u);
  EXPECT_LT(bed.now_ns() - began_ns, 60 * kNsPerSecond);
}

TEST(LatencyHistogram, QuantilesAreInterpolatedWithinTheirBucket) {
  LatencyHistogram latency;
  EXPECT_EQ(latency.quantile_ns(0.5), 0u);
  for (int i = 0; i < 99; ++i) latency.add(15 * kUs);
  latency.add(300 * kUs);
  EXPECT_EQ(latency.quantile_ns(0.5), 15'050u);
  EXPECT_EQ(latency.quantile_ns(0.99), 20'000u);
  EXPECT_EQ(latency.quantile_ns(1), 500'000u);
  latency.add(5 * kNsPerSecond);
  EXPECT_EQ(latency.quantile_ns(1), kNsPerSecond) << "the last bound is all that is known";
  LatencyHistogram twice = latency;
  twice += latency;
  EXPECT_EQ(twice.total(), 202u);
  EXPECT_EQ(twice.since(latency).counts, latency.counts);
  EXPECT_EQ(twice.since(latency).sum_ns, latency.sum_ns);
}

}  // namespace
}  // namespace mesh
