// The thread that tests a request turns the loop if the loop's poller does not.

#include "engine/data/channel.h"
#include "engine/data/progress_loop.h"
#include "engine/link/context.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::Talk;

constexpr int kTests = 1000;

// Two hosts whose loops have pollers, which make a turn only when the test says so.
class LatePoller : public testing::Test {
 protected:
  LatePoller() {
    for (testkit::BedHost& host : bed_.hosts) host.contexts[0]->loop.set_poller(true);
    talk_.emplace(bed_, kA, kB, 4096);
    for (testkit::BedHost& host : bed_.hosts) host.loops_stand = true;  // no turns by the bed
  }
  ~LatePoller() override {
    for (testkit::BedHost& host : bed_.hosts) host.loops_stand = false;
    talk_->end();
  }
  engine::ProgressLoop& loop(std::size_t host) { return bed_.hosts[host].contexts[0]->loop; }

  Bed bed_{{}};
  std::optional<Talk> talk_;
};

TEST_F(LatePoller, MessagesGoWhileThePollerMakesNoTurns) {
  for (const std::size_t bytes : {0u, 8u, 4096u}) talk_->exchange(bytes);
}

TEST_F(LatePoller, ACallerLeavesTheLoopToAPollerThatTurnsIt) {
  Request* const receiving = *talk_->receive({.bytes = 8});
  loop(1).poller_turn();
  const std::uint64_t before = loop(1).turns();
  for (int i = 0; i < kTests; ++i) {
    loop(1).poller_turn();
    EXPECT_EQ(test(*receiving, nullptr).code(), Errc::WouldBlock);
  }
  EXPECT_EQ(loop(1).turns() - before, kTests);
}

// The caller cannot know whether the poller will come back.
TEST_F(LatePoller, ACallerLeavesTheLoopToAPollerThatComesBack) {
  Request* const receiving = *talk_->receive({.bytes = 8});
  for (int i = 0; i < kTests; ++i) EXPECT_EQ(test(*receiving, nullptr).code(), Errc::WouldBlock);
  const std::uint64_t late = loop(1).turns();
  EXPECT_GT(late, kTests / 2u);
  for (int i = 0; i < kTests; ++i) {
    loop(1).poller_turn();
    EXPECT_EQ(test(*receiving, nullptr).code(), Errc::WouldBlock);
  }
  EXPECT_LT(loop(1).turns() - late, kTests + 64u);
}

TEST_F(LatePoller, LooksOfAPollerThatDozesKeepNoCallerAway) {
  Request* const receiving = *talk_->receive({.bytes = 8});
  for (int i = 0; i < kTests; ++i) {
    loop(1).look();
    EXPECT_EQ(test(*receiving, nullptr).code(), Errc::WouldBlock);
  }
  EXPECT_GT(loop(1).turns(), kTests + kTests / 2u);
}

TEST_F(LatePoller, ALookGivesUpWhileTheLockIsHeld) {
  const engine::ProgressLoop::Guard guard(loop(1));
  EXPECT_FALSE(loop(1).look());
}

TEST_F(LatePoller, ALookSaysWhetherAnythingHasMoved) {
  loop(1).look();
  EXPECT_FALSE(loop(1).look());
  talk_->exchange(8);
  EXPECT_TRUE(loop(1).look());
  EXPECT_FALSE(loop(1).look());
}

}  // namespace
}  // namespace mesh
