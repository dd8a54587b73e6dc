#pragma once
// Dedicated threads that turn loops, pinned near their NIC. A poller spins while there is work,
// then yields, then sleeps briefly, and it counts its yields and sleeps. Threads start with the
// first loop of a NIC and end with the engine. Thread: add and remove under the control mutex;
// remove waits until no poller can be inside the loop. Bound: kLoopsPerPoller loops for each
// poller, threads_per_nic pollers for each NIC.

#include <mesh/metrics.h>
#include <mesh/status.h>

#include "engine/data/progress_loop.h"
#include "src/base/served_set.h"
#include "src/topo/placement.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kLoopsPerPoller = 256;

class Poller {
 public:
  Poller(const verbs::Rail& rail, const topo::HostTopology& host);
  Status start();  // called once; fails if no thread can be started
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The loops of this poller, of which add() and remove() are called under the control mutex.
  ServedSet<ProgressLoop, kLoopsPerPoller> loops;

 private:
  void run();
  bool pass() noexcept;
  void rest(IdleBackOff::Step step) noexcept;

  const std::string name_;
  std::vector<int> cpus_;
  topo::CpuClaim claim_;
  std::atomic<bool> stop_{false};
  Counter idle_yields_, idle_sleeps_;
  std::thread thread_;
};

class Pollers {
 public:
  // With threads_per_nic 0 there are no pollers: NCCL's threads turn the loops.
  void configure(int threads_per_nic, const topo::HostTopology& host) {
    threads_per_nic_ = threads_per_nic, host_ = host;
  }
  // Gives the loop to the least loaded poller of the rail. Returns false if it has no poller, so
  // that only its callers turn it.
  bool add(ProgressLoop& loop, const verbs::Rail& rail);
  void remove(ProgressLoop& loop) noexcept;
  void stop() noexcept { nics_.clear(); }

 private:
  struct Nic {
    const verbs::Rail* rail = nullptr;
    std::vector<std::unique_ptr<Poller>> pollers;
  };

  Nic make_nic(const verbs::Rail& rail) const;

  int threads_per_nic_ = 0;
  topo::HostTopology host_;
  std::vector<Nic> nics_;
};

}  // namespace mesh::engine
