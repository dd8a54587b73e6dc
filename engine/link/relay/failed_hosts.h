#pragma once
// The hosts over which a path has failed of late: the last ones to be tried again. Thread: control
// mutex. Bound: kRelayHostsMax hosts.

#include "engine/link/relay/routes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class FailedHosts {
 public:
  // For so long; a path that has carried for longer begins anew.
  static constexpr std::uint64_t kRememberedNs = 60'000'000'000;

  // A route has failed: one host of it, or nobody knows which, where the ticket is zero.
  void add(const RelayRoute& route, const Id128& at_fault, std::uint64_t now_ns) {
    if (now_ns >= last_ns_ + kRememberedNs) tickets_.clear();
    last_ns_ = now_ns;
    for (const RouteHop& hop : route.hops) {
      const Id128& ticket = hop.host.ticket;
      const bool failed = at_fault == Id128{} || at_fault == ticket;
      if (failed && !holds(ticket) && tickets_.size() < kRelayHostsMax) tickets_.push_back(ticket);
    }
  }
  const std::vector<Id128>& tickets() const noexcept { return tickets_; }
  // This route is tried now. If it leads over one of them, there is no other: all begin anew.
  void begin(const RelayRoute& route) noexcept {
    const bool any = std::any_of(route.hops.begin(), route.hops.end(),
                                 [this](const RouteHop& hop) { return holds(hop.host.ticket); });
    if (any) tickets_.clear();
  }

 private:
  bool holds(const Id128& ticket) const noexcept {
    return std::find(tickets_.begin(), tickets_.end(), ticket) != tickets_.end();
  }

  std::vector<Id128> tickets_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace mesh::engine
