#pragma once
// Dedicated threads that turn loops, pinned near their NIC. A poller spins while there is work,
// then yields, and then dozes until it sees that a loop has work. A poller whose CPU another thread
// takes stands back: it dozes for a second at least. Callers notice that a poller makes no turns,
// and turn its loops. It counts its yields and naps. Threads start with the first loop of a NIC and
// end with the engine. Thread: add and remove under the control mutex; remove waits until no poller
// can be inside the loop. Bound: kLoopsPerPoller loops for each poller, threads_per_nic pollers for
// each NIC.

#include <mesh/metrics.h>
#include <mesh/status.h>

#include "engine/data/progress_loop.h"
#include "src/base/clock.h"
#include "src/base/cpu_watch.h"
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
  bool look() noexcept;
  bool has_lost_cpu(IdleBackOff::Act act) noexcept;
  bool keeps_cpu() noexcept;
  void doze(std::uint64_t until_ns);
  void stand_back();
  bool nap(std::uint64_t ns);
  bool stopped() const noexcept { return stop_.load(std::memory_order_relaxed); }
  void wake();

  const std::string name_;
  std::vector<int> cpus_;
  topo::CpuClaim claim_;
  ServedSet<ProgressLoop, kLoopsPerPoller> loops_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable news_;
  bool has_news_ = false;  // mutex: a loop has come, or the poller is to end
  // The thread's own.
  const Clock clock_;
  CpuWatch cpu_;
  IdleBackOff idle_;
  std::uint32_t spins_ = 0;
  bool told_ = false;  // that another thread takes its CPU
  Counter idle_yields_, naps_, stand_backs_;
  std::thread thread_;
};

class Pollers {
 public:
  // With threads_per_nic 0 there are no pollers: NCCL's threads turn the loops.
  void configure(int threads_per_nic, const topo::HostTopology& host) {
    threads_per_nic_ = threads_per_nic;
    host_ = host;
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
