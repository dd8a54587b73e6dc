#include "engine/pollers.h"

#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <sched.h>
#include <algorithm>
#include <chrono>
#include <utility>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kYieldPasses = 5000;  // that find nothing, in about 1.5 ms; then it dozes
// Passes without a yield between two looks at the clock: at most 10 us, and the look takes 40 ns.
constexpr std::uint32_t kSpinsToLook = 64;
}  // namespace

Poller::Poller(const verbs::Rail& rail, const topo::HostTopology& host)
    : name_(rail.info.name), idle_(kYieldPasses) {
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
  LOG_DETAIL("poller of {}: {} passes, {} yields, {} naps; it stood back {} times", name_,
             loops_.passes(), idle_yields_.get(), naps_.get(), stand_backs_.get());
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

bool Poller::look() noexcept {
  bool moved = false;
  loops_.pass([&moved](ProgressLoop& loop) { moved |= loop.look(); });
  return moved;
}

// Returns true if a loop has come meanwhile, or the poller is to end.
bool Poller::nap(std::uint64_t ns) {
  naps_.add(1);
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return has_news_; });
  return std::exchange(has_news_, false);
}

// Leaves the loops to their callers until something has moved, but at least until `until_ns`.
void Poller::doze(std::uint64_t until_ns) {
  std::uint64_t nap_ns = kNapMinNs;
  while (!nap(nap_ns) && (!look() || clock_.now_ns() < until_ns))
    nap_ns = std::min(2 * nap_ns, kPollerAwayMaxNs);
  idle_.worked();
  cpu_.restart();
}

// A poller that loses its CPU inside a turn holds the progress lock of a loop for a slice of the
// kernel's scheduler, and no caller can help.
void Poller::stand_back() {
  stand_backs_.add(1);
  if (!std::exchange(told_, true)) {
    LOG_INFO("poller of {}: other threads take CPU {}, so NCCL's threads poll meanwhile", name_,
             fmt::join(cpus_, ","));
  }
  do {
    doze(clock_.now_ns() + kPollerAwayMaxNs);
  } while (!stopped() && !keeps_cpu());
}

// Spins as a poller does, without its loops, and returns true if no other thread took its CPU.
bool Poller::keeps_cpu() noexcept {
  const std::uint64_t end_ns = clock_.now_ns() + kPollerProbeNs;
  while (clock_.now_ns() < end_ns && !stopped()) {
    if (cpu_.lost()) return false;
    ::sched_yield();
  }
  return true;
}

// Called after each pass. A yield may last long.
bool Poller::has_lost_cpu(IdleBackOff::Act act) noexcept {
  if (act == IdleBackOff::Act::Spin && ++spins_ % kSpinsToLook != 0) return false;
  return cpu_.lost();
}

void Poller::run() {
  // pin_this_thread() has logged a failure; an unpinned poller works too.
  static_cast<void>(topo::pin_this_thread(cpus_));
  while (!stopped()) {
    IdleBackOff::Act act = IdleBackOff::Act::Spin;
    if (pass()) {
      idle_.worked();
    } else {
      act = idle_.next();
    }
    if (act == IdleBackOff::Act::Yield) {
      idle_yields_.add(1);
      ::sched_yield();
    }
    if (act == IdleBackOff::Act::Rest) {
      doze(0);
    } else if (has_lost_cpu(act)) {
      stand_back();
    }
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
