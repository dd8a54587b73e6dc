#include "engine/pollers.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <sched.h>
#include <time.h>
#include <algorithm>
#include <chrono>
#include <utility>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kYieldPasses = 20000;  // that find nothing; then a sleep after each
}  // namespace

Poller::Poller(const verbs::Rail& rail, const topo::HostTopology& host) : name_(rail.info.name) {
  Result<topo::CpuClaim> claim = topo::claim_cpu(host, rail.info.numa_node);
  if (claim.ok()) {
    claim_ = std::move(*claim);
    cpus_ = {claim_.cpu};
    LOG_DETAIL("poller of {} on CPU {}", name_, claim_.cpu);
  } else {
    cpus_ = host.allowed_on(rail.info.numa_node);
    LOG_INFO("poller of {}: every CPU that it may use has a poller already, so it shares CPU {}",
             name_, fmt::join(cpus_, ","));
  }
}

Status Poller::start() {
  return start_own_thread(thread_, "mesh-poll", [this] { run(); });
}

Poller::~Poller() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_relaxed);
  wake();
  thread_.join();
  LOG_DETAIL("poller of {}: {} passes, {} yields, {} sleeps", name_, loops_.passes(),
             idle_yields_.get(), idle_sleeps_.get());
}

bool Poller::add(ProgressLoop& loop) {
  if (!loops_.add(loop)) return false;
  wake();
  return true;
}

void Poller::wake() {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = true;
  }
  news_.notify_one();
}

bool Poller::pass() noexcept {
  bool worked = false;
  loops_.pass([&worked](ProgressLoop& loop) { worked |= loop.poller_turn(); });
  return worked;
}

void Poller::rest(IdleBackOff::Step step) noexcept {
  if (step == IdleBackOff::Step::Spin) return;
  if (step == IdleBackOff::Step::Yield) {
    idle_yields_.add(1);
    ::sched_yield();
    return;
  }
  idle_sleeps_.add(1);
  const timespec pause{.tv_sec = 0, .tv_nsec = kPollerSleepNs};
  ::nanosleep(&pause, nullptr);
}

// Returns true if a loop has come meanwhile, or the poller is to end.
bool Poller::nap(std::uint64_t ns) {
  idle_sleeps_.add(1);
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return has_news_; });
  return std::exchange(has_news_, false);
}

// Callers turn the loops, so that a message waits for no nap.
void Poller::doze() {
  loops_.pass([](ProgressLoop& loop) { loop.let_callers_turn(true); });
  std::uint64_t nap_ns = kPollerNapMinNs;
  bool moved = false;
  while (!moved && !nap(nap_ns)) {
    moved = pass();
    // Callers may hold the lock whenever this thread tries it.
    loops_.pass([&moved](ProgressLoop& loop) { moved |= loop.moved(); });
    nap_ns = std::min(2 * nap_ns, kPollerNapMaxNs);
  }
  loops_.pass([](ProgressLoop& loop) { loop.let_callers_turn(false); });
}

void Poller::run() {
  // pin_this_thread() has logged a failure; an unpinned poller works too.
  static_cast<void>(topo::pin_this_thread(cpus_));
  const Clock clock;
  IdleBackOff idle(kYieldPasses);
  std::uint64_t worked_ns = clock.now_ns();
  while (!stop_.load(std::memory_order_relaxed)) {
    if (pass()) {
      idle.worked();
      worked_ns = 0;  // read when there is time for it
      continue;
    }
    const IdleBackOff::Step step = idle.next();
    rest(step);
    if (step != IdleBackOff::Step::Rest) continue;
    const std::uint64_t now_ns = clock.now_ns();
    if (worked_ns == 0) worked_ns = now_ns;
    if (now_ns < worked_ns + kPollerIdleToDozeNs) continue;
    doze();
    idle.worked();
    worked_ns = 0;
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
    LOG_WARN("{}: {} of {} poller threads run; {}", rail.info.name, count, threads_per_nic_,
             count == 0 ? "NCCL's threads poll for this communicator" : "these poll for all");
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
                       [](const auto& a, const auto& b) { return a->size() < b->size(); });
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
