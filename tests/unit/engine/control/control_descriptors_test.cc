#include "engine/control/control_plane.h"
#include "src/base/timeouts.h"
#include "tests/unit/engine/control/control_fixture.h"

namespace mesh::engine {
namespace {

// The host needs the process's descriptors before unauthenticated connections get any.
class ControlDescriptorsTest : public ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    our_events_.when_frame = [&](const Recorder::Frame& frame) {
      ours_->identify(frame.id);
      return true;
    };
    ::getrlimit(RLIMIT_NOFILE, &before_);
  }
  void TearDown() override {
    limit(before_.rlim_cur);
    ControlPlaneTest::TearDown();
  }
  void limit(rlim_t descriptors) {
    rlimit now = before_;
    now.rlim_cur = descriptors;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  rlimit before_{};
};

}  // namespace

TEST_F(ControlDescriptorsTest, UnauthenticatedConnectionsHoldAnEighthOfThem) {
  limit(256);
  ours_ = open(our_events_, our_clock_ns_);
  std::vector<UniqueFd> silent(256 / 8);
  for (UniqueFd& each : silent) each = raw_client();
  turn_until_idle();
  const UniqueFd next = raw_client();
  turn_until_idle();
  our_clock_ns_ += kAcceptToGiveWayNs;
  ASSERT_TRUE(turn_until([&] { return raw_ended(silent.front()); }));
  EXPECT_FALSE(raw_ended(silent[1]));
  EXPECT_TRUE(logged("oldest of 32"));
}

TEST_F(ControlDescriptorsTest, WhereNoneIsLeftTheOldestUnauthenticatedGoes) {
  std::vector<UniqueFd> silent(3);
  for (UniqueFd& each : silent) each = raw_client();
  turn_until_idle();
  const UniqueFd honest = raw_client();
  raw_send(honest, frame_of(1));
  std::vector<UniqueFd> all;  // all remaining descriptors of the process
  for (UniqueFd more(::dup(0)); more.valid() && all.size() < 64; more = UniqueFd(::dup(0)))
    all.push_back(std::move(more));
  limit(static_cast<rlim_t>(all.back().get()) + 1);
  turn_until_idle();
  EXPECT_EQ(our_events_.frames.size(), 1u);
  EXPECT_TRUE(raw_ended(silent[0]));
  EXPECT_FALSE(raw_ended(silent[1]));
  EXPECT_FALSE(logged("cannot accept"));
}

TEST_F(ControlDescriptorsTest, ADialWaitsForOne) {
  limit(0);
  const ConnectionId id = dial_theirs();
  for (int i = 0; i < 20; ++i) our_clock_ns_ += 100'000'000, turn_until_idle();
  EXPECT_TRUE(our_events_.lost.empty()) << our_events_.lost.front().text;
  limit(before_.rlim_cur);
  turn_until_idle();
  EXPECT_TRUE(our_events_.dialed.empty()) << "it looks again every 100 ms";
  our_clock_ns_ += 100'000'000;
  EXPECT_TRUE(turn_until([&] { return our_events_.dialed == std::vector{id}; }));
}

TEST_F(ControlDescriptorsTest, ADialThatGetsNoneInItsTimeSaysSo) {
  limit(0);
  dial_theirs();
  for (int i = 0; i < 99; ++i) our_clock_ns_ += 100'000'000, turn_until_idle();
  EXPECT_TRUE(our_events_.lost.empty());
  our_clock_ns_ += 100'000'000;
  ASSERT_TRUE(turn_until([&] { return our_events_.lost.size() == 1; }));
  EXPECT_NE(our_events_.lost[0].text.find("the process is out of file descriptors"),
            std::string::npos)
      << our_events_.lost[0].text;
}

// A process at the edge of its limit fails to accept again and again.
TEST_F(ControlDescriptorsTest, ComplaintsHaveABudget) {
  for (int i = 0; i < 50; ++i) {
    const UniqueFd client = raw_client();
    raw_send(client, frame_of(1));
    limit(0);
    turn_until_idle();
    limit(before_.rlim_cur);
    our_clock_ns_ += 100'000'000;
    const std::size_t wanted = our_events_.frames.size() + 1;
    ASSERT_TRUE(turn_until([&] { return our_events_.frames.size() == wanted; }));
  }
  const auto complaints = std::count_if(
      log_lines().begin(), log_lines().end(),
      [](const std::string& line) { return line.find("cannot accept") != std::string::npos; });
  EXPECT_EQ(complaints, 16);
}

}  // namespace mesh::engine
