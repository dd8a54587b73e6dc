// Figures of relays for operators: the route of a relayed path, the bytes that a middle host has
// carried, and the middle hosts in the line about a request that waits.
#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Seat, testkit::Talk, testkit::LogCapture;

constexpr std::size_t kRelayedBytes = 1 << 20;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr int kStallSeconds = 30;

// Hosts a - b - c, with links between neighbours and one from a to c.
class RelayFigures : public testing::Test {
 protected:
  RelayFigures()
      : bed_({.fabric = testkit::kLine, .stall_seconds = kStallSeconds, .rails = "auto"}) {
    bed_.tick_ns = 10'000;
    near_ = talk(0, 1), next_ = talk(1, 2), far_ = talk(0, 2);
  }
  ~RelayFigures() override {
    for (testkit::BedHost& host : bed_.hosts) host.nics_stand = host.loops_stand = false;
  }
  std::unique_ptr<Talk> talk(std::size_t from, std::size_t to) {
    return std::make_unique<Talk>(bed_, Seat{from, 0}, Seat{to, 0}, kRelayedBytes);
  }
  void wake() { ASSERT_TRUE(far_->wakes()); }
  void seconds(int count) {
    for (int i = 0; i < count; ++i) {
      bed_.advance_ns(kSecondNs);
      bed_.round();
    }
  }
  PeerSnapshot peer(std::size_t host, const std::string& name) {
    for (const PeerSnapshot& each : bed_.hosts[host].engine->snapshot().peers) {
      if (each.peer == name) return each;
    }
    ADD_FAILURE() << "no peer " << name;
    return {};
  }
  RelaySnapshot relay(std::size_t host) { return bed_.hosts[host].engine->snapshot().relay; }
  void end_all() {
    for (const auto& each : {&far_, &near_, &next_}) (*each)->end();
    EXPECT_TRUE(bed_.empties());
  }

  LogCapture log_;
  Bed bed_;
  std::unique_ptr<Talk> near_, next_, far_;
};

TEST_F(RelayFigures, RoutesAreNamedOnBothSidesAndCablesHaveNone) {
  EXPECT_TRUE(peer(0, "c").paths[0].routes.empty()) << "lazy";
  wake();
  far_->exchange(kRelayedBytes);
  for (const PeerSnapshot& side : {peer(0, "c"), peer(2, "a")}) {
    std::size_t relayed = 0;
    for (const PathSnapshot& path : side.paths) {
      if (path.routes.empty()) continue;
      ++relayed;
      EXPECT_EQ(path.routes, std::vector<std::string>{"b"});
      EXPECT_EQ(path.up, 1u);
    }
    EXPECT_EQ(relayed, 1u);
  }
  for (const PathSnapshot& path : peer(0, "b").paths) EXPECT_TRUE(path.routes.empty());
  end_all();
  const std::vector<PathSnapshot> paths = peer(0, "c").paths;
  const auto relayed = std::find_if(paths.begin(), paths.end(), [](const PathSnapshot& path) {
    return path.name == "n0:1 -> n0:1";
  });
  ASSERT_NE(relayed, paths.end());
  EXPECT_EQ(relayed->routes, std::vector<std::string>{"b"}) << "the last one";
}

TEST_F(RelayFigures, AMiddleHostCountsWhatItCarries) {
  EXPECT_EQ(relay(1).paths + relay(1).ring_bytes, 0u);
  wake();
  far_->exchange(kRelayedBytes);
  RelaySnapshot carried = relay(1);
  EXPECT_EQ(carried.paths, 1u);
  EXPECT_EQ(carried.chains, 1u + far_->pair.send->link.policy().qps);
  EXPECT_GT(carried.ring_bytes, 0u);
  EXPECT_EQ(carried.refused_paths + carried.refused_frames + carried.refused_requests, 0u);
  ASSERT_EQ(carried.ways.size(), 2u);
  for (const RelayedSnapshot& way : carried.ways) {
    const bool data = way.rail == "n1:1";  // towards c
    EXPECT_EQ(way.from, data ? "n0:1" : "n1:1");
    EXPECT_GE(way.bytes, data ? kRelayedBytes : 32) << way.rail;
    EXPECT_LT(way.bytes, data ? 2 * kRelayedBytes : kRelayedBytes) << way.rail;
    EXPECT_GE(way.work_requests, 1u);
  }
  end_all();
  EXPECT_TRUE(bed_.until([&] { return !bed_.hosts[1].engine->carries_for_others(); }));
  const RelaySnapshot past = relay(1);
  EXPECT_EQ(past.paths + past.chains + past.ring_bytes, 0u);
  ASSERT_EQ(past.ways.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_GE(past.ways[i].bytes, carried.ways[i].bytes) << "counters never go back";
}

TEST_F(RelayFigures, AMiddleHostSaysAtItsEndWhatItHasCarried) {
  wake();
  near_->exchange(kRelayedBytes), next_->exchange(kRelayedBytes), far_->exchange(kRelayedBytes);
  end_all();
  EXPECT_TRUE(bed_.until([&] { return !bed_.hosts[1].engine->carries_for_others(); }));
  bed_.close_context({1, 0});
  bed_.hosts[1].engine.reset();
  EXPECT_TRUE(log_.said(LogLevel::Info, "carried for other hosts from n0:1 to n1:1: "));
  EXPECT_TRUE(log_.said(LogLevel::Info, " MB, 50 % of all sent over n1:1"));
  EXPECT_TRUE(log_.said(LogLevel::Info, "carried for other hosts"))
      << "credits that go back are no traffic";
}

TEST_F(RelayFigures, ASendThatWaitsNamesTheHostsOnTheWay) {
  wake();
  const auto sending = far_->send({.bytes = 1000});
  seconds(kStallSeconds + 2);
  EXPECT_TRUE(log_.said(LogLevel::Info,
                        "waits for the peer: it has posted no receive for it (over host b)"));
  EXPECT_TRUE(bed_.finish(*far_->receive({.bytes = 1000})).ok());
  EXPECT_TRUE(bed_.finish(*sending).ok());
  end_all();
}

TEST_F(RelayFigures, AReceiveThatWaitsNamesTheHostsOnTheWay) {
  wake();
  const auto receiving = far_->receive({.bytes = 1000});
  const auto near = near_->receive({.bytes = 1000});
  seconds(kStallSeconds + 2);
  EXPECT_TRUE(log_.said(LogLevel::Info, "it has sent nothing for it (over host b)"));
  EXPECT_TRUE(log_.said(LogLevel::Info, "it has sent nothing for it", 2))
      << "the cable's line names no host";
  EXPECT_TRUE(bed_.finish(*far_->send({.bytes = 1000})).ok());
  EXPECT_TRUE(bed_.finish(*receiving).ok());
  EXPECT_TRUE(bed_.finish(*near_->send({.bytes = 1000})).ok());
  EXPECT_TRUE(bed_.finish(*near).ok());
  end_all();
}

}  // namespace
}  // namespace mesh
