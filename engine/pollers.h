#pragma once
// Dedicated threads that turn loops, pinned near their NIC. A poller spins while there is work,
// then yields, then sleeps briefly, and at last dozes: callers then turn its loops, until it sees
// that a loop has work. It counts its yields and sleeps. Threads start with the first loop of a NIC
// and end with the engine. Thread: add and remove under the control mutex; remove waits until no
// poller can be inside the loop. Bound: kLoopsPerPoller loops for each poller, threads_per_nic
// pollers for each NIC.

#include <mesh/metrics.h>
#include <mesh/status.h>

#include "engine/data/progress_loop.h"
#include "src/base/served_set.h"
#include "src/topo/placement.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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

  // ---- Under the control mutex.
  bool add(ProgressLoop& loop);
  bool remove(const ProgressLoop& loop) noexcept { return loops_.remove(loop); }
  std::size_t size() const noexcept { return loops_.size(); }

 private:
  void run();
  bool pass() noexcept;
  void rest(IdleBackOff::Step step) noexcept;
  void doze();
  bool nap(std::uint64_t ns);
  void wake();

  const std::string name_;
  std::vector<int> cpus_;
  topo::CpuClaim claim_;
  ServedSet<ProgressLoop, kLoopsPerPoller> loops_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable news_;
  bool has_news_ = false;  // mutex: a loop has come, or the poller is to end
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
