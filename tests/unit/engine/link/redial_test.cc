#include "engine/link/redial.h"

#include "engine/link/link.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::kMs;
using testkit::TwoEnds;

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
  EXPECT_EQ(log_.count(LogLevel::Warn, "nobody listens on its control port any more"), 1);
}

TEST_F(RedialTest, NoWayBackIsAnErrorWhenThePathTimeoutIsOver) {
  lose();
  tend();
  ends_.advance_ns(ends_.sender().path_timeout_ns());
  ends_.a.reception.on_lost(redial().connection(), Errc::Unreachable, "no route");
  EXPECT_EQ(ends_.sender().state(), LinkState::Down);
  EXPECT_EQ(log_.count(LogLevel::Warn, "no way back to its control port"), 1);
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

TEST_F(RedialTest, AClaimOfAnOlderAttemptIsNotNewer) {
  const LinkClaim now = redial().claim();
  EXPECT_FALSE(ends_.receiver().redial().is_newer(now));
  lose();
  tend();
  EXPECT_TRUE(ends_.receiver().redial().is_newer(redial().claim()));
}

}  // namespace
}  // namespace mesh::engine
