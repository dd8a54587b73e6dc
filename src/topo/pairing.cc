#include "src/topo/pairing.h"

#include "src/topo/subnet.h"

#include <algorithm>
#include <optional>

namespace mesh::topo {

namespace {
constexpr std::size_t kIbPrefixBytes = 8;

enum class Scope { Subnet, LinkLocal };

SubnetMember member_of(const RailAddress& address) { return {SocketAddress::from_gid(address.gid), address.prefix_len}; }

bool meet(const RailAddress& a, const RailAddress& b, Scope scope) {
  const SubnetMember member = member_of(a);
  return member.address.link_local() == (scope == Scope::LinkLocal) && same_subnet(member, member_of(b));
}

struct AddressPair {
  std::size_t local = 0;
  std::size_t peer = 0;
};

// The first addresses by which the two rails reach each other.
std::optional<AddressPair> reach(const RailEnd& a, const RailEnd& b, Scope scope) {
  if (a.ethernet != b.ethernet) return std::nullopt;
  if (!a.ethernet) {
    const auto& prefix = a.addresses.front().gid;
    const bool equal = std::equal(prefix.begin(), prefix.begin() + kIbPrefixBytes, b.addresses.front().gid.begin());
    return equal && scope == Scope::Subnet ? std::optional(AddressPair{}) : std::nullopt;
  }
  for (std::size_t local = 0; local < a.addresses.size(); ++local) {
    for (std::size_t peer = 0; peer < b.addresses.size(); ++peer) {
      if (meet(a.addresses[local], b.addresses[peer], scope)) return AddressPair{local, peer};
    }
  }
  return std::nullopt;
}

std::vector<RailPair> reachable_pairs(std::span<const RailEnd> locals, std::span<const RailEnd> peers, Scope scope) {
  std::vector<RailPair> reachable;
  for (std::size_t local = 0; local < locals.size(); ++local) {
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      const std::optional<AddressPair> by = reach(locals[local], peers[peer], scope);
      if (by) reachable.push_back({local, peer, by->local, by->peer});
    }
  }
  return reachable;
}

std::vector<RailPair> pairs_within(std::span<const RailEnd> locals, std::span<const RailEnd> peers, Scope scope) {
  const std::vector<RailPair> reachable = reachable_pairs(locals, peers, scope);
  std::vector<int> local_uses(locals.size());
  std::vector<int> peer_uses(peers.size());
  std::vector<RailPair> pairs;
  // Of those that concern a rail the one whose other end is used least so far, the first of equals.
  const auto take = [&](const auto& concerns, const auto& uses_of) {
    const RailPair* best = nullptr;
    for (const RailPair& each : reachable) {
      if (concerns(each) && (best == nullptr || uses_of(each) < uses_of(*best))) best = &each;
    }
    if (best == nullptr || (scope == Scope::LinkLocal && uses_of(*best) != 0)) return;
    pairs.push_back(*best);
    ++local_uses[best->local];
    ++peer_uses[best->peer];
  };
  // In order the least used peer rail is the k-th for the k-th local one, and the first again once all are taken.
  for (std::size_t local = 0; local < locals.size(); ++local)
    take([&](const RailPair& pair) { return pair.local == local; }, [&](const RailPair& pair) { return peer_uses[pair.peer]; });
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    if (peer_uses[peer] != 0) continue;
    take([&](const RailPair& pair) { return pair.peer == peer; }, [&](const RailPair& pair) { return local_uses[pair.local]; });
  }
  return pairs;
}

std::string subnets_text(std::span<const RailEnd> rails) {
  std::vector<std::string> seen;
  for (const RailEnd& rail : rails) {
    for (const RailAddress& address : rail.addresses) {
      const std::string text =
          rail.ethernet ? subnet_text(member_of(address)) : "InfiniBand " + subnet_text({SocketAddress::from_gid(address.gid), 64});
      if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(text);
    }
  }
  if (seen.empty()) return "none";
  std::string joined;
  for (const std::string& text : seen) joined += (joined.empty() ? "" : ", ") + text;
  return joined;
}
}  // namespace

std::vector<RailPair> pair_rails(std::span<const RailEnd> locals, std::span<const RailEnd> peers, const PairingWish& wish) {
  std::vector<RailPair> pairs = pairs_within(locals, peers, Scope::Subnet);
  if (pairs.empty()) pairs = pairs_within(locals, peers, Scope::LinkLocal);
  std::stable_sort(pairs.begin(), pairs.end(), [&](const RailPair& a, const RailPair& b) {
    const bool a_preferred = a.local == wish.preferred_local;
    const bool b_preferred = b.local == wish.preferred_local;
    if (a_preferred != b_preferred) return a_preferred;
    const auto speed = [&](const RailPair& pair) { return std::min(locals[pair.local].speed_mbps, peers[pair.peer].speed_mbps); };
    return speed(a) > speed(b);
  });
  if (pairs.size() > wish.path_count_max) pairs.resize(wish.path_count_max);
  return pairs;
}

std::string no_common_subnet_text(std::span<const RailEnd> locals, std::span<const RailEnd> peers) {
  return "our subnets " + subnets_text(locals) + "; the peer's " + subnets_text(peers);
}

}  // namespace mesh::topo
