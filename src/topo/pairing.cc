#include "src/topo/pairing.h"

#include "src/topo/subnet.h"

#include <algorithm>

namespace mesh::topo {

namespace {
constexpr std::size_t kNone = SIZE_MAX;
constexpr std::size_t kIbPrefixBytes = 8;

SubnetMember member_of(const RailEnd& rail) { return {SocketAddress::from_gid(rail.gid), rail.prefix_len}; }

bool reach(const RailEnd& a, const RailEnd& b) {
  if (a.ethernet != b.ethernet) return false;
  if (!a.ethernet) return std::equal(a.gid.begin(), a.gid.begin() + kIbPrefixBytes, b.gid.begin());
  return same_subnet(member_of(a), member_of(b));
}

// How often each rail has been used so far.
struct Uses {
  std::vector<int> locals;
  std::vector<int> peers;
};

// The least used rail that reaches the given one, the first of equals; kNone: none does.
std::size_t least_used(const RailEnd& rail, std::span<const RailEnd> others, const std::vector<int>& uses) {
  std::size_t best = kNone;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (reach(rail, others[i]) && (best == kNone || uses[i] < uses[best])) best = i;
  }
  return best;
}

std::string subnets_text(std::span<const RailEnd> rails) {
  std::vector<std::string> seen;
  for (const RailEnd& rail : rails) {
    const std::string text =
        rail.ethernet ? subnet_text(member_of(rail)) : "InfiniBand " + subnet_text({SocketAddress::from_gid(rail.gid), 64});
    if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(text);
  }
  if (seen.empty()) return "none";
  std::string joined;
  for (const std::string& text : seen) joined += (joined.empty() ? "" : ", ") + text;
  return joined;
}
}  // namespace

std::vector<RailPair> pair_rails(std::span<const RailEnd> locals, std::span<const RailEnd> peers, const PairingWish& wish) {
  Uses uses{std::vector<int>(locals.size()), std::vector<int>(peers.size())};
  std::vector<RailPair> pairs;
  const auto use = [&](std::size_t local, std::size_t peer) {
    pairs.push_back({local, peer});
    ++uses.locals[local];
    ++uses.peers[peer];
  };
  // In order the least used peer rail is the k-th for the k-th local one, and the first again once all are taken.
  for (std::size_t local = 0; local < locals.size(); ++local) {
    if (const std::size_t peer = least_used(locals[local], peers, uses.peers); peer != kNone) use(local, peer);
  }
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    if (uses.peers[peer] != 0) continue;
    if (const std::size_t local = least_used(peers[peer], locals, uses.locals); local != kNone) use(local, peer);
  }
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
