#include "engine/link/path_choice.h"

#include "engine/link/link_setup.h"
#include "engine/link/misfit_lines.h"
#include "engine/link/relay/routes.h"
#include "src/base/socket.h"
#include "src/topo/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace mesh::engine {

namespace {
enum class Crossing : std::uint8_t { WithinASite, BetweenSites };

Crossing crossing_of(const Hello& hello, const OwnRails& own) {
  return hello.site == own.site ? Crossing::WithinASite : Crossing::BetweenSites;
}

topo::Sides sides_of(const Hello& hello, const OwnRails& own) {
  return topo::sides_of(hello.host_id, own.host_id);
}

std::vector<topo::RailEnd> rail_ends(const std::vector<WireRail>& rails, Crossing crossing) {
  std::vector<topo::RailEnd> ends;
  ends.reserve(rails.size());
  for (const WireRail& rail : rails) {
    topo::RailEnd& end = ends.emplace_back(rail_end(rail));
    end.apart = crossing == Crossing::BetweenSites && rail.leaves_site == 0;
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
  end.packets = rail.gid_type;
  end.partition = rail.partition;
  return end;
}

PairingEnds pairing_ends(const Hello& hello, const OwnRails& own) {
  const Crossing crossing = crossing_of(hello, own);
  return {.theirs = rail_ends(hello.rails, crossing),
          .ours = rail_ends(own.rails, crossing),
          .sides = sides_of(hello, own)};
}

DoubtfulRails doubtful_rails(const Hello& hello, const OwnRails& own) {
  const Crossing crossing = crossing_of(hello, own);
  DoubtfulRails doubtful;
  if (crossing == Crossing::BetweenSites) return doubtful;
  std::vector<topo::RailEnd> theirs = rail_ends(hello.rails, crossing),
                             ours = rail_ends(own.rails, crossing);
  for (std::size_t i = 0; i < theirs.size(); ++i)
    theirs[i].shared = (hello.proof.shared >> i & 1) != 0;
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i].shared = (own.shared >> i & 1) != 0;
  for (const topo::WirePair& pair : topo::doubtful_pairs(theirs, ours, sides_of(hello, own))) {
    const bool up = hello.rails[pair.local].up != 0 && own.rails[pair.peer].up != 0;
    (up ? doubtful.up : doubtful.down).push_back(pair);
  }
  return doubtful;
}

PathChoice choose_paths(const Hello& hello, const OwnRails& own_side, const AskRoute& ask,
                        const topo::CableProof* proof) {
  PathChoice choice;
  const std::vector<WireRail>& own_rails = own_side.rails;
  const PairingEnds ends = pairing_ends(hello, own_side);
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
  for (const topo::RailPair& pair : topo::pair_rails(
           ends.theirs, ends.ours,
           {.path_count_max = kMeetMax, .reach = reach, .proof = proof, .sides = ends.sides})) {
    WirePath path;
    path.connector_rail = static_cast<std::uint8_t>(pair.local);
    path.connector_address = static_cast<std::uint8_t>(pair.local_address);
    path.acceptor_rail = static_cast<std::uint8_t>(pair.peer);
    path.acceptor_address = static_cast<std::uint8_t>(pair.peer_address);
    path.mtu = std::min(hello.rails[pair.local].mtu, own_rails[pair.peer].mtu);
    choice.meet.push_back(path);
  }
  choice.sets = path_sets(choice.meet, hello.rails, own_rails, hello.asked);
  if (proof != nullptr) choice.proof = *proof;
  return choice;
}

namespace {
// Returns the pairs that meet, without those about which datagrams got no answer, or can get none
// while a port of theirs is down. Hosts that are not neighbours may share a subnet, and then only
// hosts between lead from one to the other. So they do if each pair has a port that is down.
std::vector<WirePath> without_silent(const Hello& hello, const OwnRails& own,
                                     const PathChoice& choice) {
  std::vector<WirePath> known = choice.meet;
  const auto has_port_down = [&](const WirePath& pair) {
    return hello.rails[pair.connector_rail].up == 0 || own.rails[pair.acceptor_rail].up == 0;
  };
  if (std::all_of(known.begin(), known.end(), has_port_down)) return {};
  if (!choice.proof.met.empty()) return known;
  const std::vector<topo::WirePair> down = doubtful_rails(hello, own).down;
  std::erase_if(known, [&](const WirePath& pair) {
    const topo::WirePair rails{.local = pair.connector_rail, .peer = pair.acceptor_rail};
    return topo::holds(choice.proof.asked, rails) || topo::holds(down, rails);
  });
  return known;
}

// Returns the rail that meets no rail of the other side, one that is up if there is any; `rail_of`
// tells this side's rail of a pair.
std::optional<std::uint8_t> rail_elsewhere(const std::vector<WireRail>& rails,
                                           const std::vector<WirePath>& meet,
                                           std::uint8_t WirePath::*rail_of) {
  std::optional<std::uint8_t> found;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const auto is_its = [&](const WirePath& pair) { return pair.*rail_of == i; };
    if (std::any_of(meet.begin(), meet.end(), is_its)) continue;
    if (!found || (rails[*found].up == 0 && rails[i].up != 0)) found = static_cast<std::uint8_t>(i);
  }
  return found;
}

}  // namespace

bool may_be_relayed(const Hello& hello, const OwnRails& own, const PathChoice& choice) {
  if (crossing_of(hello, own) == Crossing::BetweenSites) return false;
  return hello.asked.wish == RailsWish::Auto ||
         (hello.asked.wish == RailsWish::All && without_silent(hello, own, choice).empty());
}

void add_relayed(const Hello& hello, const OwnRails& own, const Settings& settings,
                 PathChoice* choice) {
  if (!may_be_relayed(hello, own, *choice)) return;
  const std::vector<WirePath> known = without_silent(hello, own, *choice);
  const auto theirs = rail_elsewhere(hello.rails, known, &WirePath::connector_rail);
  const auto ours = rail_elsewhere(own.rails, known, &WirePath::acceptor_rail);
  if (!theirs || !ours) return;
  // The last pair by place, which may be no cable, gives way to the way over other hosts.
  if (known.empty() && choice->sets.primary.size() == kPathsMax) {
    choice->meet.resize(kPathsMax - 1);
    choice->sets = path_sets(choice->meet, hello.rails, own.rails, hello.asked);
  }
  const std::vector<WirePath>& primary = choice->sets.primary;
  std::vector<WirePath>& standby = choice->sets.standby;
  // So does the last cable to the peer, because that way needs none.
  if (primary.size() + standby.size() == kPathsMax && !standby.empty()) standby.pop_back();
  std::size_t room = kPathsMax - primary.size() - standby.size();
  const bool both_ways = hello.both_ways != 0 && settings.both_ways != 0 &&
                         slots_have_room(hello.rails) && slots_have_room(own.rails);
  if (room != 0 && both_ways && !primary.empty()) {
    WirePath& beside = choice->beside.emplace_back();
    beside.connector_rail = *theirs;
    beside.acceptor_rail = *ours;
    beside.mtu = std::min(hello.rails[*theirs].mtu, own.rails[*ours].mtu);
    --room;
  }
  choice->relayed = static_cast<std::uint8_t>(std::min<std::size_t>(room, kRelayPlacesMax));
}

namespace {
// Returns true if datagrams were sent for the pair, or are to be, and only its place tells of it.
bool is_guessed(const WirePath& path, const DoubtfulRails& doubtful, const PathChoice& choice) {
  const topo::WirePair pair{.local = path.connector_rail, .peer = path.acceptor_rail};
  return !topo::holds(choice.proof.met, pair) &&
         (topo::holds(doubtful.up, pair) || topo::holds(doubtful.down, pair));
}
}  // namespace

void add_by_proof(const Hello& hello, const OwnRails& own, PathChoice* choice) {
  std::vector<WirePath>& standby = choice->sets.standby;
  const DoubtfulRails doubtful = doubtful_rails(hello, own);
  if (hello.asked.wish == RailsWish::Asked || choice->sets.primary.empty() || doubtful.empty())
    return;
  const auto guessed = [&](const WirePath& path) { return is_guessed(path, doubtful, *choice); };
  const std::size_t primary = choice->sets.primary.size();
  if (primary + choice->beside.size() + standby.size() + choice->relayed == kPathsMax) {
    const auto all = std::span(choice->meet).first(std::min(primary, choice->meet.size()));
    if (!standby.empty()) {
      standby.pop_back();
    } else if (choice->relayed > 1) {
      --choice->relayed;
    } else if (!all.empty() && guessed(all.back()) &&
               std::count_if(all.begin(), all.end(), guessed) > 1) {
      // A single guess joins the only two ports that are left.
      choice->meet.resize(all.size() - 1);
      choice->sets = path_sets(choice->meet, hello.rails, own.rails, hello.asked);
    } else {
      return;
    }
  }
  choice->by_proof = 1;
}

std::string no_path_text(const Hello& hello, const OwnRails& own) {
  const Crossing crossing = crossing_of(hello, own);
  std::string subnets =
      topo::no_common_subnet_text(rail_ends(hello.rails, crossing), rail_ends(own.rails, crossing));
  if (crossing == Crossing::WithinASite) return subnets;
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
  if (const std::vector<MisfitLine> misfits = misfit_lines(hello, own, choice, name);
      !misfits.empty())
    return no_path_for_misfit(hello.host + " and " + name, misfits.front());
  return fmt::format(
      "hosts {} and {} share no subnet: {}; {}", hello.host, name, subnets,
      choice.elsewhere.empty() ? "no rail has a route to its counterpart" : choice.elsewhere);
}

std::vector<std::string> shared_subnet_lines(const std::vector<WireRail>& rails) {
  std::map<std::string, std::string> names;
  std::map<std::string, int> counts;
  for (const WireRail& rail : rails) {
    std::set<std::string> subnets;
    for (const WireAddress& each : rail.addresses) {
      const SocketAddress address = SocketAddress::from_gid(each.gid);
      // Every net device has such an address.
      if (address.family == AF_INET6 && address.link_local() && rail.addresses.size() > 1) continue;
      subnets.insert(topo::subnet_text({address, each.prefix_len}));
    }
    if (rail.ethernet == 0) subnets.clear();
    for (const std::string& subnet : subnets)
      names[subnet] += (counts[subnet]++ == 0 ? "" : ", ") + rail.name;
  }
  std::vector<std::string> lines;
  for (const auto& [subnet, rail_names] : names) {
    if (counts[subnet] < 2) continue;
    lines.push_back("rails " + rail_names + " are in one subnet " + subnet +
                    ": datagrams tell which cable leads where; without answers, ports meet in this "
                    "order");
  }
  return lines;
}

std::string address_text(const WireAddress& address) {
  return SocketAddress::from_gid(address.gid).text();
}

}  // namespace mesh::engine
