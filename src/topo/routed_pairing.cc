#include "src/topo/pairing.h"

#include "src/base/check.h"
#include "src/base/socket.h"

#include <algorithm>

namespace mesh::topo {

namespace {

class RoutedPairing {
 public:
  RoutedPairing(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                const AskReach& ask)
      : locals_(locals), peers_(peers), ask_(ask) {}

  // Returns pairs of rails that have none yet: those of equal identity, or else in the order of the
  // lists.
  std::vector<RailPair> candidates(std::span<const RailPair> paired) const {
    std::vector<std::size_t> free_locals, free_peers;
    for (std::size_t i = 0; i < locals_.size(); ++i) {
      if (locals_[i].apart) continue;
      if (std::none_of(paired.begin(), paired.end(), [i](const auto& p) { return p.local == i; }))
        free_locals.push_back(i);
    }
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].apart) continue;
      if (std::none_of(paired.begin(), paired.end(), [i](const auto& p) { return p.peer == i; }))
        free_peers.push_back(i);
    }
    std::vector<RailPair> alike, in_order;
    for (const std::size_t local : free_locals) {
      for (const std::size_t peer : free_peers) {
        if (locals_[local].identity == peers_[peer].identity)
          alike.push_back({.local = local, .peer = peer});
      }
    }
    for (std::size_t i = 0; i < std::min(free_locals.size(), free_peers.size()); ++i)
      in_order.push_back({.local = free_locals[i], .peer = free_peers[i]});
    return alike.empty() ? in_order : alike;
  }

  // Stores in the pair its first addresses that reach each other, or about which nobody can tell.
  Reach reach(RailPair& pair) {
    const RailEnd& local = locals_[pair.local];
    const RailEnd& peer = peers_[pair.peer];
    if (!speaks_to(local, peer)) return Reach::No;
    if (!local.ethernet) return Reach::Unknown;
    Reach best = Reach::No;
    for (std::size_t mine = 0; mine < local.addresses.size(); ++mine) {
      for (std::size_t theirs = 0; theirs < peer.addresses.size(); ++theirs) {
        if (!comparable(local.addresses[mine], peer.addresses[theirs])) continue;
        if (asked_ == kRoutesAskedMax) return best;
        ++asked_;
        RailPair tried = pair;
        tried.local_address = mine;
        tried.peer_address = theirs;
        const Reach answer = ask_(tried);
        if (answer == Reach::No || answer == best) continue;
        pair = tried;
        best = answer;
        if (best == Reach::Yes) return best;
      }
    }
    return best;
  }

 private:
  static bool comparable(const RailAddress& a, const RailAddress& b) {
    const SocketAddress one = SocketAddress::from_gid(a.gid), two = SocketAddress::from_gid(b.gid);
    return one.family == two.family && !one.link_local() && !two.link_local() && a.gid != b.gid &&
           !same_subnet({one, a.prefix_len}, {two, b.prefix_len});
  }

  const std::span<const RailEnd> locals_, peers_;
  const AskReach& ask_;
  std::size_t asked_ = 0;
};

}  // namespace

std::vector<RailPair> routed_pairs(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                   std::span<const RailPair> paired, const AskReach& ask) {
  RoutedPairing pairing(locals, peers, ask);
  std::vector<RailPair> known, unknown;
  for (RailPair pair : pairing.candidates(paired)) {
    switch (pairing.reach(pair)) {
      case Reach::Yes: known.push_back(pair); break;
      case Reach::Unknown: unknown.push_back(pair); break;
      case Reach::No: break;
    }
  }
  DCHECK(known.size() + unknown.size() <= locals.size() * peers.size());
  return known.empty() && paired.empty() ? unknown : known;
}

}  // namespace mesh::topo
