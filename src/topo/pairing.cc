#include "src/topo/pairing.h"

#include "src/base/check.h"
#include "src/base/setting_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace mesh::topo {

namespace {
// The bits that belong to the prefix in the byte with this index.
std::uint8_t prefix_mask(int prefix_len, std::size_t index) noexcept {
  const int bits = prefix_len - static_cast<int>(index) * 8;
  if (bits >= 8) return 0xff;
  return bits <= 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(0xff << (8 - bits));
}
}  // namespace

bool same_subnet(const SubnetMember& a, const SubnetMember& b) noexcept {
  if (!a.valid() || !b.valid() || a.address.family != b.address.family) return false;
  return AddressRange{a.address, a.prefix_len}.holds(b.address) &&
         AddressRange{b.address, b.prefix_len}.holds(a.address);
}

bool speaks_to(const RailEnd& one, const RailEnd& other) noexcept {
  constexpr unsigned kFullMember = 0x8000;
  if (one.ethernet != other.ethernet || one.packets != other.packets) return false;
  const unsigned differ = one.partition ^ other.partition, either = one.partition | other.partition;
  return one.ethernet || ((differ & ~kFullMember) == 0 && (either & kFullMember) != 0);
}

SubnetMember member_of(const RailAddress& address) {
  return {SocketAddress::from_gid(address.gid), address.prefix_len};
}

bool same_ib_subnet(const RailAddress& a, const RailAddress& b) noexcept {
  constexpr std::size_t kPrefixBytes = 8;
  return std::equal(a.gid.begin(), a.gid.begin() + kPrefixBytes, b.gid.begin());
}

namespace {
SocketAddress network_of(const SubnetMember& member) {
  SocketAddress network = member.address;
  network.scope_id = 0;
  for (std::size_t i = 0; i < network.bytes.size(); ++i)
    network.bytes[i] &= prefix_mask(member.prefix_len, i);
  return network;
}
}  // namespace

std::string subnet_text(const SubnetMember& member) {
  return network_of(member).text() + "/" + std::to_string(member.prefix_len);
}

namespace {
enum class Scope { Subnet, LinkLocal };

struct Rule {
  Scope scope = Scope::Subnet;
  bool equal_addresses = false;  // equal addresses may meet, as when a host connects to itself
  const CableProof* proof = nullptr;
};

enum class Proven { Unknown, Met, Apart };

// Returns true if one of the two rails is on a cable to another rail: the pair that is proven for
// it is the only one of either rail. On a switch a rail has several.
bool is_elsewhere(const std::vector<WirePair>& met, const WirePair& pair) {
  const auto count = [&met](std::size_t WirePair::*rail, std::size_t index) {
    return std::count_if(met.begin(), met.end(),
                         [&](const WirePair& each) { return each.*rail == index; });
  };
  return std::any_of(met.begin(), met.end(), [&](const WirePair& each) {
    return (each.local == pair.local || each.peer == pair.peer) &&
           count(&WirePair::local, each.local) == 1 && count(&WirePair::peer, each.peer) == 1;
  });
}

Proven proven(const CableProof* proof, const WirePair& pair) {
  if (proof == nullptr || proof->met.empty()) return Proven::Unknown;
  if (holds(proof->met, pair)) return Proven::Met;
  return holds(proof->asked, pair) || is_elsewhere(proof->met, pair) ? Proven::Apart
                                                                     : Proven::Unknown;
}

bool meet(const RailAddress& a, const RailAddress& b, const Rule& rule) {
  const SubnetMember member = member_of(a);
  if (a.gid == b.gid && !rule.equal_addresses) return false;
  return member.address.link_local() == (rule.scope == Scope::LinkLocal) &&
         same_subnet(member, member_of(b));
}

// A network's address, its prefix length and its family; all zero for an InfiniBand subnet.
using Subnet = std::tuple<std::array<std::uint8_t, 16>, int, int>;
Subnet subnet_of(const RailAddress& address) {
  const SubnetMember member = member_of(address);
  const SocketAddress network = network_of(member);
  return {network.bytes, member.prefix_len, network.family};
}

struct Meeting {
  RailPair pair;
  Subnet subnet;
  std::size_t company = 0;  // pairs of rails that meet in that subnet; a cable's own has one
  bool alike = false;       // equal identities
  bool up = true;           // both ports are
};

std::vector<Meeting> meetings_of(const RailEnd& a, const RailEnd& b, const Rule& rule) {
  DCHECK(!a.addresses.empty() && !b.addresses.empty());
  std::vector<Meeting> meetings;
  if (!speaks_to(a, b)) return meetings;
  if (!a.ethernet) {
    const bool equal = same_ib_subnet(a.addresses.front(), b.addresses.front());
    if (equal && rule.scope == Scope::Subnet) meetings.emplace_back();
    return meetings;
  }
  for (std::size_t local = 0; local < a.addresses.size(); ++local) {
    for (std::size_t peer = 0; peer < b.addresses.size(); ++peer) {
      if (!meet(a.addresses[local], b.addresses[peer], rule)) continue;
      meetings.push_back({.pair = {.local_address = local, .peer_address = peer},
                          .subnet = subnet_of(a.addresses[local])});
    }
  }
  return meetings;
}

// Finds which rails reach each other. Of several subnets it takes the one that the fewest pairs are
// in, and the first of equals.
std::vector<Meeting> reachable_pairs(std::span<const RailEnd> locals,
                                     std::span<const RailEnd> peers, const Rule& rule) {
  std::vector<std::vector<Meeting>> all;
  std::map<Subnet, std::size_t> company;
  for (std::size_t local = 0; local < locals.size(); ++local) {
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (locals[local].apart || peers[peer].apart) continue;
      const Proven known = proven(rule.proof, {local, peer});
      if (known == Proven::Apart) continue;
      std::vector<Meeting> meetings = meetings_of(locals[local], peers[peer], rule);
      if (meetings.empty() && known == Proven::Met)
        meetings =
            meetings_of(locals[local], peers[peer], {Scope::LinkLocal, rule.equal_addresses});
      if (meetings.empty()) continue;
      std::set<Subnet> subnets;
      for (Meeting& meeting : meetings) {
        meeting.pair.local = local;
        meeting.pair.peer = peer;
        meeting.alike = locals[local].identity == peers[peer].identity;
        meeting.up = locals[local].up && peers[peer].up;
        subnets.insert(meeting.subnet);
      }
      for (const Subnet& subnet : subnets) ++company[subnet];
      all.push_back(std::move(meetings));
    }
  }
  std::vector<Meeting> reachable;
  for (std::vector<Meeting>& meetings : all) {
    for (Meeting& meeting : meetings) meeting.company = company[meeting.subnet];
    reachable.push_back(*std::min_element(
        meetings.begin(), meetings.end(),
        [](const Meeting& a, const Meeting& b) { return a.company < b.company; }));
  }
  return reachable;
}

class Pairing {
 public:
  Pairing(std::size_t locals, std::size_t peers, std::vector<Meeting> reachable)
      : local_uses_(locals), peer_uses_(peers), reachable_(std::move(reachable)) {}

  std::vector<RailPair> pairs(Scope scope) {
    // Rails with a cable of their own come first, so that it is not lent to others.
    std::vector<std::size_t> locals(local_uses_.size());
    std::iota(locals.begin(), locals.end(), std::size_t{0});
    std::stable_sort(locals.begin(), locals.end(), [this](std::size_t a, std::size_t b) {
      return company_of(a) < company_of(b);
    });
    const auto peer_uses = [&](const RailPair& pair) { return peer_uses_[pair.peer]; };
    for (const std::size_t local : locals) {
      const std::size_t least = company_of(local);
      take(
          scope,
          [&](const Meeting& each) {
            return each.alike && each.company == least && each.pair.local == local;
          },
          peer_uses);
    }
    // In this order the least used peer rail is the k-th for the k-th local one, and the first
    // again once all are taken.
    for (const std::size_t local : locals) {
      if (local_uses_[local] == 0)
        take(
            scope, [&](const Meeting& each) { return each.pair.local == local; }, peer_uses);
    }
    std::sort(pairs_.begin(), pairs_.end(),
              [](const RailPair& a, const RailPair& b) { return a.local < b.local; });
    for (std::size_t peer = 0; peer < peer_uses_.size(); ++peer) {
      if (peer_uses_[peer] != 0) continue;
      take(
          scope, [&](const Meeting& each) { return each.pair.peer == peer; },
          [&](const RailPair& pair) { return local_uses_[pair.local]; });
    }
    return pairs_;
  }

 private:
  std::size_t company_of(std::size_t local) const {
    std::size_t least = SIZE_MAX;
    for (const Meeting& each : reachable_) {
      if (each.pair.local == local) least = std::min(least, each.company);
    }
    return least;
  }

  // Takes one of the pairs that concern a rail: the one in the least company, then one that is up,
  // then the one whose other end is used least so far, then the first.
  template <typename Concerns, typename Uses>
  void take(Scope scope, const Concerns& concerns, const Uses& uses_of) {
    const Meeting* best = nullptr;
    const auto rank = [&](const Meeting& each) {
      return std::tuple(each.company, !each.up, uses_of(each.pair));
    };
    for (const Meeting& each : reachable_) {
      if (concerns(each) && (best == nullptr || rank(each) < rank(*best))) best = &each;
    }
    if (best == nullptr || (scope == Scope::LinkLocal && uses_of(best->pair) != 0)) return;
    DCHECK(best->pair.local < local_uses_.size() && best->pair.peer < peer_uses_.size());
    pairs_.push_back(best->pair);
    ++local_uses_[best->pair.local];
    ++peer_uses_[best->pair.peer];
  }

  std::vector<int> local_uses_, peer_uses_;
  const std::vector<Meeting> reachable_;
  std::vector<RailPair> pairs_;
};

// Returns true if one side has every rail of the other side. Processes of one host may have been
// given different rails.
bool same_host(std::span<const RailEnd> locals, std::span<const RailEnd> peers, Sides sides) {
  if (sides == Sides::TwoHosts) return false;
  const auto same_address = [](const RailAddress& a, const RailAddress& b) {
    return a.gid == b.gid;
  };
  const auto same_rail = [&](const RailEnd& a, const RailEnd& b) {
    return std::equal(a.addresses.begin(), a.addresses.end(), b.addresses.begin(),
                      b.addresses.end(), same_address);
  };
  const bool fewer = locals.size() < peers.size();
  const std::span<const RailEnd> few = fewer ? locals : peers;
  const std::span<const RailEnd> all = fewer ? peers : locals;
  return std::all_of(few.begin(), few.end(), [&](const RailEnd& rail) {
    return std::any_of(all.begin(), all.end(),
                       [&](const RailEnd& other) { return same_rail(rail, other); });
  });
}

// Returns false if no address of one side can meet one of the other, by any rule. A search for
// routes asks for many pairs of hosts, most of which share no cable.
bool may_meet(std::span<const RailEnd> locals, std::span<const RailEnd> peers) {
  for (const RailEnd& local : locals) {
    for (const RailEnd& peer : peers) {
      if (!speaks_to(local, peer)) continue;
      if (!local.ethernet) return true;
      for (const RailAddress& address : local.addresses) {
        const SubnetMember member = member_of(address);
        for (const RailAddress& other : peer.addresses)
          if (same_subnet(member, member_of(other))) return true;
      }
    }
  }
  return false;
}

std::vector<RailPair> all_pairs(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                const PairingWish& wish) {
  if (!may_meet(locals, peers)) return {};
  for (const bool equal_addresses : {same_host(locals, peers, wish.sides), true}) {
    if (equal_addresses && wish.sides == Sides::TwoHosts) break;
    for (const Scope scope : {Scope::Subnet, Scope::LinkLocal}) {
      Pairing pairing(locals.size(), peers.size(),
                      reachable_pairs(locals, peers, {scope, equal_addresses, wish.proof}));
      if (std::vector<RailPair> pairs = pairing.pairs(scope); !pairs.empty()) return pairs;
    }
  }
  return {};
}

// Returns how many of the pairs have a rail.
std::size_t uses(std::span<const WirePair> pairs, std::size_t WirePair::*rail, std::size_t index) {
  return static_cast<std::size_t>(std::count_if(
      pairs.begin(), pairs.end(), [&](const WirePair& each) { return each.*rail == index; }));
}

std::string subnets_text(std::span<const RailEnd> rails) {
  std::vector<std::string> seen;
  for (const RailEnd& rail : rails) {
    if (rail.apart) continue;
    for (const RailAddress& address : rail.addresses) {
      const std::string text =
          rail.ethernet ? subnet_text(member_of(address))
                        : "InfiniBand " + subnet_text({SocketAddress::from_gid(address.gid), 64});
      if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(text);
    }
  }
  return seen.empty() ? "none" : fmt::format("{}", fmt::join(seen, ", "));
}
}  // namespace

bool holds(std::span<const WirePair> pairs, const WirePair& pair) noexcept {
  return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
}

void CableProof::add_met(std::span<const WirePair> pairs) {
  for (const WirePair& pair : pairs) {
    if (!holds(asked, pair)) asked.push_back(pair);
    if (!holds(met, pair)) met.push_back(pair);
  }
}

CableProof turned(const CableProof& proof) {
  CableProof other = proof;
  for (auto* const list : {&other.asked, &other.met})
    for (WirePair& pair : *list) std::swap(pair.local, pair.peer);
  return other;
}

std::vector<RailPair> pair_rails(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                 const PairingWish& wish) {
  std::vector<RailPair> pairs = all_pairs(locals, peers, wish);
  if (wish.reach) {
    const std::vector<RailPair> routed = routed_pairs(locals, peers, pairs, wish.reach);
    pairs.insert(pairs.end(), routed.begin(), routed.end());
  }
  std::stable_sort(pairs.begin(), pairs.end(), [&](const RailPair& a, const RailPair& b) {
    const auto up = [&](const RailPair& pair) {
      return locals[pair.local].up && peers[pair.peer].up;
    };
    if (up(a) != up(b)) return up(a);
    const bool a_preferred = a.local == wish.preferred_local;
    const bool b_preferred = b.local == wish.preferred_local;
    if (a_preferred != b_preferred) return a_preferred;
    const auto speed = [&](const RailPair& pair) {
      return std::min(locals[pair.local].speed_mbps, peers[pair.peer].speed_mbps);
    };
    return speed(a) > speed(b);
  });
  DCHECK(pairs.size() <= locals.size() * peers.size());
  if (pairs.size() > wish.path_count_max) pairs.resize(wish.path_count_max);
  return pairs;
}

std::vector<WirePair> doubtful_pairs(std::span<const RailEnd> locals,
                                     std::span<const RailEnd> peers, Sides sides) {
  if (!may_meet(locals, peers) || same_host(locals, peers, sides)) return {};
  std::vector<bool> local_certain(locals.size()), peer_certain(peers.size());
  std::vector<WirePair> shared, local_only;
  std::vector<WirePair> all;  // also those of equal addresses, which leave another choice
  bool certain = false;
  const auto is_shared = [&](const WirePair& pair) {
    return locals[pair.local].shared || peers[pair.peer].shared;
  };
  for (const Meeting& each : reachable_pairs(locals, peers, {Scope::Subnet})) {
    const bool alone = each.company == 1 && !is_shared({each.pair.local, each.pair.peer});
    if (!locals[each.pair.local].ethernet || alone) {
      local_certain[each.pair.local] = peer_certain[each.pair.peer] = certain = true;
    } else {
      shared.push_back({each.pair.local, each.pair.peer});
    }
  }
  for (const Meeting& each : reachable_pairs(locals, peers, {Scope::LinkLocal}))
    local_only.push_back({each.pair.local, each.pair.peer});
  for (const Meeting& each : reachable_pairs(locals, peers, {Scope::Subnet, true}))
    all.push_back({each.pair.local, each.pair.peer});
  for (auto* const list : {&shared, &local_only, &all}) {
    std::erase_if(*list, [&](const WirePair& pair) {
      return local_certain[pair.local] || peer_certain[pair.peer];
    });
  }
  const bool others_meet = certain || !shared.empty();
  std::vector<WirePair> candidates = shared;
  for (const WirePair& pair : local_only)
    if (!holds(candidates, pair)) candidates.push_back(pair);
  for (const WirePair& pair : candidates)
    if (!holds(all, pair)) all.push_back(pair);
  std::vector<WirePair> doubtful;
  for (const WirePair& pair : candidates) {
    const bool choice =
        uses(all, &WirePair::local, pair.local) > 1 || uses(all, &WirePair::peer, pair.peer) > 1;
    if (choice || is_shared(pair) || (!holds(shared, pair) && others_meet))
      doubtful.push_back(pair);
  }
  std::sort(doubtful.begin(), doubtful.end());
  return doubtful;
}

std::string no_common_subnet_text(std::span<const RailEnd> locals, std::span<const RailEnd> peers) {
  return "the first has " + subnets_text(locals) + "; the second " + subnets_text(peers);
}

}  // namespace mesh::topo
