#include "tests/sim/jobs.h"

#include "src/base/unique_fd.h"
#include "tests/sim/memory.h"

#include <sys/time.h>

namespace mesh::sim {
namespace {

static_assert(sizeof(Report) <= PIPE_BUF, "a report is written whole or not at all");

struct Worker {
  pid_t pid = -1;
  UniqueFd orders;   // seeds to it
  UniqueFd reports;  // from it
  std::uint64_t seed = 0;
};

void copy_text(const std::string& text, char* to, std::size_t bytes) {
  // The end of a text says what happened last.
  const std::size_t skip = text.size() < bytes ? 0 : text.size() - bytes + 1;
  std::memcpy(to, text.data() + skip, text.size() - skip);
  to[text.size() - skip] = 0;
}

Report report_of(std::uint64_t seed, const Verdict& verdict) {
  Report report;
  report.seed = seed;
  report.hash = verdict.hash;
  report.events = verdict.events;
  report.simulated_ns = verdict.simulated_ns;
  report.tally = verdict.tally;
  report.failed = !verdict.violation.empty();
  // The beginning of the text is enough.
  report.violation[verdict.violation.copy(report.violation, sizeof report.violation - 1)] = 0;
  copy_text(verdict.last_events, report.last_events, sizeof report.last_events);
  return report;
}

// Limits a seed's processor time, so that a busy machine condemns no seed, and for a seed that
// sleeps its wall time, to ten times as much. 0 removes both limits.
void give_time(unsigned seconds) {
  const itimerval processor{.it_interval = {},
                            .it_value = {.tv_sec = static_cast<time_t>(seconds), .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &processor, nullptr);
  ::alarm(10 * seconds);
}

[[noreturn]] void work(const Batch& batch, int orders, int reports) {
  std::uint64_t seed = 0;
  while (::read(orders, &seed, sizeof seed) == static_cast<ssize_t>(sizeof seed)) {
    give_time(batch.limit_s);
    const Report report = report_of(seed, run_seed(seed, batch.options, false));
    give_time(0);
    if (::write(reports, &report, sizeof report) != static_cast<ssize_t>(sizeof report)) break;
  }
  std::_Exit(0);
}

// Returns the report on a worker's seed after the process has died in the midst of it.
Report bury(Worker& worker) {
  int status = 0;
  ::waitpid(worker.pid, &status, 0);
  Report report;
  report.seed = worker.seed;
  report.failed = true;
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string how =
      number == SIGALRM || number == SIGPROF ? "it takes too long: some call does not return"
      : number != 0                          ? fmt::format("it crashed: {}", strsignal(number))
                    : fmt::format("its process ended with status {}", WEXITSTATUS(status));
  copy_text(how, report.violation, sizeof report.violation);
  return report;
}

class Crew {
 public:
  Crew(const Batch& batch, const std::function<void(const Report&)>& told)
      : batch_(batch), told_(told) {}

  std::uint64_t run() {
    static_cast<void>(source_memory());  // once, for all processes
    std::signal(SIGPIPE, SIG_IGN);
    workers_.resize(
        std::max(1u, std::min<unsigned>(batch_.jobs, static_cast<unsigned>(batch_.seeds.size()))));
    for (Worker& worker : workers_) {
      start(worker);
      give(worker);
    }
    while (busy_ != 0) wait();
    for (Worker& worker : workers_) {
      worker.orders.reset();
      ::waitpid(worker.pid, nullptr, 0);
    }
    return failures_;
  }

 private:
  void start(Worker& worker) {
    int orders[2], reports[2];
    if (::pipe(orders) != 0 || ::pipe(reports) != 0)
      throw std::runtime_error("no pipe is to be had");
    worker.pid = ::fork();
    if (worker.pid == 0) {
      ::close(orders[1]);
      ::close(reports[0]);
      workers_.clear();  // inherited ends: the other workers must see their pipes close
      work(batch_, orders[0], reports[1]);
    }
    ::close(orders[0]);
    ::close(reports[1]);
    worker.orders = UniqueFd(orders[1]);
    worker.reports = UniqueFd(reports[0]);
  }

  void give(Worker& worker) {
    worker.seed = 0;
    if (next_ == batch_.seeds.size() || failures_ >= batch_.failures_max) return;
    worker.seed = batch_.seeds[next_++];
    ++busy_;
    if (::write(worker.orders.get(), &worker.seed, sizeof worker.seed) < 0)
      return;  // its death is read below
  }

  void wait() {
    std::vector<pollfd> waits;
    for (const Worker& worker : workers_)
      waits.push_back(
          {.fd = worker.seed == 0 ? -1 : worker.reports.get(), .events = POLLIN, .revents = 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) return;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) take(workers_[i]);
    }
  }

  void take(Worker& worker) {
    Report report;
    const bool whole =
        ::read(worker.reports.get(), &report, sizeof report) == static_cast<ssize_t>(sizeof report);
    if (!whole) {
      report = bury(worker);
      start(worker);
    }
    --busy_;
    failures_ += report.failed ? 1 : 0;
    told_(report);
    give(worker);
  }

  const Batch& batch_;
  const std::function<void(const Report&)>& told_;
  std::vector<Worker> workers_;
  std::size_t next_ = 0, busy_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace

std::uint64_t run_batch(const Batch& batch, const std::function<void(const Report&)>& told) {
  if (batch.seeds.empty()) return 0;
  return Crew(batch, told).run();
}

}  // namespace mesh::sim
