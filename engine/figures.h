#pragma once
// The counters and states of an engine at one moment, for operators. The counters include those of
// links and loops that have ended. Thread: control mutex; it takes each loop's progress lock to
// read what belongs to it. Bound: one row for each peer.

#include <mesh/metrics.h>
#include <mesh/snapshot.h>

#include "engine/link/context.h"
#include "engine/link/link_host.h"
#include "engine/peer_ledger.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mesh::engine {

class RelayService;

class Figures {
 public:
  using Contexts = std::vector<std::unique_ptr<Context>>;

  EngineStats stats(const Contexts& contexts) const;
  // Fills in everything but host, statistics and rails.
  void add_to(EngineSnapshot& shot, const Contexts& contexts, std::uint64_t now_ns) const;

  // Keep the counts of a link or a loop that is about to be destroyed.
  void keep(const Link& link, std::uint64_t now_ns) noexcept;
  void keep(const LoopCounters& loop) noexcept { ended_loops_.add(loop); }

  // Logs a line for each link of a context that closes now: the link's goodbyes may come only after
  // NCCL has gone.
  void sum_up(Context& context, std::uint64_t now_ns) const noexcept;

  // Logs a line for each pair of rails between which this process carried bytes for other hosts:
  // how many, and their share of all bytes that left over the second rail. Called when no link is
  // left.
  void sum_up(const RelayService& relays) const noexcept;

  LinkCounts counts;

 private:
  PeerLedger ended_;
  LoopCounters ended_loops_;
};

// Asks the devices for the state of each port; a port's firmware may take its time. Thread: any,
// without the mutex.
std::vector<RailSnapshot> rail_states(const EngineOptions& options,
                                      std::span<const verbs::Rail> rails);

}  // namespace mesh::engine
