#include "tests/os_faults/child_run.h"

#include "tests/os_faults/process_state.h"

namespace mesh::testkit {
namespace {

using Clock = std::chrono::steady_clock;
// Ends the wait for threads that end and for what they hold. If one stays, that is the finding.
constexpr std::chrono::seconds kSettleTime{60};
// An engine that goes on keeps a context that has ended for a second.
constexpr std::chrono::seconds kLingerTime{3};
constexpr int kRunsAfterHang = 4;
constexpr int kRunsWithFault = 8;
// A scenario with a fault takes no longer: every stated time-out fits in it many times, and none of
// 300 s does.
constexpr double kSecondsMax = 150;

std::string words(const End& end) {
  if (end.succeeded()) return "all succeeded";
  if (end.stuck) return fmt::format("{} took longer than {} s", end.step, kWaitSeconds);
  return fmt::format("{} answered {}", end.step, static_cast<int>(end.result));
}

// Waits until the engine, which says goodbye on its own thread beyond the last finalize, is done.
ProcessState state_after_goodbyes(const ProcessState& before, std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  ProcessState state = ProcessState::settled();
  while (!before.differs_in_memory_alone(state) && Clock::now() < deadline) {
    ::usleep(1000);
    state = ProcessState::settled();
  }
  return state;
}

std::string difference_that_stays(const ProcessState& before) {
  std::string difference = before.difference(state_after_goodbyes(before, kSettleTime));
  const auto deadline = Clock::now() + kLingerTime;
  while (!difference.empty() && Clock::now() < deadline) {
    ::usleep(1000);
    difference = before.difference(ProcessState::settled());
  }
  return difference;
}

// The part of a report that crosses from the child to its parent.
struct Shared {
  std::array<std::uint64_t, door::kKinds> counts{};
  std::atomic<const char*> symbol{nullptr};
  std::array<char, 64> end{};
  std::array<char, 1024> complaint{};
  std::array<char, 8192> log{};
  double seconds = 0;
};

template <std::size_t kRoom>
void put(const std::string& text, std::array<char, kRoom>& into) {
  std::snprintf(into.data(), into.size(), "%s", text.c_str());
}

void copy(const RunReport& report, Shared& shared) {
  shared.counts = report.counts;
  shared.seconds = report.seconds;
  put(report.end, shared.end);
  put(report.complaint, shared.complaint);
  put(report.log, shared.log);
}

}  // namespace

RunReport run_here(const nccl::NewestNet& net, const RunOrder& order) {
  RunReport report;
  const auto complain = [&report](const std::string& what) {
    report.complaint += (report.complaint.empty() ? "" : "; ") + what;
  };
  door::arm({});
  void* const bystander = order.company == Company::Beside ? open_bystander(net) : nullptr;
  const ProcessState fresh = ProcessState::settled();
  if (const End warm = run_scenario(net); !warm.succeeded())
    complain("without a fault " + words(warm));
  // If the engine goes on it says no goodbye, and has more threads than before the warm-up.
  const ProcessState before =
      state_after_goodbyes(fresh, bystander == nullptr ? kSettleTime : kLingerTime);
  door::set_mark();
  take_log();

  door::arm(order.fault);
  const auto begin = Clock::now();
  const End end = run_scenario(net);
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  door::disarm();
  door::let_go();
  for (std::size_t i = 0; i < door::kKinds; ++i)
    report.counts[i] = door::counted(static_cast<door::Kind>(i));
  report.end = words(end);
  report.log = take_log();
  if (end.stuck) complain(words(end));
  if (report.seconds > kSecondsMax)
    complain(fmt::format("the scenario took {:.1f} s", report.seconds));
  if (!end.succeeded() && report.log.find("WARN") == std::string::npos)
    complain(words(end) + " without a word");
  const auto compare = [&] {
    if (const std::string difference = difference_that_stays(before); !difference.empty())
      complain(difference);
  };
  // A file system that hung leaves one thread and its page behind; the next init finds the thread
  // ended and takes both away.
  const bool hung = order.fault.mode == door::Mode::Hang;
  // Memory that is allocated once, such as that of a line that is logged once, is no leak: a leak
  // adds memory in each run with this fault. Threads race, so a later run's n-th call may be
  // another one.
  std::string added = hung ? "" : difference_that_stays(before);
  for (int i = 0; i < kRunsWithFault && !added.empty(); ++i) {
    const ProcessState after = ProcessState::settled();
    if (!before.differs_in_memory_alone(after)) break;
    door::set_mark();
    door::arm(order.fault);
    run_scenario(net);
    door::disarm();
    added = difference_that_stays(after);
  }
  if (!added.empty()) complain(added);
  for (int i = 0; i < (hung ? kRunsAfterHang : 1); ++i) {
    if (i != 0 && difference_that_stays(before).empty()) break;
    if (const End again = run_scenario(net); !again.succeeded())
      complain("the next communicator: " + words(again) + "\n" + take_log());
  }
  if (hung) compare();
  if (bystander != nullptr) close_bystander(net, bystander);
  return report;
}

RunReport run_in_child(const nccl::NewestNet& net, const RunOrder& order) {
  void* const page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("no shared page");
  auto* const shared = new (page) Shared{};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kChildSeconds);
    put("did not come to its end", shared->complaint);
    door::record_symbol_in(shared->symbol);
    copy(run_here(net, order), *shared);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  RunReport report{.counts = shared->counts,
                   .symbol = shared->symbol.load() == nullptr ? "" : shared->symbol.load(),
                   .end = shared->end.data(),
                   .complaint = shared->complaint.data(),
                   .seconds = shared->seconds,
                   .log = shared->log.data()};
  if (WIFSIGNALED(status)) {
    report.complaint =
        WTERMSIG(status) == SIGALRM
            ? fmt::format("hung for {} s", kChildSeconds)
            : fmt::format("killed by {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  ::munmap(page, sizeof(Shared));
  return report;
}

}  // namespace mesh::testkit
