#include "engine/link/relay/routes.h"

#include "engine/link/path_choice.h"
#include "src/base/check.h"
#include "src/topo/pairing.h"

#include <algorithm>
#include <limits>

namespace mesh::engine {

namespace {
// A step from one host to the next.
struct Step {
  topo::RailPair pair;
  std::uint32_t mbps = 0;  // of its slower port; an unknown speed counts as fast
};

std::vector<topo::RailEnd> ends_of(const std::vector<WireRail>& rails) {
  std::vector<topo::RailEnd> ends;
  ends.reserve(rails.size());
  for (const WireRail& rail : rails) ends.push_back(rail_end(rail));
  return ends;
}

constexpr std::uint32_t kFast = std::numeric_limits<std::uint32_t>::max();
std::uint32_t speed_of(const topo::RailEnd& end) {
  return end.speed_mbps == 0 ? kFast : end.speed_mbps;
}

std::optional<Step> step_between(std::span<const topo::RailEnd> from,
                                 std::span<const topo::RailEnd> to) {
  std::optional<Step> best;
  for (const topo::RailPair& pair : topo::pair_rails(from, to, {.path_count_max = kMeetMax})) {
    const topo::RailEnd &local = from[pair.local], &peer = to[pair.peer];
    const std::uint32_t mbps = std::min(speed_of(local), speed_of(peer));
    if (!local.up || !peer.up || (best && best->mbps >= mbps)) continue;
    best = Step{.pair = pair, .mbps = mbps};
  }
  return best;
}

struct Reached {
  bool is = false;
  std::size_t depth = 0;   // hosts on the way, including this one
  std::size_t before = 0;  // the host before it; its own index if that is us
  Step step;               // the step to this host
  std::uint32_t mbps = 0;  // of the slowest step so far
};

class Search {
 public:
  explicit Search(const RouteWish& wish)
      : wish_(wish),
        own_{rail_end(wish.own[wish.own_rail])},
        peer_{rail_end(wish.peer[wish.peer_rail])},
        reached_(wish.hosts.size()) {
    for (const WireHost& host : wish.hosts) ends_.push_back(ends_of(host.rails));
  }

  std::optional<RelayRoute> run() {
    for (std::size_t i = 0; i < reached_.size(); ++i)
      reach(i, {.ends = own_, .host = i, .depth = 1, .mbps = kFast});
    for (std::size_t depth = 1; depth <= kRouteHostsMax; ++depth) {
      if (std::optional<RelayRoute> found = arrive(depth); found.has_value()) return found;
      for (std::size_t from = 0; from < reached_.size(); ++from) {
        if (!reached_[from].is || reached_[from].depth != depth) continue;
        for (std::size_t to = 0; to < reached_.size(); ++to)
          reach(
              to,
              {.ends = ends_[from], .host = from, .depth = depth + 1, .mbps = reached_[from].mbps});
      }
    }
    return std::nullopt;
  }

 private:
  // The begin of a step: us, or a host that is reached.
  struct From {
    std::span<const topo::RailEnd> ends;
    std::size_t host = 0;   // its index; for us, the index of the reached host
    std::size_t depth = 0;  // depth of the host that the step reaches
    std::uint32_t mbps = 0;
  };
  void reach(std::size_t host, const From& from) {
    Reached& reached = reached_[host];
    if (reached.is && reached.depth < from.depth) return;
    const std::optional<Step> step = step_between(from.ends, ends_[host]);
    if (!step) return;
    const std::uint32_t slowest = std::min(from.mbps, step->mbps);
    if (reached.is && reached.mbps >= slowest) return;
    reached = {
        .is = true, .depth = from.depth, .before = from.host, .step = *step, .mbps = slowest};
  }

  std::optional<RelayRoute> arrive(std::size_t depth) const {
    std::size_t last = reached_.size();
    Step to_peer;
    std::uint32_t best = 0;
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      if (!reached_[i].is || reached_[i].depth != depth) continue;
      const std::optional<Step> step = step_between(ends_[i], peer_);
      if (!step || std::min(reached_[i].mbps, step->mbps) <= best) continue;
      best = std::min(reached_[i].mbps, step->mbps);
      last = i;
      to_peer = *step;
    }
    if (last == reached_.size()) return std::nullopt;
    return route_to(last, to_peer);
  }

  RelayRoute route_to(std::size_t last, const Step& to_peer) const {
    RelayRoute route;
    route.peer_address = static_cast<std::uint8_t>(to_peer.pair.peer_address);
    Step out = to_peer;
    for (std::size_t at = last;;) {
      const Step& in = reached_[at].step;
      route.hops.insert(route.hops.begin(),
                        {.host = wish_.hosts[at],
                         .near_rail = static_cast<std::uint8_t>(in.pair.peer),
                         .near_address = static_cast<std::uint8_t>(in.pair.peer_address),
                         .far_rail = static_cast<std::uint8_t>(out.pair.local),
                         .far_address = static_cast<std::uint8_t>(out.pair.local_address)});
      out = in;
      if (reached_[at].before == at) break;
      at = reached_[at].before;
    }
    route.own_address = static_cast<std::uint8_t>(out.pair.local_address);
    DCHECK(!route.hops.empty() && route.hops.size() <= kRouteHostsMax);
    return route;
  }

  const RouteWish& wish_;
  const std::vector<topo::RailEnd> own_, peer_;
  std::vector<std::vector<topo::RailEnd>> ends_;
  std::vector<Reached> reached_;
};
}  // namespace

std::optional<RelayRoute> find_route(const RouteWish& wish) {
  if (wish.own_rail >= wish.own.size() || wish.peer_rail >= wish.peer.size()) return std::nullopt;
  return Search(wish).run();
}

std::string route_text(const RelayRoute& route) {
  std::string text;
  for (const RouteHop& hop : route.hops) text += (text.empty() ? "" : " and ") + hop.host.name;
  return text;
}

}  // namespace mesh::engine
