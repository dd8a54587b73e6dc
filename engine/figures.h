#pragma once
// What operators see of an engine: counters and states at one moment, with those of links and loops
// that have ended. Thread: control mutex; it takes each loop's token to read what belongs to it.
// Bound: a row a peer (peer_ledger.h).

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
  // Everything but host, statistics and rails.
  void add_to(EngineSnapshot& shot, const Contexts& contexts, std::uint64_t now_ns) const;

  // What is about to be forgotten: what it has counted stays.
  void keep(const Link& link, std::uint64_t now_ns) noexcept;
  void keep(const LoopCounters& loop) noexcept { ended_loops_.add(loop); }

  // A line for each link of a context that closes now: its goodbyes may come after NCCL has gone.
  void sum_up(Context& context, std::uint64_t now_ns) const noexcept;

  // A line for each two rails between which something was carried for others: how much, and its
  // share of what has left over the second one. No link is left.
  void sum_up(const RelayService& relays) const noexcept;

  LinkCounts counts;

 private:
  PeerLedger ended_;
  LoopCounters ended_loops_;
};

// The devices are asked, and a port's firmware may take its time. Thread: any, without the mutex.
std::vector<RailSnapshot> rail_states(const EngineOptions& options,
                                      std::span<const verbs::Rail> rails);

}  // namespace mesh::engine
