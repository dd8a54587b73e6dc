#include "tests/e2e/ring_job.h"

#include "perf/driver/plugin_log.h"
#include "tests/e2e/fabric_door.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kHealthyRounds = 3;
constexpr int kRoundsMin = 2;
constexpr std::chrono::microseconds kLook{200};

double since(SteadyClock::time_point begin) { return Seconds(SteadyClock::now() - begin).count(); }

std::string host_name(int host) {
  return std::string(1, static_cast<char>('a' + host % kRingHosts));
}

void tell_end(const CableEnd& end, soft::FaultVerb verb, soft::FaultKind kind) {
  tell(host_name(end.far ? end.cable + 1 : end.cable),
       {.verb = verb, .fault = {.kind = kind, .nic = end.far ? "prev" : "next"}});
}

void tell_both_ends(int from, soft::FaultVerb verb) {
  for (const bool far : {false, true})
    tell_end({.cable = from, .far = far}, verb, soft::FaultKind::PortDown);
}

void tell_card(const CableEnd& end, soft::FaultVerb verb) {
  tell_end(end, verb, soft::FaultKind::CardReplaced);
  tell_end({.cable = end.cable, .far = !end.far}, verb, soft::FaultKind::PortDown);
}

std::uint64_t posted_by_a() {
  std::uint64_t bytes = 0;
  for (const char* const nic : {"next", "prev"})
    bytes += tell("a", {.verb = soft::FaultVerb::Look, .fault = {.nic = nic}}).bytes;
  return bytes;
}

void wait_s(double seconds) { std::this_thread::sleep_for(Seconds(seconds)); }

}  // namespace

std::vector<pid_t> processes(Peer& peer) {
  std::vector<pid_t> all;
  for (const std::string& each : peer.all_gather(std::to_string(::getpid())))
    all.push_back(static_cast<pid_t>(std::stol(each)));
  return all;
}

void stop_for(pid_t process, double seconds) {
  require(::kill(process, SIGSTOP) == 0, "a process was not stopped");
  wait_s(seconds);
  require(::kill(process, SIGCONT) == 0, "a process was not continued");
}

bool ends_within(pid_t process, driver::milliseconds time) {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (fd.get() < 0) return true;  // it has gone already
  pollfd waiting{fd.get(), POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(time.count())) == 1;
}

void cut_cable(int from) { tell_both_ends(from, soft::FaultVerb::Arm); }
void mend_cable(int from) { tell_both_ends(from, soft::FaultVerb::Lift); }
void take_card(const CableEnd& end) { tell_card(end, soft::FaultVerb::Arm); }
void bring_card(const CableEnd& end) { tell_card(end, soft::FaultVerb::Lift); }
std::string cable_name(int from) { return host_name(from) + "-" + host_name(from + 1); }

void pause_at_random(std::mt19937_64& random, double most) {
  wait_s(most * static_cast<double>(random() % 1000) / 1000);
}

std::string route_to(const std::string& peer) {
  const std::string begin = "peer " + peer + ": relayed path ", over = " over ",
                    end = " carries messages";
  std::string route;
  for (const std::string& line : driver::PluginLog::instance().texts()) {
    const std::size_t from = line.find(over), to = line.find(end);
    if (line.starts_with(begin) && from < to && to != std::string::npos)
      route = line.substr(from + over.size(), to - from - over.size());
  }
  for (const std::string hosts : {"host ", "hosts "})
    if (route.starts_with(hosts)) route.erase(0, hosts.size());
  return route;
}

RingJob::RingJob(driver::Communicator& communicator, driver::Bootstrap& team, perf::Kind kind,
                 std::size_t bytes)
    : team_(team), bytes_(bytes) {
  std::string error;
  collective_ = perf::Collective::create({&communicator, &team, 1, patience()},
                                         {.kind = kind, .bytes_max = bytes}, error);
  require(collective_ != nullptr, error);
  count_ = collective_->count_for(bytes);
  std::vector<double> times;
  times.reserve(kHealthyRounds);
  for (int i = 0; i < kHealthyRounds; ++i) times.push_back(verified());
  round_s_ = *std::min_element(times.begin(), times.end());
}

int RingJob::round() {
  std::size_t wrong = 0;
  const int result = collective_->check(count_, ++round_, wrong);
  require(wrong == 0, std::to_string(wrong) + " wrong elements in round " + std::to_string(round_));
  return result;
}

double RingJob::verified(int count) {
  double longest_s = 0;
  for (int i = 0; i < count; ++i) {
    const auto begin = SteadyClock::now();
    require_success(round(), "round " + std::to_string(round_));
    longest_s = std::max(longest_s, since(begin));
  }
  return longest_s;
}

void RingJob::let_flow(std::mt19937_64& random, int rounds_most) const {
  const std::uint64_t most = static_cast<std::uint64_t>(rounds_most) * bytes_;
  const std::uint64_t goal = posted_by_a() + random() % most;
  const auto end = SteadyClock::now() + patience();
  while (posted_by_a() < goal) {
    require(SteadyClock::now() < end, "no data flows");
    std::this_thread::sleep_for(kLook);
  }
}

bool RingJob::agree(bool own) {
  const auto all = team_.all_gather(own ? "1" : "0");
  require(all.ok(), "the ranks of a job did not meet after round " + std::to_string(round_));
  return all->front() == "1";
}

double RingJob::during(const std::function<void()>& act) {
  std::string failure;
  std::atomic<bool> acted{false};
  std::thread other([&] {
    try {
      if (leads()) act();
    } catch (const Failure& why) {
      failure = why.what();
    }
    acted = true;
  });
  double longest_s = 0;
  try {
    for (int i = 0; i < kRoundsMin || !agree(acted); ++i)
      longest_s = std::max(longest_s, verified());
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  require(failure.empty(), failure);
  return longest_s;
}

Moments moments_of(const std::string& argument) {
  Moments moments;
  std::istringstream(argument) >> moments.times >> moments.seed;
  return moments;
}

}  // namespace mesh::e2e
