#include "engine/link/path_repair.h"

#include "engine/link/link.h"
#include "engine/link/peer_words.h"
#include "engine/link/relay/known_cables.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::count_said, testkit::lose_path, testkit::state_of, testkit::TwoEnds;

const soft::Fault kSecondPortDown{.kind = soft::FaultKind::PortDown, .nic = "n1"};

class PathRepairTest : public ::testing::Test {
 protected:
  PathRepairTest() { ends_.come_up(); }

  testkit::LogCapture log_;
  TwoEnds ends_;
};

TEST(PeerWords, OurThingsAreItsThings) {
  EXPECT_EQ(engine::in_peers_words("our port is down"), "its port is down");
  EXPECT_EQ(engine::in_peers_words("has not answered our HELLO; our port"),
            "has not answered its HELLO; its port");
  EXPECT_EQ(engine::in_peers_words("four hours"), "four hours");
}

TEST(PeerWords, ALineThatBeginsWithTheHostNamesItOnce) {
  const std::string told = engine::told_by("a", "our port is down");
  EXPECT_EQ(engine::without_name("a", told), "its port is down");
  EXPECT_EQ(engine::without_name("b", told), "host a: its port is down");
  EXPECT_EQ(engine::without_name("a", "host a"), "host a");
}

TEST_F(PathRepairTest, BothSidesSayAFenceBeforeThePathIsDown) {
  lose_path(ends_.sender(), 1);
  ends_.a.links.tend();
  EXPECT_EQ(count_said(ends_.a, MessageType::Fence), 1);
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Quarantined) << "b has said nothing yet";
  ends_.carry();
  EXPECT_EQ(state_of(ends_.receiver(), 1), PathState::Quarantined);
  ends_.carry_all();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Down);
  EXPECT_EQ(state_of(ends_.receiver(), 1), PathState::Down);
  EXPECT_EQ(state_of(ends_.sender(), 0), PathState::Up);
}

TEST_F(PathRepairTest, ThePathIsOpenedAgainAfterItsFirstPause) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  EXPECT_LE(ends_.a.due_ns, ends_.a.now_ns() + kTryPauseMinNs);
  ends_.advance_ns(kTryPauseMinNs - 1);
  ends_.a.links.tend();
  EXPECT_EQ(count_said(ends_.a, MessageType::Reopen), 0);
  ends_.advance_ns(1);
  ends_.a.links.tend();
  EXPECT_EQ(count_said(ends_.a, MessageType::Reopen), 1);
  ends_.carry_all();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Up);
  EXPECT_EQ(state_of(ends_.receiver(), 1), PathState::Up);
  EXPECT_EQ(ends_.sender().peer_link().paths()[1].health.epoch,
            ends_.receiver().peer_link().paths()[1].health.epoch);
}

// A firewall drops the questions of one side: datagrams tell nothing of the cable, and a path over
// it carries.
TEST_F(PathRepairTest, OtherHostsHearOfTheCableOfAPathThatIsBack) {
  CableProofs proofs(ends_.a);
  ends_.a.proofs = &proofs;
  ends_.sender().terms.peer_ticket = random_id();
  const topo::WirePair first{0, 0}, second{1, 1};
  ends_.sender().terms.cables = {.asked = {first, second}, .met = {first}};
  const auto cables = [this] { return heard_cables(ends_.sender().peer_as_host().cables).met; };
  EXPECT_EQ(cables(), std::vector{first});
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  ends_.advance_ns(kTryPauseMinNs);
  ends_.carry_all();
  ASSERT_EQ(state_of(ends_.sender(), 1), PathState::Up);
  EXPECT_EQ(cables(), (std::vector{first, second}));
  ends_.a.proofs = nullptr;
}

TEST_F(PathRepairTest, APortThatIsUpIsTriedWithoutThePause) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  ends_.a.links.on_port_up(ends_.sender().peer_link().paths()[1].rail);
  ends_.a.links.tend();
  EXPECT_EQ(count_said(ends_.a, MessageType::Reopen), 1);
}

TEST_F(PathRepairTest, NothingIsMadeWhileOurPortIsDown) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  ASSERT_TRUE(ends_.a.provider->faults().arm(kSecondPortDown).ok());
  const Path& path = ends_.sender().peer_link().paths()[1];
  ASSERT_EQ(path.device->queue_pair_count(), 0u);
  const std::uint64_t tries = path.health.reopen_tries;
  std::uint64_t looks = 0;
  for (; ends_.a.now_ns() < kPathUpToSteadyNs; ++looks) {
    ends_.advance_ns(kTryPauseMinNs);
    ends_.carry_all();
    ASSERT_EQ(path.device->queue_pair_count(), 0u);
  }
  EXPECT_GT(looks, 10u);
  EXPECT_EQ(path.health.reopen_tries, tries);
  EXPECT_EQ(path.health.last_cause, "our port is down");
  ends_.a.provider->faults().lift(kSecondPortDown);
  ends_.a.links.on_port_up(path.rail);
  ends_.carry_all();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Up);
}

TEST_F(PathRepairTest, ThePeerIsRefusedBeforeAnythingIsMadeWhileOurPortIsDown) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  ASSERT_TRUE(ends_.b.provider->faults().arm(kSecondPortDown).ok());
  const Path& path = ends_.receiver().peer_link().paths()[1];
  const std::uint64_t tries = path.health.reopen_tries;
  ends_.advance_ns(kTryPauseMinNs);
  ends_.carry_all();
  EXPECT_EQ(ends_.sender().peer_link().paths()[1].health.reopen_tries, 1u);
  EXPECT_EQ(path.health.reopen_tries, tries);
  EXPECT_EQ(path.device->queue_pair_count(), 0u);
  EXPECT_EQ(ends_.sender().peer_link().paths()[1].health.last_cause, "host b: its port is down");
}

// Nothing but addresses says that its ports meet, and they do not. Another path carries meanwhile.
TEST_F(PathRepairTest, AGuessThatFailsRestsForAMinuteOrUntilAPortComesUp) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  ASSERT_TRUE(ends_.b.provider->faults().arm(kSecondPortDown).ok());
  Path& path = ends_.sender().peer_link().paths()[1];
  path.ends.guessed = true;
  const auto wait = [this](std::uint64_t for_ns) {
    for (const std::uint64_t end = ends_.a.now_ns() + for_ns; ends_.a.now_ns() < end;) {
      ends_.advance_ns(kNsPerSecond / 4);
      ends_.carry_all();
    }
  };
  wait(3 * kReopenPauseOfGuessMaxNs);  // until the pauses do not grow any more
  const std::uint64_t tries = path.health.reopen_tries;
  wait(4 * kReopenPauseOfGuessMaxNs);
  EXPECT_LE(path.health.reopen_tries, tries + 4);
  ends_.b.provider->faults().lift(kSecondPortDown);
  ends_.a.links.on_port_up(path.rail);
  ends_.carry_all();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Up);
  EXPECT_FALSE(path.ends.guessed);
}

TEST_F(PathRepairTest, AReopenOfAPathThatIsUpBreaksTheProtocol) {
  const Path& path = ends_.receiver().peer_link().paths()[0];
  WirePath offered;
  offered.qpn.resize(path.queue_pairs.size());
  EXPECT_FALSE(ends_.receiver().repair().on(
      Reopen{.path = 0, .epoch = path.health.epoch + 1, .ends = offered}));
  EXPECT_EQ(log_.count(LogLevel::Warn, "which is not down"), 1);
}

TEST_F(PathRepairTest, AFenceWithCountsOfOtherQueuePairsBreaksTheProtocol) {
  EXPECT_FALSE(
      ends_.sender().repair().on(Fence{.path = 0, .epoch = 0, .cause = "made up", .taken = {1}}));
  EXPECT_EQ(state_of(ends_.sender(), 0), PathState::Up);
}

TEST_F(PathRepairTest, AFenceOfAnAcceptorThatHasNotStoppedLosesThePathAndNoMore) {
  Fence early{.path = 1, .epoch = 0, .cause = "silent", .stopped = 0, .taken = {}};
  EXPECT_TRUE(ends_.sender().repair().on(early));
  ends_.a.links.tend();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Quarantined) << "nothing is counted";
  ends_.carry_all();
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Down);
  early.path = 0;
  early.taken.resize(1 + ends_.sender().peer_link().policy().qps);
  EXPECT_FALSE(ends_.sender().repair().on(early)) << "it has counts";
}

TEST_F(PathRepairTest, AFenceThatIsSaidAgainChangesNothing) {
  lose_path(ends_.sender(), 1);
  ends_.carry_all();
  Fence late{.path = 1, .epoch = 0, .cause = "pulled", .taken = {}};
  late.taken.resize(1 + ends_.sender().peer_link().policy().qps);
  EXPECT_TRUE(ends_.sender().repair().on(late));
  EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Down);
}

// Tries to open standby paths, which the connector may leave at any step.

// The first of three cables carries, and the others stand by.
class StandbyRepairTest : public ::testing::Test {
 protected:
  StandbyRepairTest() {
    ends_.come_up();
    for (const char* const nic : {"n0", "n1", "n2"}) port(nic, Port::Down);
    lose_path(ends_.sender(), 0);
    ends_.carry_all();
    EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Down) << "it is wanted";
  }
  enum class Port : std::uint8_t { Up, Down };
  void port(const char* nic, Port state) {
    const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = nic};
    for (testkit::FakeHost* const host : {&ends_.a, &ends_.b}) {
      if (state == Port::Up) {
        host->provider->faults().lift(down);
      } else {
        EXPECT_TRUE(host->provider->faults().arm(down).ok());
      }
    }
  }
  // The port comes up, and its path is opened until it is probed.
  void begin_to_open(std::uint32_t index, const char* nic) {
    port(nic, Port::Up);
    ends_.a.links.on_port_up(ends_.sender().peer_link().paths()[index].rail);
    for (int i = 0; i < 20; ++i) {
      ends_.carry();
      ends_.a.links.tend();
      ends_.b.links.tend();
    }
    EXPECT_NE(queue_pairs_of(ends_.sender(), index), 0u);
    EXPECT_NE(queue_pairs_of(ends_.receiver(), index), 0u);
  }
  static std::size_t queue_pairs_of(Link& link, std::uint32_t index) {
    return link.peer_link().paths()[index].device->queue_pair_count();
  }

  testkit::LogCapture log_;
  TwoEnds ends_{testkit::kThreeCables, RailsWish::Auto};
};

// The connector admits the first path, loses it to another thread, and admits the second one. The
// acceptor hears of the first one alone before it looks at its paths.
TEST_F(StandbyRepairTest, ATryThatIsAnsweredDoesNotRest) {
  begin_to_open(0, "n0");
  begin_to_open(1, "n1");
  for (int i = 0; i < 20; ++i) ends_.turn();  // both probes come through
  int admitted = 0;
  ends_.a.wire.on_said = [&](MessageType type) {
    if (type == MessageType::PathUp && ++admitted == 1) lose_path(ends_.sender(), 0);
  };
  ends_.a.links.tend();
  ASSERT_EQ(admitted, 2) << "both are admitted";
  ends_.carry_one();
  ends_.b.links.tend();
  EXPECT_EQ(state_of(ends_.receiver(), 0), PathState::Up);
  EXPECT_NE(queue_pairs_of(ends_.receiver(), 1), 0u) << "the connector uses them";
  for (int i = 0; i < 20; ++i) {
    ends_.carry_all();
    ends_.advance_ns(kReopenPauseStalledMaxNs);
  }
  for (Link* const link : {&ends_.sender(), &ends_.receiver()}) {
    EXPECT_EQ(state_of(*link, 0), PathState::Up);
    EXPECT_EQ(state_of(*link, 1), PathState::Standby) << "and may be called again";
  }
}

TEST_F(StandbyRepairTest, ATryThatTheConnectorLeavesLeavesNothingWithTheAcceptor) {
  begin_to_open(1, "n1");
  port("n1", Port::Down);
  ends_.advance_ns(kReopenToAnswerNs);  // nothing gets through
  ends_.carry_all();
  EXPECT_EQ(queue_pairs_of(ends_.sender(), 1), 0u);
  EXPECT_EQ(queue_pairs_of(ends_.receiver(), 1), 0u);
  EXPECT_EQ(count_said(ends_.b, MessageType::Fence), 0)
      << "nothing was sent, so nothing is counted";
}

TEST_F(StandbyRepairTest, ATryThatABetterPathMakesNeedlessRestsOnBothSides) {
  begin_to_open(1, "n1");
  begin_to_open(0, "n0");
  ends_.carry_all();
  for (Link* const link : {&ends_.sender(), &ends_.receiver()}) {
    EXPECT_EQ(state_of(*link, 0), PathState::Up);
    EXPECT_EQ(state_of(*link, 1), PathState::Standby);
    EXPECT_EQ(queue_pairs_of(*link, 1), 0u);
  }
}

// A FENCE of a former life must not count for the next one.
TEST_F(StandbyRepairTest, AFenceOfAPathThatRestsChangesNothing) {
  begin_to_open(0, "n0");
  ends_.carry_all();
  Link& link = ends_.receiver();
  ASSERT_EQ(state_of(link, 1), PathState::Standby);
  const std::uint32_t epoch = link.peer_link().paths()[1].health.epoch;
  EXPECT_TRUE(link.repair().on(Fence{.path = 1, .epoch = epoch, .cause = "late", .taken = {}}));
  ends_.carry_all();
  EXPECT_EQ(state_of(link, 1), PathState::Standby);
  EXPECT_EQ(count_said(ends_.b, MessageType::Fence), 0);
}

}  // namespace
}  // namespace mesh::engine
