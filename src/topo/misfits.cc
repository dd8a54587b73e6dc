#include "src/topo/pairing.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace mesh::topo {

namespace {
// Returns the first addresses of two Ethernet rails that share a subnet, those that are equal last.
std::optional<RailPair> shared_addresses(const RailEnd& a, const RailEnd& b) {
  for (const bool equal : {false, true}) {
    for (std::size_t local = 0; local < a.addresses.size(); ++local) {
      for (std::size_t peer = 0; peer < b.addresses.size(); ++peer) {
        const RailAddress &one = a.addresses[local], &other = b.addresses[peer];
        const SubnetMember member = member_of(one);
        if ((one.gid == other.gid) == equal && !member.address.link_local() &&
            same_subnet(member, member_of(other)))
          return RailPair{.local_address = local, .peer_address = peer};
      }
    }
  }
  return std::nullopt;
}

std::optional<MisfitPair> misfit(const RailEnd& a, const RailEnd& b, Sides sides) {
  if (a.apart || b.apart || a.ethernet != b.ethernet) return std::nullopt;
  if (!a.ethernet) {
    if (speaks_to(a, b) || !same_ib_subnet(a.addresses.front(), b.addresses.front()))
      return std::nullopt;
    return MisfitPair{.pair = {}, .why = Misfit::Partitions};
  }
  const std::optional<RailPair> shared = shared_addresses(a, b);
  if (!shared) return std::nullopt;
  if (!speaks_to(a, b)) return MisfitPair{.pair = *shared, .why = Misfit::Packets};
  const bool equal =
      a.addresses[shared->local_address].gid == b.addresses[shared->peer_address].gid;
  if (!equal || sides != Sides::TwoHosts) return std::nullopt;
  return MisfitPair{.pair = *shared, .why = Misfit::EqualAddresses};
}
}  // namespace

std::vector<MisfitPair> misfits(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                std::span<const RailPair> paired, Sides sides) {
  std::vector<MisfitPair> found;
  const auto meets = [paired](std::size_t RailPair::*rail, std::size_t index) {
    return std::any_of(paired.begin(), paired.end(),
                       [&](const RailPair& each) { return each.*rail == index; });
  };
  for (std::size_t local = 0; local < locals.size(); ++local) {
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (meets(&RailPair::local, local) || meets(&RailPair::peer, peer)) continue;
      std::optional<MisfitPair> made = misfit(locals[local], peers[peer], sides);
      if (!made) continue;
      made->pair.local = local;
      made->pair.peer = peer;
      found.push_back(*made);
    }
  }
  return found;
}

}  // namespace mesh::topo
