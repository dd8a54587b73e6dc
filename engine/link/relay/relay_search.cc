// The hosts that are known, and the search for a route over them.
#include "engine/link/relay/failed_steps.h"
#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/routes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace mesh::engine {

std::vector<WireHost> RelayClient::peers() const {
  std::vector<WireHost> hosts;
  for (const WireHost& host : peers_()) add_once(hosts, host);
  return hosts;
}

std::vector<WireHost> RelayClient::hosts(const Id128& unheard) const {
  std::vector<WireHost> hosts = peers();
  for (const Talk& talk : talks_) {
    if (talk.host.ticket == unheard) continue;
    for (const WireHost& host : talk.known) add_once(hosts, host);
  }
  for (WireHost& host : hosts) {
    const Talk* const talk = talk_of(host.ticket);
    if (talk != nullptr && !talk->rails.empty()) host.rails = talk->rails;
  }
  return hosts;
}

// The answers to what this asks serve the next search.
std::optional<RelayRoute> RelayClient::find(RouteWish wish, const Search& search) {
  const std::vector<WireHost> known = hosts();
  const KnownCables told = cables(search.peer);
  const std::vector<WireRail> peer = rails_now(search.peer, wish.peer);
  std::vector<WireHost> carriers, failed;
  for (const WireHost& each : known) {
    if (each.ticket == search.peer || each.ticket == host_.ticket()) continue;
    if (wish.failed != nullptr && wish.failed->host(each.ticket) != 0) failed.push_back(each);
    const bool is_free =
        std::find(search.others.begin(), search.others.end(), each.ticket) == search.others.end();
    if (is_free) carriers.push_back(each);
  }
  RouteWish full{.own = wish.own,
                 .peer = peer,
                 .hosts = carriers,
                 .between = wish.between,
                 .peer_rail = wish.peer_rail,
                 .failed = wish.failed,
                 .cables = &told,
                 .unproven = Unproven::LeftOut,
                 .spread = wish.spread};
  std::optional<RelayRoute> route = find_route(full);
  if (!route && have_answered(known)) {
    full.unproven = Unproven::ByPlace;
    route = find_route(full);
  }
  ask_all(route ? failed : known);
  return route;
}

std::vector<WireRail> RelayClient::rails_now(const Id128& ticket,
                                             const std::vector<WireRail>& told) const {
  const Talk* const talk = talk_of(ticket);
  std::vector<WireRail> rails = told;
  if (talk == nullptr || talk->rails.size() != rails.size()) return rails;
  for (std::size_t i = 0; i < rails.size(); ++i) rails[i].up = talk->rails[i].up;
  return rails;
}

bool RelayClient::knows_others(const Id128& peer) const {
  const std::vector<WireHost> known = hosts(peer);
  return std::any_of(known.begin(), known.end(), [&](const WireHost& each) {
    return each.ticket != peer && each.ticket != host_.ticket();
  });
}

}  // namespace mesh::engine
