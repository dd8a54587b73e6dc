#pragma once
// The hosts over which a path has failed lately. They are the last to be tried again. Thread:
// control mutex. Bound: kRelayHostsMax hosts.

#include "engine/link/relay/routes.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class FailedHosts {
 public:
  // Notes that a route has failed, through the host with that ticket. If the ticket is zero nobody
  // knows which host it was, and all hosts of the route are noted. Hosts of a failure longer ago
  // are forgotten, because a path has carried since.
  void add(const RelayRoute& route, const Id128& at_fault, std::uint64_t now_ns) {
    if (now_ns >= last_ns_ + kHostFailedToForgottenNs) tickets_.clear();
    last_ns_ = now_ns;
    for (const RouteHop& hop : route.hops) {
      const Id128& ticket = hop.host.ticket;
      const bool failed = at_fault == Id128{} || at_fault == ticket;
      if (failed && !holds(ticket) && tickets_.size() < kRelayHostsMax) tickets_.push_back(ticket);
    }
  }
  const std::vector<Id128>& tickets() const noexcept { return tickets_; }
  // Notes that this route is tried now. If it leads over a failed host, there is no other route,
  // and the list is cleared.
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
