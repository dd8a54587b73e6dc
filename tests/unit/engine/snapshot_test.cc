// Figures of an engine for operators. Counters never go back.
#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;

PeerSnapshot only_peer(const Bed& bed, std::size_t host) {
  const EngineSnapshot shot = bed.hosts[host].engine->snapshot();
  EXPECT_EQ(shot.peers.size(), 1u);
  return shot.peers.empty() ? PeerSnapshot{} : shot.peers[0];
}

const WaitSnapshot& wait_of(const PeerSnapshot& peer, WaitReason reason) {
  return peer.waits[static_cast<std::size_t>(reason)];
}

TEST(Snapshot, RailsAreThereBeforeAnyPeer) {
  Bed bed({.fabric = testkit::kHalves});
  const EngineSnapshot shot = bed.hosts[0].engine->snapshot();
  EXPECT_EQ(shot.host, "a");
  EXPECT_EQ(shot.stats.contexts, 1u);
  EXPECT_TRUE(shot.peers.empty());
  ASSERT_EQ(shot.rails.size(), 2u);
  EXPECT_EQ(shot.rails[0].name, "n0:1");
  EXPECT_EQ(shot.rails[0].address, "10.0.1.1/24");
  EXPECT_TRUE(shot.rails[0].active);
  EXPECT_EQ(shot.rails[0].state, "active");
  EXPECT_TRUE(shot.rails[0].offered);
  EXPECT_EQ(shot.rails[0].port_downs, 0u);
  EXPECT_EQ(shot.rails[0].gid_type, "RoCE v2");
  ASSERT_EQ(shot.rails[0].addresses.size(), 1u);
  EXPECT_EQ(shot.rails[0].addresses[0].address, shot.rails[0].address);
}

TEST(Snapshot, BothSidesCountMessagesBytesAndPaths) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, 1 << 20);
  talk.exchange(100);
  talk.exchange(1 << 20);
  const PeerSnapshot sender = only_peer(bed, 0), receiver = only_peer(bed, 1);
  EXPECT_EQ(sender.peer, "b");
  EXPECT_TRUE(sender.sends);
  EXPECT_EQ(receiver.peer, "a");
  EXPECT_FALSE(receiver.sends);
  for (const PeerSnapshot& peer : {sender, receiver}) {
    EXPECT_EQ(peer.links, 1u);
    EXPECT_EQ(peer.channels, 1u);
    EXPECT_EQ(peer.open_requests, 0u);
    EXPECT_EQ(peer.messages, 2u);
    EXPECT_EQ(peer.bytes, 100u + (1 << 20));
    ASSERT_EQ(peer.paths.size(), 2u);
    for (const PathSnapshot& path : peer.paths) {
      EXPECT_EQ(path.up, 1u);
      EXPECT_EQ(path.quarantined + path.down + path.failures, 0u);
      EXPECT_EQ(path.inflight_bytes, 0u);
    }
    EXPECT_GT(peer.paths[0].counters.work_requests, 0u);
  }
  EXPECT_EQ(sender.paths[0].counters.bytes_sent + sender.paths[1].counters.bytes_sent,
            sender.bytes);
  EXPECT_EQ(sender.paths[0].rail, "n0:1");
}

TEST(Snapshot, CountsStayWhenChannelsLinksAndContextsEnd) {
  Bed bed({.contexts = 2});
  EngineStats before[2];
  {
    Talk talk(bed, kA, kB, 4096);
    talk.exchange(1000);
    talk.end();
  }
  ASSERT_TRUE(bed.empties());
  for (std::size_t host : {0u, 1u}) {
    const PeerSnapshot peer = only_peer(bed, host);
    EXPECT_EQ(peer.links + peer.channels, 0u);
    EXPECT_EQ(peer.messages, 1u);
    EXPECT_EQ(peer.bytes, 1000u);
    ASSERT_EQ(peer.paths.size(), 1u);
    EXPECT_EQ(peer.paths[0].up, 0u) << "there is no link";
    EXPECT_GT(peer.paths[0].counters.work_requests, 0u);
    before[host] = bed.stats(host);
  }
  bed.close_context(kA);
  bed.close_context(kB);
  bed.rounds(10);
  EXPECT_EQ(bed.stats(0).contexts, 1u);
  EXPECT_EQ(bed.stats(0).messages_sent, before[0].messages_sent);
  EXPECT_EQ(bed.stats(0).bytes_sent, 1000u);
  EXPECT_EQ(bed.stats(1).messages_received, before[1].messages_received);
  EXPECT_EQ(bed.stats(1).bytes_received, 1000u);
  Talk other(bed, {0, 1}, {1, 1}, 4096);
  other.exchange(500);
  EXPECT_EQ(only_peer(bed, 0).messages, 2u)
      << "another communicator's go on where the first one's ended";
  EXPECT_EQ(only_peer(bed, 0).bytes, 1500u);
  EXPECT_EQ(only_peer(bed, 1).bytes, 1500u);
}

TEST(Snapshot, RequestThatStaysOpenIsSeenWithItsReason) {
  Bed bed({});
  Talk talk(bed, kA, kB, 4096);
  const auto sending = talk.send({.bytes = 8});
  for (int i = 0; i < 5; ++i) {
    bed.advance_ns(1'000'000'000);
    bed.round();
  }
  const PeerSnapshot waiting = only_peer(bed, 0);
  EXPECT_EQ(waiting.open_requests, 1u);
  EXPECT_EQ(wait_of(waiting, WaitReason::Credit).channels, 1u);
  EXPECT_NEAR(static_cast<double>(wait_of(waiting, WaitReason::Credit).longest_ns), 4.5e9, 1e9);
  EXPECT_EQ(wait_of(waiting, WaitReason::Completion).channels, 0u);
  const auto receiving = talk.receive({.bytes = 8});
  EXPECT_TRUE(bed.finish_all({*sending, *receiving}));
  EXPECT_EQ(wait_of(only_peer(bed, 0), WaitReason::Credit).channels, 0u);
  EXPECT_GT(bed.hosts[0].engine->snapshot().stalls.credit, 0u);
}

TEST(Snapshot, TimeWithPathsMissingIsCounted) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, 4096);
  const auto seconds = [&bed](int count) {
    for (int i = 0; i < count; ++i) {
      bed.advance_ns(1'000'000'000);
      bed.round();
    }
  };
  seconds(3);
  engine::PeerLink& link = talk.pair.send->link;
  link.paths()[0].health.state = engine::PathState::Down;
  seconds(4);
  link.paths()[1].health.state = engine::PathState::Quarantined;
  seconds(2);
  const PeerSnapshot peer = only_peer(bed, 0);
  EXPECT_EQ(peer.paths[0].down, 1u);
  EXPECT_EQ(peer.paths[1].quarantined, 1u);
  EXPECT_NEAR(static_cast<double>(peer.degraded_ns), 6e9, 1e6);
  EXPECT_NEAR(static_cast<double>(peer.without_path_ns), 2e9, 1e6);
  link.paths()[0].health.state = link.paths()[1].health.state = engine::PathState::Up;
  seconds(4);
  EXPECT_NEAR(static_cast<double>(only_peer(bed, 0).degraded_ns), 6e9, 1e6);
}

TEST(Snapshot, LinkThatEndsIsSummedUpInOneLine) {
  Bed bed({});
  const LogCapture log;
  {
    Talk talk(bed, kA, kB, 4096);
    talk.exchange(1000);
    talk.exchange(24);
    talk.end();
  }
  ASSERT_TRUE(bed.empties());
  EXPECT_TRUE(log.said(LogLevel::Detail, "sent to host b: 1024 bytes in 2 messages over 1 path"));
  EXPECT_TRUE(
      log.said(LogLevel::Detail, "received from host a: 1024 bytes in 2 messages over 1 path"));
}

TEST(Snapshot, LinkThatMovedNothingIsNotSummedUp) {
  Bed bed({});
  const LogCapture log;
  Talk talk(bed, kA, kB, 4096);
  talk.end();
  ASSERT_TRUE(bed.empties());
  EXPECT_TRUE(log.said(LogLevel::Detail, "messages over", 0));
}

}  // namespace
}  // namespace mesh
