#include "engine/link/relay/routes.h"

#include "engine/link/path_choice.h"
#include "engine/link/relay/failed_steps.h"
#include "engine/link/relay/relay_client.h"
#include "src/base/check.h"
#include "src/topo/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

namespace mesh::engine {

namespace {
std::vector<topo::RailEnd> ends_of(const std::vector<WireRail>& rails) {
  std::vector<topo::RailEnd> ends;
  ends.reserve(rails.size());
  for (const WireRail& rail : rails) ends.push_back(rail_end(rail));
  return ends;
}

HostFace face_of(const WireHost& host) { return {host.rails, host.host_id}; }

constexpr std::uint32_t kFast = std::numeric_limits<std::uint32_t>::max();
std::uint32_t speed_of(const topo::RailEnd& end) {
  return end.speed_mbps == 0 ? kFast : end.speed_mbps;  // an unknown speed counts as fast
}

// How good a route, or a part of it, is.
struct Merit {
  std::uint32_t host_failed = 0, step_failed = 0;  // as FailedSteps numbers failures; 0: none
  std::uint32_t mbps = kFast;                      // of the slowest port
  std::uint32_t turn = 0;                          // decides between equals
  bool beats(const Merit& other) const {
    return std::tuple(host_failed, step_failed, other.mbps, turn) <
           std::tuple(other.host_failed, other.step_failed, mbps, other.turn);
  }
  Merit with(const Merit& other) const {
    return {.host_failed = std::max(host_failed, other.host_failed),
            .step_failed = std::max(step_failed, other.step_failed),
            .mbps = std::min(mbps, other.mbps),
            .turn = turn + other.turn};
  }
};

// Returns a number that looks random (the last steps of splitmix64).
std::uint32_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(value >> 32);
}

// A host that takes part in a search: a middle host, or an end, whose ticket is zero.
struct Stop {
  Id128 ticket{};
  std::uint64_t host_id = 0;
  std::uint64_t name = 0;  // a hash
  std::vector<topo::RailEnd> ends;
};
// A step from one host to the next.
struct RouteStep {
  topo::RailPair pair;
  Merit merit;
};
struct Reached {
  std::size_t depth = 0;   // hosts on the way, including this one; 0: it is not reached
  std::size_t before = 0;  // the host before it; its own index if that is us
  RouteStep step;          // the step to this host
  Merit merit;             // of all steps so far
};

class Search {
 public:
  explicit Search(const RouteWish& wish)
      : wish_(wish),
        own_{.host_id = wish.own_id, .ends = ends_of(wish.own)},
        peer_{.host_id = wish.peer_id, .ends = ends_of(wish.peer)} {
    for (std::size_t i = 0; i < peer_.ends.size() && wish.peer_rail; ++i)
      peer_.ends[i].up = peer_.ends[i].up && i == *wish.peer_rail;
    for (const WireHost& host : wish.hosts) {
      const HostFace face = face_of(host);
      if (is_same_host(face, {wish.own, wish.own_id}) ||
          is_same_host(face, {wish.peer, wish.peer_id}))
        continue;
      hosts_.push_back(&host);
      stops_.push_back({.ticket = host.ticket,
                        .host_id = host.host_id,
                        .name = std::hash<std::string>()(host.name),
                        .ends = ends_of(host.rails)});
    }
    reached_.resize(stops_.size());
  }

  std::optional<RelayRoute> run() {
    for (std::size_t i = 0; i < stops_.size(); ++i) reach(i, {.stop = own_, .host = i, .depth = 1});
    for (std::size_t depth = 1; depth <= wish_.between.most; ++depth) {
      std::optional<RelayRoute> found;
      if (depth >= wish_.between.least) found = arrive(depth);
      if (found) return found;
      for (std::size_t from = 0; from < stops_.size(); ++from) {
        if (reached_[from].depth != depth) continue;
        for (std::size_t to = 0; to < stops_.size(); ++to) {
          const std::size_t known = reached_[to].depth;
          if ((known != 0 && known <= depth) || passes(from, to)) continue;
          reach(to, {.stop = stops_[from],
                     .host = from,
                     .depth = depth + 1,
                     .merit = reached_[from].merit});
        }
      }
    }
    return std::nullopt;
  }

 private:
  // Returns true if the way to `from` leads over the host of `to`: a step between two processes of
  // one host would be a loop in a NIC.
  bool passes(std::size_t from, std::size_t to) const {
    for (std::size_t at = from;; at = reached_[at].before) {
      if (is_same_host(face_of(*hosts_[at]), face_of(*hosts_[to]))) return true;
      if (reached_[at].before == at) return false;
    }
  }

  // The begin of a step: us, or a host that is reached.
  struct From {
    const Stop& stop;
    std::size_t host = 0;   // its index; for us, the index of the reached host
    std::size_t depth = 0;  // depth of the host that the step reaches
    Merit merit{};
  };

  std::optional<RouteStep> step_between(const Stop& from, const Stop& to) const {
    std::optional<RouteStep> best;
    const CablesBetween cables{wish_.cables, from.ticket, to.ticket, wish_.unproven,
                               topo::sides_of(from.host_id, to.host_id)};
    for (const topo::RailPair& pair : pairs_of_step(from.ends, to.ends, cables)) {
      const topo::RailEnd &local = from.ends[pair.local], &peer = to.ends[pair.peer];
      if (!local.up || !peer.up) continue;
      Merit merit{.mbps = std::min(speed_of(local), speed_of(peer))};
      if (wish_.failed != nullptr) {
        merit.host_failed = wish_.failed->host(to.ticket);
        merit.step_failed = wish_.failed->step({.from = from.ticket,
                                                .to = to.ticket,
                                                .from_rail = static_cast<std::uint8_t>(pair.local),
                                                .to_rail = static_cast<std::uint8_t>(pair.peer)});
      }
      if (wish_.spread != 0)
        merit.turn = mixed(wish_.spread + from.name + 3 * to.name + 64 * pair.local + pair.peer);
      if (!best || merit.beats(best->merit)) best = RouteStep{.pair = pair, .merit = merit};
    }
    return best;
  }

  void reach(std::size_t host, const From& from) {
    Reached& reached = reached_[host];
    if (reached.depth != 0 && reached.depth < from.depth) return;
    const std::optional<RouteStep> step = step_between(from.stop, stops_[host]);
    if (!step) return;
    const Merit merit = from.merit.with(step->merit);
    if (reached.depth != 0 && !merit.beats(reached.merit)) return;
    reached = {.depth = from.depth, .before = from.host, .step = *step, .merit = merit};
  }

  std::optional<RelayRoute> arrive(std::size_t depth) const {
    std::size_t last = stops_.size();
    RouteStep to_peer;
    Merit best;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      if (reached_[i].depth != depth) continue;
      const std::optional<RouteStep> step = step_between(stops_[i], peer_);
      if (!step) continue;
      const Merit merit = reached_[i].merit.with(step->merit);
      if (last != stops_.size() && !merit.beats(best)) continue;
      best = merit;
      last = i;
      to_peer = *step;
    }
    if (last == stops_.size()) return std::nullopt;
    return route_to(last, to_peer);
  }

  RelayRoute route_to(std::size_t last, const RouteStep& to_peer) const {
    RelayRoute route;
    route.peer_rail = static_cast<std::uint8_t>(to_peer.pair.peer);
    route.peer_address = static_cast<std::uint8_t>(to_peer.pair.peer_address);
    RouteStep out = to_peer;
    for (std::size_t at = last;;) {
      const RouteStep& in = reached_[at].step;
      route.hops.insert(route.hops.begin(),
                        {.host = *hosts_[at],
                         .near_rail = static_cast<std::uint8_t>(in.pair.peer),
                         .near_address = static_cast<std::uint8_t>(in.pair.peer_address),
                         .far_rail = static_cast<std::uint8_t>(out.pair.local),
                         .far_address = static_cast<std::uint8_t>(out.pair.local_address)});
      out = in;
      if (reached_[at].before == at) break;
      at = reached_[at].before;
    }
    route.own_rail = static_cast<std::uint8_t>(out.pair.local);
    route.own_address = static_cast<std::uint8_t>(out.pair.local_address);
    DCHECK(!route.hops.empty() && route.hops.size() <= kRouteHostsMax);
    return route;
  }

  const RouteWish& wish_;
  const Stop own_;
  Stop peer_;
  std::vector<const WireHost*> hosts_;
  std::vector<Stop> stops_;
  std::vector<Reached> reached_;
};
}  // namespace

std::optional<RelayRoute> find_route(const RouteWish& wish) { return Search(wish).run(); }

HostsBetween hosts_of_place(std::uint32_t place, std::uint32_t places) {
  DCHECK(place < places && places <= kRelayPlacesMax);
  static_assert(kRelayPlacesMax == kRouteHostsMax + 1);
  const std::uint32_t doubled = places == kRelayPlacesMax ? 1 : 0;
  const std::uint32_t least = std::max(place + 1 - std::min(place, doubled), 1u);
  return {.least = least, .most = place + 1 == places ? kRouteHostsMax : least};
}

std::string hosts_text(const HostsBetween& between) {
  if (between.least == between.most)
    return fmt::format("{} host{}", between.least, between.least == 1 ? "" : "s");
  return fmt::format("{} to {} hosts", between.least, between.most);
}

std::string route_text(const RelayRoute& route) {
  std::string text;
  for (const RouteHop& hop : route.hops) text += (text.empty() ? "" : " and ") + hop.host.name;
  return text;
}

}  // namespace mesh::engine
