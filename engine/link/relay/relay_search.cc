// The hosts that are known, and the search for a route over them.
#include "engine/link/relay/failed_steps.h"
#include "engine/link/relay/neighbours.h"
#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/routes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace mesh::engine {

std::vector<WireHost> RelayClient::peers() const {
  std::vector<WireHost> hosts = all_peers();
  std::erase_if(hosts, [](const WireHost& host) { return host.rails.empty(); });
  return hosts;
}

// A link's word about a host goes before that of a datagram.
std::vector<WireHost> RelayClient::all_peers() const {
  std::vector<WireHost> hosts;
  for (const WireHost& host : peers_()) add_once(hosts, host);
  if (!any_found()) return hosts;
  for (WireHost& host : host_.neighbours()->found()) {
    if (const Talk* const talk = talk_of(host.ticket)) host.rails = talk->rails;
    add_once(hosts, host);
  }
  return hosts;
}

std::vector<WireHost> RelayClient::hosts(const Id128& unheard) const {
  std::vector<WireHost> hosts = all_peers();
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

namespace {
// Returns the best way to the peer over known cables and over any number of the hosts.
std::optional<RelayRoute> known_way(const RouteWish& wish, std::span<const WireHost> hosts) {
  return find_route({.own = wish.own,
                     .peer = wish.peer,
                     .own_id = wish.own_id,
                     .peer_id = wish.peer_id,
                     .hosts = hosts,
                     .failed = wish.failed,
                     .cables = wish.cables,
                     .unproven = Unproven::LeftOut});
}

// Returns true for a route whose hosts have not failed lately.
bool is_sound(const std::optional<RelayRoute>& route, const FailedSteps* failed) {
  return route && (failed == nullptr || std::all_of(route->hops.begin(), route->hops.end(),
                                                    [failed](const RouteHop& hop) {
                                                      return failed->host(hop.host.ticket) == 0;
                                                    }));
}
}  // namespace

// The answers to what this asks serve the next search.
RelayClient::Found RelayClient::search(RouteWish wish, const Search& search) {
  const std::vector<WireHost> known = hosts();
  const KnownCables told = cables(search.peer);
  const std::vector<WireRail> peer = rails_now(search.peer, wish.peer);
  // Without us and the peer: all hosts, those that have not failed lately, and those over which no
  // other path of the link leads.
  std::vector<WireHost> others, sound, carriers, failed;
  for (const WireHost& each : known) {
    if (each.ticket == search.peer || each.ticket == host_.ticket()) continue;
    others.push_back(each);
    const bool has_failed = wish.failed != nullptr && wish.failed->host(each.ticket) != 0;
    (has_failed ? failed : sound).push_back(each);
    const bool is_free =
        std::find(search.others.begin(), search.others.end(), each.ticket) == search.others.end();
    if (is_free) carriers.push_back(each);
  }
  RouteWish full{.own = wish.own,
                 .peer = peer,
                 .own_id = wish.own_id,
                 .peer_id = wish.peer_id,
                 .hosts = carriers,
                 .between = wish.between,
                 .peer_rail = wish.peer_rail,
                 .failed = wish.failed,
                 .cables = &told,
                 .unproven = Unproven::LeftOut,
                 .spread = wish.spread};
  Found found{.route = find_route(full)};
  if (!found.route && have_answered(known)) {
    // A guess takes no host of a way over known cables from the path that has that way, or room for
    // it.
    if (const auto way = known_way(full, others)) {
      found.other_way = true;
      std::erase_if(carriers, [&way](const WireHost& each) {
        return std::any_of(way->hops.begin(), way->hops.end(),
                           [&](const RouteHop& hop) { return hop.host.ticket == each.ticket; });
      });
      full.hosts = carriers;
    }
    full.unproven = Unproven::ByPlace;
    found.route = find_route(full);
  }
  const bool leads = full.unproven == Unproven::LeftOut && is_sound(found.route, wish.failed);
  Look look = Look::No;
  if (search.message_waits && !leads && have_answered(known)) {
    if (known_way(full, sound)) {
      found.other_way |= !found.route;
    } else if (host_.neighbours() != nullptr) {
      look = Look::Yes;
    }
  }
  if (look == Look::Yes) host_.neighbours()->ask();
  ask_all(found.route && look == Look::No ? failed : known, look);
  return found;
}

// Collects the cables that we and the hosts that were asked have told, ours last.
KnownCables RelayClient::cables(const Id128& peer) const {
  KnownCables cables(host_.ticket(), peer);
  for (const Talk& talk : talks_)
    for (const WireHost& host : talk.known) cables.note(talk.host.ticket, host.ticket, host.cables);
  for (const WireHost& host : all_peers()) cables.note(host_.ticket(), host.ticket, host.cables);
  return cables;
}

// Returns true if each of the hosts has told which hosts it knows.
bool RelayClient::have_answered(std::span<const WireHost> hosts) const {
  return std::all_of(hosts.begin(), hosts.end(), [this](const WireHost& host) {
    const Talk* const talk = talk_of(host.ticket);
    return host.ticket == host_.ticket() ||
           (talk != nullptr && talk->asked_ns != 0 && !talk->asking);
  });
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
  const auto has_others = [&](const std::vector<WireHost>& hosts) {
    return std::any_of(hosts.begin(), hosts.end(), [&](const WireHost& each) {
      return each.ticket != peer && each.ticket != host_.ticket();
    });
  };
  for (const Talk& talk : talks_)
    if (talk.host.ticket != peer && has_others(talk.known)) return true;
  return has_others(all_peers());
}

bool RelayClient::any_found() const {
  return host_.neighbours() != nullptr && host_.neighbours()->any_found();
}

// Asks the hosts found over our cables for their rails, which those who ask us want to hear, too.
void RelayClient::ask_found() {
  if (!any_found()) return;
  std::vector<WireHost> unknown = host_.neighbours()->found();
  std::erase_if(unknown, [this](const WireHost& host) {
    const Talk* const talk = talk_of(host.ticket);
    return talk != nullptr && !talk->rails.empty();
  });
  ask_all(unknown);
}

}  // namespace mesh::engine
