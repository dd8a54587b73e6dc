#include "engine/link/redial.h"

#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/units.h"

namespace mesh::engine {
namespace {

using testkit::kMs, testkit::TwoEnds;

// A link that is up and whose side a loses the control connection.
class RedialTest : public ::testing::Test {
 protected:
  RedialTest() {
    ends_.come_up();
    dialed_ = ends_.a.wire.dialed.size();
  }
  void lose(Errc reason = Errc::Timeout) {
    ends_.a.reception.on_lost(ends_.sender().connection(), reason, "the test says so");
  }
  Redial& redial() { return ends_.sender().redial(); }
  std::size_t dials() const { return ends_.a.wire.dialed.size() - dialed_; }
  void tend() { ends_.a.links.tend(); }
  void lose_path() {
    const ProgressLoop::Guard guard(ends_.sender().context().loop);
    PeerLink& link = ends_.sender().peer_link();
    link.quarantine(link.paths()[0], "the test cuts it");
  }
  void take_paths_down() {
    const ProgressLoop::Guard guard(ends_.sender().context().loop);
    PeerLink& link = ends_.sender().peer_link();
    for (std::uint32_t i = 0; i < link.paths().count(); ++i)
      link.quarantine(link.paths()[i], "the test cuts it");
  }
  // A second in which no dial of either side is answered, and the paths work.
  void outage_second() {
    ends_.advance_ns(kNsPerSecond);
    const auto fail_dial = [](testkit::FakeHost& host, Link& link) {
      host.links.tend();
      if (link.redial().connection() != 0)
        host.reception.on_lost(link.redial().connection(), Errc::Unreachable, "no route");
    };
    fail_dial(ends_.a, ends_.sender());
    fail_dial(ends_.b, ends_.receiver());
    for (int i = 0; i < 20; ++i) ends_.turn();
  }

  testkit::LogCapture log_;
  TwoEnds ends_;
  std::size_t dialed_ = 0;
};

TEST_F(RedialTest, TheLinkStaysUpAndTheConnectorDialsAtOnce) {
  lose();
  EXPECT_EQ(ends_.sender().state(), LinkState::Up);
  EXPECT_TRUE(redial().under_way());
  EXPECT_EQ(ends_.sender().connection(), 0u);
  tend();
  EXPECT_EQ(dials(), 1u);
}

TEST_F(RedialTest, PausesBetweenDialsDouble) {
  lose();
  for (std::uint64_t pause_ns = 10 * kMs; pause_ns <= 80 * kMs; pause_ns *= 2) {
    tend();
    const std::size_t before = dials();
    ends_.a.reception.on_lost(redial().connection(), Errc::Unreachable, "no route");
    ends_.advance_ns(pause_ns - 1);
    tend();
    EXPECT_EQ(dials(), before) << pause_ns;
    ends_.advance_ns(1);
  }
}

TEST_F(RedialTest, WhatWasSaidMeanwhileIsSaidAgainAndCountsOnce) {
  lose();
  ends_.sender().send(Fence{.path = 9, .epoch = 1, .cause = "", .taken = {}});
  EXPECT_TRUE(ends_.a.wire.said.empty()) << "there is no connection to say it on";
  tend();
  ends_.a.reception.on_dialed(redial().connection());
  EXPECT_EQ(ends_.a.wire.types(), std::vector<MessageType>{MessageType::Resume});
  ends_.carry();  // carries RESUME, and RESUMED back
  EXPECT_FALSE(redial().under_way());
  EXPECT_NE(ends_.sender().connection(), 0u);
  EXPECT_EQ(ends_.a.counted.resumes, 1u);
  EXPECT_EQ(ends_.b.counted.resumes, 1u);
  const std::vector<MessageType> again = ends_.a.wire.types();
  EXPECT_EQ(std::count(again.begin(), again.end(), MessageType::Fence), 1);
}

TEST_F(RedialTest, AProvenAddressThatRefusesIsAVerdict) {
  lose();
  tend();
  ends_.a.reception.on_lost(redial().connection(), Errc::PeerGone, "refused");
  EXPECT_EQ(ends_.sender().state(), LinkState::Down);
  EXPECT_TRUE(log_.warned("nobody listens on its control port any more"));
}

TEST_F(RedialTest, NoWayBackIsAnErrorWhenThePathTimeoutIsOverAndNoPathIsUp) {
  lose();
  tend();
  take_paths_down();
  ends_.advance_ns(ends_.sender().path_timeout_ns());
  ends_.a.reception.on_lost(redial().connection(), Errc::Unreachable, "no route");
  EXPECT_EQ(ends_.sender().state(), LinkState::Down);
  EXPECT_TRUE(log_.warned("no way back to its control port"));
}

// A management switch that restarts is silent for longer than any patience.
TEST_F(RedialTest, ALinkWhosePathsCarryOutlivesItsControlConnection) {
  lose(Errc::Unreachable);
  ends_.b.reception.on_lost(ends_.receiver().connection(), Errc::Unreachable, "the test says so");
  std::size_t silent_s = 0;
  for (; silent_s < 300; ++silent_s) outage_second();
  EXPECT_EQ(ends_.sender().state(), LinkState::Up);
  EXPECT_EQ(ends_.receiver().state(), LinkState::Up);
  EXPECT_TRUE(log_.warned("messages go on, but no lost path", 2));
  ends_.advance_ns(kTryPauseMaxNs);
  tend();
  ends_.a.reception.on_dialed(redial().connection());
  ends_.carry_all();
  EXPECT_FALSE(redial().under_way());
  EXPECT_NE(ends_.receiver().connection(), 0u);
}

TEST_F(RedialTest, APeerWhoseDeviceIsSilentTooIsGone) {
  for (const bool connector : {true, false}) {
    TwoEnds ends;
    ends.come_up();
    testkit::FakeHost& host = connector ? ends.a : ends.b;
    Link& link = connector ? ends.sender() : ends.receiver();
    host.reception.on_lost(link.connection(), Errc::Unreachable, "the test says so");
    std::size_t silent_s = 0;
    // The peer's device answers nothing: no NIC turns.
    for (; silent_s < 300 && link.state() == LinkState::Up; ++silent_s) {
      ends.advance_ns(kNsPerSecond);
      host.links.tend();
      if (link.redial().connection() != 0)
        host.reception.on_lost(link.redial().connection(), Errc::Unreachable, "no route");
    }
    EXPECT_LE(silent_s, (link.path_timeout_ns() + kSignToSignNs) / kNsPerSecond + 2) << connector;
  }
}

TEST_F(RedialTest, AConnectionThatAnswersNoFenceIsReplacedOverTheOtherAddressesFirst) {
  const std::vector<SocketAddress> all{ends_.a.wire.peer, *SocketAddress::from_text("10.0.0.2")};
  ends_.sender().port.addresses = all;
  lose_path();
  tend();
  ends_.a.wire.said.clear();  // FENCE goes into the cable that was cut
  EXPECT_LE(ends_.a.due_ns, ends_.a.now_ns() + kFenceToOtherWayNs);
  ends_.advance_ns(kFenceToOtherWayNs - 1);
  ends_.a.due_ns = UINT64_MAX;
  tend();  // each look at all links asks for the next one
  EXPECT_EQ(ends_.a.due_ns, ends_.a.now_ns() + 1);
  EXPECT_EQ(dials(), 0u);
  ends_.advance_ns(1);
  tend();
  tend();
  ASSERT_EQ(dials(), 1u);
  EXPECT_EQ(ends_.a.wire.dialed.back(), (std::vector{all[1], all[0]}));
  ends_.a.reception.on_dialed(redial().connection());
  ends_.carry();
  const std::vector<MessageType> again = ends_.a.wire.types();
  EXPECT_EQ(std::count(again.begin(), again.end(), MessageType::Fence), 1);
  ends_.advance_ns(kNsPerSecond);
  tend();
  EXPECT_EQ(dials(), 1u) << "once for each loss of a path";
}

TEST_F(RedialTest, APeerWithOneAddressKeepsItsConnection) {
  lose_path();
  tend();
  ends_.advance_ns(kFenceToOtherWayNs);
  tend();
  EXPECT_EQ(dials(), 0u);
  EXPECT_FALSE(redial().under_way());
}

TEST_F(RedialTest, ABrokenProtocolIsNoLossToComeBackFrom) {
  lose(Errc::Protocol);
  EXPECT_EQ(ends_.sender().state(), LinkState::Down);
  EXPECT_EQ(dials(), 0u);
}

TEST_F(RedialTest, TheAcceptorWaitsAMomentBeforeItSummons) {
  ends_.b.reception.on_lost(ends_.receiver().connection(), Errc::Timeout, "the test says so");
  ends_.b.links.tend();
  EXPECT_TRUE(ends_.b.wire.dialed.empty());
  ends_.advance_ns(100 * kMs);
  ends_.b.links.tend();
  ASSERT_EQ(ends_.b.wire.dialed.size(), 1u);
  ends_.b.reception.on_dialed(ends_.receiver().redial().connection());
  EXPECT_EQ(ends_.b.wire.types(), std::vector<MessageType>{MessageType::Summon});
}

// The acceptor must notice a peer that dies now, and that is not to depend on one more RESUME.
TEST_F(RedialTest, AResumeThatFindsNoMemoryLeavesTheAcceptorItsConnection) {
  lose();
  tend();
  ends_.a.reception.on_dialed(redial().connection());
  const ConnectionId before = ends_.receiver().connection();
  ASSERT_NE(before, 0u) << "it has not noticed the loss";
  ends_.b.wire.on_said = [](MessageType type) {
    if (type == MessageType::Resumed) throw std::bad_alloc();
  };
  ends_.carry();
  EXPECT_EQ(ends_.receiver().state(), LinkState::Up);
  EXPECT_EQ(ends_.receiver().connection(), before);
  ends_.b.wire.on_said = nullptr;
  ends_.b.reception.on_lost(before, Errc::Timeout, "the test says so");
  EXPECT_TRUE(ends_.receiver().redial().under_way());
}

TEST_F(RedialTest, AClaimOfAnOlderAttemptIsNotNewer) {
  const LinkClaim now = redial().claim();
  EXPECT_FALSE(ends_.receiver().redial().is_newer(now));
  lose();
  tend();
  EXPECT_TRUE(ends_.receiver().redial().is_newer(redial().claim()));
}

// A control connection that runs over a cable that is cut, and the addresses to which it goes over.
class RedialWays : public ::testing::Test {
 protected:
  RedialWays() {
    ends_.come_up();
    dialed_ = ends_.a.wire.dialed.size();
  }
  std::size_t dials() const { return ends_.a.wire.dialed.size() - dialed_; }
  void tend() { ends_.a.links.tend(); }
  std::array<std::uint8_t, 16> gid_of_rail(std::size_t rail) {
    std::array<std::uint8_t, 16> gid{};
    std::copy_n(std::begin(ends_.a.found[rail].gids.front().gid.raw), gid.size(), gid.begin());
    return gid;
  }
  // Returns the address of the connector to which a path of the acceptor leads.
  SocketAddress peer_address_of_path(std::uint32_t index) {
    const PathEnds& ends = ends_.receiver().peer_link().paths()[index].ends;
    return SocketAddress::from_gid(
        ends_.receiver().terms.peer_rails[ends.peer_rail].addresses[ends.peer_address].gid);
  }

  testkit::LogCapture log_;
  TwoEnds ends_;
  std::size_t dialed_ = 0;
};

// The acceptor may be the only one to notice: credits are lost, and the connector has nothing
// outstanding. It dials only where a path leads, because HELLO may name any address.
TEST_F(RedialWays, AnAcceptorWithoutAnAnswerToItsFenceAsksWhereAPathLeads) {
  Link& acceptor = ends_.receiver();
  const SocketAddress carries = peer_address_of_path(1);
  acceptor.terms.peer_addresses = {ends_.b.wire.peer, *SocketAddress::from_text("10.0.0.9"),
                                   carries};
  {
    const ProgressLoop::Guard guard(acceptor.context().loop);
    acceptor.peer_link().quarantine(acceptor.peer_link().paths()[0], "the test cuts it");
  }
  const std::size_t before = ends_.b.wire.dialed.size();
  for (int i = 0; i < 20; ++i) ends_.turn();
  ends_.b.links.tend();
  ends_.b.wire.said.clear();
  ends_.advance_ns(kFenceToOtherWayNs);
  ends_.b.links.tend();
  ends_.b.links.tend();
  ASSERT_EQ(ends_.b.wire.dialed.size(), before + 1);
  EXPECT_EQ(ends_.b.wire.dialed.back(), std::vector{carries});
}

TEST_F(RedialWays, ASummonIsAnsweredWhereItCameFrom) {
  const SocketAddress other = *SocketAddress::from_text("10.0.0.2");
  ends_.sender().port.addresses = {ends_.a.wire.peer, other};
  ends_.a.reception.on_lost(ends_.sender().connection(), Errc::Timeout, "the test says so");
  tend();
  ASSERT_EQ(dials(), 1u);
  EXPECT_EQ(ends_.a.wire.dialed.back(), std::vector{ends_.a.wire.peer}) << "nobody answers there";
  ends_.a.wire.peer = other;
  ends_.sender().redial().on_summon(ends_.receiver().redial().claim(), ends_.a.wire.next++);
  tend();
  ASSERT_EQ(dials(), 2u);
  EXPECT_EQ(ends_.a.wire.dialed.back(), std::vector{other});
}

TEST_F(RedialWays, APortThatGoesDownTakesItsConnectionAlong) {
  const std::vector<SocketAddress> all{ends_.a.wire.peer, *SocketAddress::from_text("10.0.0.2")};
  ends_.sender().port.addresses = all;
  ends_.a.links.on_rail_away(1, "our port is down");
  tend();
  EXPECT_EQ(dials(), 0u) << "it runs over no port of ours";
  ends_.a.wire.own = {SocketAddress::from_gid(gid_of_rail(0))};
  ends_.a.links.on_rail_away(0, "our port is down");
  tend();
  ASSERT_EQ(dials(), 1u) << "at once";
  EXPECT_EQ(ends_.a.wire.dialed.back(), (std::vector{all[1], all[0]}));
}

}  // namespace
}  // namespace mesh::engine
