#include "engine/link/path_choice.h"

#include "src/base/socket.h"
#include "src/topo/pairing.h"
#include "src/topo/subnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mesh::engine {

namespace {
enum class Way : std::uint8_t { WithinASite, BetweenSites };

Way way_of(const Hello& hello, const OwnRails& own) {
  return hello.site == own.site ? Way::WithinASite : Way::BetweenSites;
}

std::vector<topo::RailEnd> rail_ends(const std::vector<WireRail>& rails, Way way) {
  std::vector<topo::RailEnd> ends;
  ends.reserve(rails.size());
  for (const WireRail& rail : rails) {
    topo::RailEnd& end = ends.emplace_back(rail_end(rail));
    end.apart = way == Way::BetweenSites && rail.leaves_site == 0;
  }
  return ends;
}

topo::Reach reach_of(verbs::RouteKind kind) {
  switch (kind) {
    case verbs::RouteKind::ByPort: return topo::Reach::Yes;
    case verbs::RouteKind::Elsewhere:
    case verbs::RouteKind::None: return topo::Reach::No;
    case verbs::RouteKind::Unknown: break;
  }
  return topo::Reach::Unknown;
}
}  // namespace

topo::RailEnd rail_end(const WireRail& rail) {
  topo::RailEnd end;
  end.addresses.reserve(rail.addresses.size());
  for (const WireAddress& each : rail.addresses)
    end.addresses.push_back({.gid = each.gid, .prefix_len = each.prefix_len});
  end.ethernet = rail.ethernet != 0;
  end.speed_mbps = rail.speed_mbps;
  end.identity = rail.identity;
  end.up = rail.up != 0;
  return end;
}

PathChoice choose_paths(const Hello& hello, const OwnRails& own_side, const AskRoute& ask) {
  PathChoice choice;
  const std::vector<WireRail>& own_rails = own_side.rails;
  const Way way = way_of(hello, own_side);
  const auto reach = [&](const topo::RailPair& pair) {
    const WireAddress& to = hello.rails[pair.local].addresses[pair.local_address];
    const verbs::Route route = ask(pair.peer, pair.peer_address, to);
    if (route.kind == verbs::RouteKind::Elsewhere && choice.elsewhere.empty()) {
      const WireRail& own = own_rails[pair.peer];
      choice.elsewhere = fmt::format("the route from {} {} to {} leaves by {}", own.name,
                                     address_text(own.addresses[pair.peer_address]),
                                     address_text(to), route.netdev);
    }
    return reach_of(route.kind);
  };
  for (const topo::RailPair& pair :
       topo::pair_rails(rail_ends(hello.rails, way), rail_ends(own_rails, way),
                        {.path_count_max = kMeetMax, .reach = reach})) {
    WirePath path;
    path.connector_rail = static_cast<std::uint8_t>(pair.local);
    path.connector_address = static_cast<std::uint8_t>(pair.local_address);
    path.acceptor_rail = static_cast<std::uint8_t>(pair.peer);
    path.acceptor_address = static_cast<std::uint8_t>(pair.peer_address);
    path.mtu = std::min(hello.rails[pair.local].mtu, own_rails[pair.peer].mtu);
    choice.meet.push_back(path);
  }
  choice.sets = path_sets(choice.meet, hello.rails, own_rails, hello.asked);
  return choice;
}

namespace {
// Returns one rail of each cable of which no rail meets the peer itself.
std::vector<std::uint8_t> cables_elsewhere(const std::vector<WireRail>& rails,
                                           const std::vector<std::uint8_t>& meeting) {
  std::vector<std::uint8_t> chosen;
  const auto is_of = [&rails](const std::vector<std::uint8_t>& some, std::size_t rail) {
    return std::any_of(some.begin(), some.end(),
                       [&](std::uint8_t each) { return same_cable(rails, each, rail); });
  };
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (!is_of(meeting, i) && !is_of(chosen, i)) chosen.push_back(static_cast<std::uint8_t>(i));
  }
  return chosen;
}
}  // namespace

bool may_be_relayed(const Hello& hello, const OwnRails& own, const PathChoice& choice) {
  if (way_of(hello, own) == Way::BetweenSites) return false;
  return hello.asked.wish == RailsWish::Auto ||
         (hello.asked.wish == RailsWish::All && choice.meet.empty());
}

bool goes_both_ways(const Hello& hello, const Settings& settings, const PathChoice& choice) {
  return hello.both_ways != 0 && settings.both_ways != 0 && !choice.relayed.empty() &&
         !choice.sets.primary.empty();
}

std::vector<WirePath> relayed_pairs(const std::vector<WireRail>& connector_rails,
                                    const std::vector<WireRail>& acceptor_rails,
                                    const PathChoice& choice) {
  std::vector<std::uint8_t> our_meeting, their_meeting;
  for (const WirePath& path : choice.meet) {
    our_meeting.push_back(path.connector_rail);
    their_meeting.push_back(path.acceptor_rail);
  }
  const std::vector<std::uint8_t> ours = cables_elsewhere(connector_rails, our_meeting);
  const std::vector<std::uint8_t> theirs = cables_elsewhere(acceptor_rails, their_meeting);
  const std::size_t room = kPathsMax - choice.sets.primary.size() - choice.sets.standby.size();
  const std::size_t most = std::min(room, ours.size() * theirs.size());
  std::vector<WirePath> pairs;
  pairs.reserve(most);
  // Goes along diagonals: with two cables on each side the first two pairs share no cable.
  for (std::size_t at = 0; at < most; ++at) {
    const std::size_t our = at % ours.size(), shift = at / ours.size();
    WirePath& pair = pairs.emplace_back();
    pair.connector_rail = ours[our];
    pair.acceptor_rail = theirs[(our + shift) % theirs.size()];
    pair.mtu =
        std::min(connector_rails[pair.connector_rail].mtu, acceptor_rails[pair.acceptor_rail].mtu);
  }
  return pairs;
}

std::string no_path_text(const Hello& hello, const OwnRails& own) {
  const Way way = way_of(hello, own);
  std::string subnets =
      topo::no_common_subnet_text(rail_ends(hello.rails, way), rail_ends(own.rails, way));
  if (way == Way::WithinASite) return subnets;
  return fmt::format("of the rails that leave their sites {} and {} (NCCL_MESH_SITE_RAILS), {}",
                     hello.site, own.site, subnets);
}

std::string why_no_path(const Hello& hello, const OwnRails& own, const PathChoice& choice,
                        const std::string& name) {
  const std::string subnets = no_path_text(hello, own);
  if (!choice.meet.empty()) {
    return fmt::format(
        "device {} of host {} reaches no device of host {}, and NCCL_MESH_RAILS=asked there allows "
        "no other: {}",
        hello.rails[hello.asked.rail].name, hello.host, name, subnets);
  }
  return fmt::format(
      "hosts {} and {} share no subnet: {}; {}", hello.host, name, subnets,
      choice.elsewhere.empty() ? "no rail has a route to its counterpart" : choice.elsewhere);
}

std::vector<std::string> shared_subnet_lines(const std::vector<WireRail>& rails) {
  std::map<std::string, std::string> names;
  std::map<std::string, int> counts;
  for (const WireRail& rail : rails) {
    std::set<std::string> subnets;
    for (const WireAddress& address : rail.addresses)
      subnets.insert(topo::subnet_text({SocketAddress::from_gid(address.gid), address.prefix_len}));
    if (rail.ethernet == 0) subnets.clear();
    for (const std::string& subnet : subnets)
      names[subnet] += (counts[subnet]++ == 0 ? "" : ", ") + rail.name;
  }
  std::vector<std::string> lines;
  for (const auto& [subnet, rail_names] : names) {
    if (counts[subnet] < 2) continue;
    lines.push_back("rails " + rail_names + " are in one subnet " + subnet +
                    ": right on a switch; direct cables are taken to join the ports of both hosts "
                    "in this order, unless each has "
                    "a subnet of its own");
  }
  return lines;
}

std::string address_text(const WireAddress& address) {
  return SocketAddress::from_gid(address.gid).text();
}

}  // namespace mesh::engine
