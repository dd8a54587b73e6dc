#include "engine/pollers.h"

#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/yielding.h"

#include <sched.h>
#include <time.h>
#include <algorithm>

namespace mesh::engine {

namespace {
// An empty pass takes some 50 ns, and a yield to nobody some 400 ns. One yield in 32 passes costs a
// poller on a core of its own little, and is enough for a caller that shares the poller's core: the
// caller waited 200 us for a message of 8 bytes when the first yield came after 2000 passes, and 7
// us with a yield every 32 passes (perf/handoff, software fabric, two cores).
constexpr std::uint32_t kPassesBetweenYields = 32;
constexpr std::uint32_t kSpinPasses = 2000;    // about 100 us; then a yield after every pass
constexpr std::uint32_t kYieldPasses = 20000;  // then a sleep after every pass
constexpr long kSleepNs = 50'000;  // bounds what a sleeping poller adds to a message's latency
}  // namespace

Poller::Poller(const verbs::Rail& rail, const topo::HostTopology& host) : name_(rail.info.name) {
  Result<topo::CpuClaim> claim = topo::claim_cpu(host, rail.info.numa_node);
  if (claim.ok()) {
    claim_ = std::move(*claim);
    cpus_ = {claim_.cpu};
    LOG_INFO("poller of {} on CPU {}", name_, claim_.cpu);
  } else {
    cpus_ = host.allowed_on(rail.info.numa_node);
    LOG_INFO("poller of {}: pollers have every CPU that it may use, so it shares {}", name_,
             fmt::join(cpus_, ","));
  }
}

Status Poller::start() {
  return start_own_thread(thread_, "mesh-poll", [this] { run(); });
}

Poller::~Poller() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
  LOG_DETAIL("poller of {}: {} passes, {} yields, {} sleeps", name_,
             passes_.load(std::memory_order_relaxed) / 2, idle_yields_.get(), idle_sleeps_.get());
}

bool Poller::add(ProgressLoop& loop) {
  for (std::atomic<ProgressLoop*>& place : loops_) {
    if (place.load(std::memory_order_relaxed) != nullptr) continue;
    place.store(&loop, std::memory_order_release);
    return true;
  }
  return false;
}

bool Poller::remove(ProgressLoop& loop) noexcept {
  const auto found = std::find_if(loops_.begin(), loops_.end(), [&loop](const auto& place) {
    return place.load(std::memory_order_relaxed) == &loop;
  });
  if (found == loops_.end()) return false;
  // seq_cst, as in pass(): either the pass sees null, or we see that the pass runs and wait for its
  // end.
  found->store(nullptr, std::memory_order_seq_cst);
  const std::uint64_t seen = passes_.load(std::memory_order_seq_cst);
  Yielding pass;
  while (seen % 2 == 1 && passes_.load(std::memory_order_seq_cst) == seen) pass.wait();
  return true;
}

std::size_t Poller::load() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      loops_.begin(), loops_.end(),
      [](const auto& place) { return place.load(std::memory_order_relaxed) != nullptr; }));
}

bool Poller::pass() noexcept {
  bool worked = false;
  passes_.fetch_add(1, std::memory_order_seq_cst);
  for (std::atomic<ProgressLoop*>& place : loops_) {
    ProgressLoop* const loop = place.load(std::memory_order_seq_cst);
    if (loop != nullptr) worked |= loop->try_turn();
  }
  passes_.fetch_add(1, std::memory_order_seq_cst);
  return worked;
}

void Poller::rest(std::uint32_t idle_passes) noexcept {
  if (idle_passes < kSpinPasses && idle_passes % kPassesBetweenYields != kPassesBetweenYields - 1)
    return;
  if (idle_passes < kYieldPasses) {
    idle_yields_.add(1);
    ::sched_yield();
    return;
  }
  idle_sleeps_.add(1);
  const timespec pause{.tv_sec = 0, .tv_nsec = kSleepNs};
  ::nanosleep(&pause, nullptr);
}

void Poller::run() {
  // pin_this_thread() has logged a failure; an unpinned poller works too.
  static_cast<void>(topo::pin_this_thread(cpus_));
  std::uint32_t idle_passes = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    idle_passes = pass() ? 0 : std::min(idle_passes + 1, kYieldPasses);
    rest(idle_passes);
  }
}

// Makes a NIC's pollers, or fewer of them if not enough threads can be started. The caller does not
// keep a NIC without pollers, so the next loop tries again.
Pollers::Nic Pollers::make_nic(const verbs::Rail& rail) const {
  Nic nic{.rail = &rail, .pollers = {}};
  for (int i = 0; i < threads_per_nic_; ++i) {
    auto poller = std::make_unique<Poller>(rail, host_);
    if (!poller->start().ok()) break;
    nic.pollers.push_back(std::move(poller));
  }
  const auto count = static_cast<int>(nic.pollers.size());
  if (count < threads_per_nic_) {
    LOG_WARN("{}: {} of {} pollers have a thread; {}", rail.info.name, count, threads_per_nic_,
             count == 0 ? "this communicator's callers turn its queues" : "they serve all");
  }
  return nic;
}

bool Pollers::add(ProgressLoop& loop, const verbs::Rail& rail) {
  if (threads_per_nic_ == 0) return false;
  auto nic = std::find_if(nics_.begin(), nics_.end(),
                          [&rail](const Nic& each) { return each.rail == &rail; });
  if (nic == nics_.end()) {
    Nic made = make_nic(rail);
    if (made.pollers.empty()) return false;
    nics_.push_back(std::move(made));
    nic = std::prev(nics_.end());
  }
  const auto least =
      std::min_element(nic->pollers.begin(), nic->pollers.end(),
                       [](const auto& a, const auto& b) { return a->load() < b->load(); });
  return (*least)->add(loop);
}

void Pollers::remove(ProgressLoop& loop) noexcept {
  for (Nic& nic : nics_) {
    for (const auto& poller : nic.pollers) {
      if (poller->remove(loop)) return;
    }
  }
}

}  // namespace mesh::engine
