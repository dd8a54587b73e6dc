#include "engine/link/relayed_paths.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "engine/link/relay/neighbours.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {
// The most hosts on a path beside a direct one that is up. In a ring of five, with three hosts on
// the way, messages of 512 KiB lose more by latency than they gain (the model).
constexpr std::size_t kBesideHostsMax = 2;
}  // namespace

void RelayedPaths::begin() {
  chains_.resize(link_.peer_link().paths().count());
  tries_.resize(chains_.size());
}

void RelayedPaths::cut(std::uint32_t index) noexcept {
  if (chains_[index] != nullptr) tries_[index].at_fault = chains_[index]->at_fault();
  chains_[index].reset();
}

void RelayedPaths::let_stand_by(std::uint32_t index) noexcept {
  chains_[index].reset();
  tries_[index].last.reset();
}

void RelayedPaths::cut_all() noexcept {
  for (auto& chains : chains_) chains.reset();
}

// ---- Connector.

// Returns how many hosts the path leads over.
HostsBetween RelayedPaths::hosts_of(std::uint32_t index) const {
  const PathSet& paths = link_.peer_link().paths();
  if (paths.is_beside(index)) return {};
  std::uint32_t first = paths.count();  // the last paths are those over other hosts
  while (first != 0 && paths[first - 1].ends.relayed && !paths.is_beside(first - 1)) --first;
  return hosts_of_place(index - first, paths.count() - first);
}

// Returns the tickets of the hosts over which other paths lead or are being opened.
std::vector<Id128> RelayedPaths::hosts_of_others(std::uint32_t index) const {
  std::vector<Id128> tickets;
  for (std::uint32_t other = 0; other < chains_.size(); ++other) {
    if (other == index || chains_[other] == nullptr) continue;
    for (const RouteHop& hop : chains_[other]->route().hops) tickets.push_back(hop.host.ticket);
  }
  return tickets;
}

// Returns true if the device of our rail has all of the link's memory, and probes.
bool RelayedPaths::may_use(std::size_t rail) const {
  const DeviceContext& device = *link_.context().loop.devices[rail];
  return device.has_probes() && !link_.peer_link().memory().lacks(device);
}

bool RelayedPaths::ask(std::uint32_t index, Need need, std::string* why) {
  const Path& path = link_.peer_link().paths()[index];
  RelayClient& relays = *link_.host().relays();
  std::vector<WireRail> own =
      describe_rails(*link_.host().options().provider, link_.host().rails());
  for (std::size_t rail = 0; rail < own.size(); ++rail) {
    if (!may_use(rail)) own[rail].up = 0;
  }
  Tries& tries = tries_[index];
  if (tries.last) failed_.add(*tries.last, tries.at_fault, link_.host().now_ns());
  tries.last.reset();
  const HostsBetween between = hosts_of(index);
  RouteWish wish{.own = own,
                 .peer = link_.terms.peer_rails,
                 .own_id = link_.host().options().provider->host_id(),
                 .peer_id = link_.terms.peer_host_id,
                 .hosts = {},
                 .between = between,
                 .failed = &failed_,
                 .spread = std::hash<std::string>()(link_.host().options().provider->host_name() +
                                                    " to " + link_.identity().peer_host)};
  if (link_.peer_link().paths().is_beside(index))
    wish.peer_rail = static_cast<std::uint8_t>(path.ends.peer_rail);
  RelayClient::Found found = relays.search(wish, {.peer = link_.terms.peer_ticket,
                                                  .others = hosts_of_others(index),
                                                  .message_waits = need == Need::Message});
  std::optional<RelayRoute>& route = found.route;
  tries.unrouted.reset();
  tries.other_way = found.other_way;
  if (!route) {
    tries.unrouted = relays.news();
    *why = fmt::format("the hosts of the job that are known make no way to {} over {}",
                       link_.identity().peer_host, hosts_text(between));
    return false;
  }
  if (need == Need::Gain && route->hops.size() > kBesideHostsMax) {
    *why =
        fmt::format("it leads over {}; over more than {} hosts it is slower than the cable alone",
                    route_text(*route), kBesideHostsMax);
    return false;
  }
  if (need == Need::Gain) {
    for (const RouteHop& hop : route->hops) {
      if (slots_have_room(hop.host.rails)) continue;
      *why = fmt::format("the PCIe slots of host {} have no room for it", hop.host.name);
      return false;
    }
  }
  routed_ = true;
  name_rails(index,
             {.own_rail = route->own_rail,
              .own_address = route->own_address,
              .peer_rail = route->peer_rail,
              .peer_address = route->peer_address},
             route_text(*route));
  link_.peer_link().paths()[index].hosts_between = static_cast<std::uint32_t>(route->hops.size());
  tries.at_fault = {};
  tries.last = *route;
  begin_chains(index, *std::move(route));
  return true;
}

bool RelayedPaths::has_news(std::uint32_t index) const {
  const std::optional<std::uint64_t>& unrouted = tries_[index].unrouted;
  return unrouted && *unrouted != link_.host().relays()->news();
}

// Asks each host of the route for the queue pairs of its part.
void RelayedPaths::begin_chains(std::uint32_t index, RelayRoute route) {
  const TransferPolicy& policy = link_.peer_link().policy();
  const Settings settings = link_.settings();
  chains_[index] = link_.host().relays()->ask(
      {.route = std::move(route),
       .sizes = {.qps = 1 + policy.qps,
                 .sq_depth = policy.sq_depth,
                 .express_bytes = policy.express_bytes,
                 .wr_bytes = policy.wr_bytes},
       .traffic_class = static_cast<std::uint8_t>(std::max(settings.traffic_class, 0)),
       .service_level = static_cast<std::uint8_t>(std::max(settings.service_level, 0)),
       .changed = [this] {
         link_.touch();
         link_.host().tend_soon();
       }});
}

std::string RelayedPaths::who_is_asked(std::uint32_t index) const {
  return fmt::format("{} has not answered", chains_[index] == nullptr
                                                ? "the host on the way"
                                                : route_text(chains_[index]->route()));
}

void RelayedPaths::name_rails(std::uint32_t index, const Ends& ends, const std::string& over) {
  DeviceContext& device = *link_.context().loop.devices[ends.own_rail];
  const WireRail& peer = link_.terms.peer_rails[ends.peer_rail];
  PathSet& paths = link_.peer_link().paths();
  const PathEnds named{.own_address = ends.own_address,
                       .peer_rail = ends.peer_rail,
                       .peer_address = ends.peer_address,
                       .peer_speed_mbps = peer.speed_mbps};
  const ProgressLoop::Guard guard(link_.context().loop);
  paths.name_rails(
      paths[index], device, named,
      paths[index].ends.relayed ? relayed_name(device, peer) : path_name(device, named, peer));
  paths[index].over = over;
}

void RelayedPaths::lead(std::uint32_t index, Reopen* asks) const {
  const Path& path = link_.peer_link().paths()[index];
  if (!path.ends.is_place()) return;
  const RelayedChains* const chains = chains_[index].get();
  if (chains != nullptr) asks->ends = over_hop(std::move(asks->ends), chains->last());
  asks->ends.connector_rail = static_cast<std::uint8_t>(path.rail);
  asks->ends.connector_address = static_cast<std::uint8_t>(path.ends.own_address);
  asks->ends.acceptor_rail = static_cast<std::uint8_t>(path.ends.peer_rail);
  asks->ends.acceptor_address = static_cast<std::uint8_t>(path.ends.peer_address);
  if (chains == nullptr) return;
  asks->via = {chains->last()};
  asks->over = route_text(chains->route());
}

bool RelayedPaths::find_cable(std::uint32_t index, std::string* why) {
  const PathSet& paths = link_.peer_link().paths();
  const auto ends_of = [](const std::vector<WireRail>& rails) {
    std::vector<topo::RailEnd> ends;
    ends.reserve(rails.size());
    for (const WireRail& rail : rails) ends.push_back(rail_end(rail));
    return ends;
  };
  const std::vector<topo::RailEnd> own =
      ends_of(describe_rails(*link_.host().options().provider, link_.host().rails()));
  // A cable that carries datagrams one way only may carry messages all the same.
  topo::CableProof told = link_.terms.cables;
  told.met.insert(told.met.end(), link_.terms.one_way.begin(), link_.terms.one_way.end());
  std::vector<topo::RailPair> cables = topo::pair_rails(
      own, ends_of(link_.terms.peer_rails), {.path_count_max = kMeetMax, .proof = &told});
  std::erase_if(cables, [&](const topo::RailPair& pair) {
    const bool named = std::any_of(paths.all().begin(), paths.all().end(), [&](const Path& path) {
      return !path.ends.is_place() && path.rail == pair.local && path.ends.peer_rail == pair.peer;
    });
    return named || !own[pair.local].up || !may_use(pair.local) ||
           !topo::holds(told.met, {pair.local, pair.peer});
  });
  if (cables.empty()) {
    *why = "datagrams tell of no other cable to the peer";
    return false;
  }
  const topo::RailPair& pair = cables[paths[index].health.reopen_tries % cables.size()];
  const auto narrow = [](std::size_t number) { return static_cast<std::uint32_t>(number); };
  name_rails(index,
             {.own_rail = narrow(pair.local),
              .own_address = narrow(pair.local_address),
              .peer_rail = narrow(pair.peer),
              .peer_address = narrow(pair.peer_address)},
             "");
  return true;
}

std::vector<WireHop> RelayedPaths::first_hop(std::uint32_t index) const {
  if (chains_[index] == nullptr) return {};
  return {chains_[index]->first()};
}

void RelayedPaths::join(std::uint32_t index, std::uint32_t psn, const WireHop& peer) {
  RelayedChains& chains = *chains_[index];
  if (chains.step() != RelayedChains::Step::Made) return;  // broken: the next pass sees it
  Path& path = link_.peer_link().paths()[index];
  chains.join(describe_hop(path, describe_path(path, psn, {})), peer);
}

bool RelayedPaths::is_lost(std::uint64_t stalled_since_ns) {
  const PeerLink& peer_link = link_.peer_link();
  if (!link_.connector() || !peer_link.reach().lazy() || routed_) return false;
  // A host that is known may still come to know others.
  if (link_.host().relays()->knows_others(link_.terms.peer_ticket)) return false;
  Neighbours* const neighbours = link_.host().neighbours();
  const std::uint64_t until_ns =
      stalled_since_ns + (neighbours == nullptr ? kStallToNoRouteNs : neighbours->patience_ns());
  link_.host().tend_at(until_ns);
  return link_.host().now_ns() >= until_ns;
}

std::string RelayedPaths::told_of_neighbours() const {
  Neighbours* const neighbours = link_.host().neighbours();
  const bool looks = link_.connector() && link_.peer_link().reach().lazy() && !routed_;
  return neighbours == nullptr || !looks ? std::string() : "; " + neighbours->told();
}

// ---- Acceptor.

bool RelayedPaths::take_route_of(const Reopen& asked, std::string* why) {
  const PathSet& paths = link_.peer_link().paths();
  const Path& path = paths[asked.path];
  const WirePath& ends = asked.ends;
  const std::vector<WireRail>& peers = link_.terms.peer_rails;
  const std::span<const verbs::Rail> own = link_.host().rails();
  const bool there = ends.acceptor_rail < own.size() &&
                     ends.acceptor_address < own[ends.acceptor_rail].gids.size() &&
                     ends.connector_rail < peers.size() &&
                     ends.connector_address < peers[ends.connector_rail].addresses.size();
  const bool fixed = paths.is_beside(asked.path) && ends.acceptor_rail != path.rail;
  const bool fits =
      path.ends.relayed ? !asked.via.empty() : path.ends.by_proof && asked.via.empty();
  if (!fits || !there || fixed) {
    *why = "the path asked for cannot lead there";
    return false;
  }
  if (!may_use(ends.acceptor_rail)) {
    *why = fmt::format("rail {} has refused the link's memory", own[ends.acceptor_rail].info.name);
    return false;
  }
  name_rails(asked.path,
             {.own_rail = ends.acceptor_rail,
              .own_address = ends.acceptor_address,
              .peer_rail = ends.connector_rail,
              .peer_address = ends.connector_address},
             asked.over);
  return true;
}

// ---- Both.

std::string RelayedPaths::why_dead(std::uint32_t index) {
  Path& path = link_.peer_link().paths()[index];
  if (!path.ends.relayed) return {};
  const RelayedChains* const chains = chains_[index].get();
  if (chains != nullptr && chains->step() == RelayedChains::Step::Broken) return chains->why();
  const std::uint64_t now_ns = link_.host().now_ns();
  const auto is_stuck = [&] {
    return std::any_of(path.queue_pairs.begin(), path.queue_pairs.end(),
                       [&](const auto& queue_pair) {
                         return path.device->relay_end().stuck(queue_pair->verbs(), now_ns);
                       });
  };
  if (!is_stuck()) return {};
  // Counts may have come that nobody has read: without a poller only NCCL's calls turn the loop,
  // and this process may have stood still.
  path.device->drain(path.queue_pairs);
  return is_stuck() ? kStuckCause : "";
}

void RelayedPaths::watch() {
  PeerLink& peer_link = link_.peer_link();
  const std::uint64_t now_ns = link_.host().now_ns();
  for (std::uint32_t i = 0; i < peer_link.paths().count(); ++i) {
    Path& path = peer_link.paths()[i];
    if (!path.ends.relayed) continue;
    const ProgressLoop::Guard guard(link_.context().loop);
    if (path.health.state != PathState::Up) continue;
    link_.host().tend_at(now_ns + kRelayLookToNextNs);
    const std::string why = why_dead(i);
    if (!why.empty() && path.health.state == PathState::Up) peer_link.quarantine(path, why);
  }
}

}  // namespace mesh::engine
