// A dead peer soon causes an error; a peer that only stands still is waited for.
#include "tests/e2e/line.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

// This path time-out is so long that only the peer's death can end the flow.
constexpr const char* kPathTimeoutS = "3600";

[[noreturn]] void die() {
  ::raise(SIGKILL);
  std::abort();
}

// Kills the rank that the argument names in the middle of the flow; "fork" leaves a sleeping child
// behind.
const Scenario kKilled("killed", [](Peer& peer) {
  const bool with_child = peer.argument().find("fork") != std::string::npos;
  const int victim = peer.argument()[0] - '0';
  Flow flow(peer);
  flow.let_flow(20);
  if (peer.rank() == victim && with_child && ::fork() == 0) {
    for (;;) ::pause();  // a data loader; the launcher ends it with its group
  }
  peer.barrier();
  if (peer.rank() == victim) die();
  flow.expect_death();
});

// Returns true if a line says that the peer is gone. On real verbs a write may meet memory that the
// kernel has taken back before the control connection tells.
bool tells_of_death(const std::string& output) {
  return output.find("nobody listens on its control port any more") != std::string::npos ||
         output.find("the peer's memory is no longer registered") != std::string::npos;
}

void expect_error_soon(const std::string& argument) {
  const std::vector<RankEnd> ranks = run(
      kKilled, {.argument = argument, .environment = {{"NCCL_MESH_PATH_TIMEOUT", kPathTimeoutS}}});
  if (testing::Test::IsSkipped()) return;
  ASSERT_EQ(ranks.size(), 2u);
  const auto victim = static_cast<std::size_t>(argument[0] - '0');
  const RankEnd& survivor = ranks[1 - victim];
  EXPECT_EQ(ranks[victim].end.code, SIGKILL) << ranks[victim].output;
  EXPECT_TRUE(survivor.finished && survivor.end.success()) << survivor.end.text() << "\n"
                                                           << survivor.output;
  EXPECT_TRUE(tells_of_death(survivor.output))
      << "something else than the peer's death ended the flow\n"
      << survivor.output;
}
TEST(Death, ReceiverKilledMidTransfer) { expect_error_soon("1"); }
TEST(Death, SenderKilledMidTransfer) { expect_error_soon("0"); }
TEST(Death, ReceiverKilledWhileItsForkedChildSleeps) { expect_error_soon("1 fork"); }
TEST(Death, SenderKilledWhileItsForkedChildSleeps) { expect_error_soon("0 fork"); }

// Stops the process. A timer wakes it again, for nobody on another host can. The timer fires more
// than once: if it fires before the process has stopped, the next time counts.
void stand_still(std::chrono::seconds time) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGCONT;
  timer_t timer{};
  require(::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "no timer");
  itimerspec when{};
  when.it_value.tv_sec = when.it_interval.tv_sec = time.count();
  const auto begin = SteadyClock::now();
  require(::timer_settime(timer, 0, &when, nullptr) == 0, "no timer");
  ::raise(SIGSTOP);
  ::timer_delete(timer);
  const std::chrono::duration<double> stood = SteadyClock::now() - begin;
  require(stood >= time, "it did not stand still");
}

const Scenario kStopped("stopped", [](Peer& peer) {
  Flow flow(peer);
  flow.let_flow(20);
  peer.barrier();
  if (peer.rank() == 1) {
    stand_still(std::chrono::seconds(6));
  } else {
    // Standing still takes real time; nothing else can show that it is not taken for death.
    const int meanwhile = flow.communicator().progress().wait_idle(driver::milliseconds(4000));
    require(meanwhile == driver::kDriverTimeout,
            std::string("a stopped peer was given up: ") + driver::net_result_name(meanwhile));
  }
  flow.let_flow(50);
  peer.barrier();
  require_success(flow.communicator().progress().error(), "data");
});
TEST(Death, AStoppedPeerIsWaitedFor) { expect_run(kStopped); }

}  // namespace
}  // namespace mesh::e2e
