#pragma once
// The cables between the hosts of a search for routes, where addresses do not tell them: each host
// tells what datagrams have told it (CableProofs). Thread: any (values). Bound: those of the frames
// that tell it, kRelayHostsMax hosts.

#include "engine/control/wire_cables.h"
#include "src/topo/pairing.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mesh::engine {

// Return a proof as frames have it, and back. The rails of the host that tells are the local ones.
std::vector<WireCables> told_cables(const topo::CableProof& proof);
topo::CableProof heard_cables(std::span<const WireCables> cables);

class KnownCables {
 public:
  // The tickets of the two hosts between which routes are sought, which have none in a search.
  KnownCables(const Id128& own, const Id128& peer) : own_(own), peer_(peer) {}

  // Notes what the host `from` tells. A later word replaces an earlier one, unless it only says
  // that nothing was answered.
  void note(const Id128& from, const Id128& to, std::span<const WireCables> told);
  // Returns what is known between two hosts of a search, or null.
  const topo::CableProof* between(const Id128& from, const Id128& to) const;
  // Returns true if a rail of the pair is on a cable of its own, whose other end is a third rail.
  // On a switch a rail meets several.
  bool is_elsewhere(const Id128& from, const Id128& to, const topo::RailPair& pair) const;
  // The numbers of the two hosts' rails.
  struct RailCounts {
    std::size_t from = 0, to = 0;
  };
  // Returns true if every rail of one of the hosts is on a cable of its own to a third host.
  bool are_elsewhere(const Id128& from, const Id128& to, const RailCounts& rails) const;
  // Returns false if no datagram was answered anywhere: firewalls may drop them all.
  bool answered() const noexcept { return answered_; }

 private:
  using End = std::pair<Id128, std::size_t>;  // a rail of a host
  // By rail: the other end of its cable, if the two meet each other alone.
  using Cables = std::vector<std::optional<End>>;
  const Cables& cables_of(const Id128& host) const;
  const Id128& first(const Id128& from) const noexcept { return from == Id128{} ? own_ : from; }
  const Id128& last(const Id128& to) const noexcept { return to == Id128{} ? peer_ : to; }

  Id128 own_, peer_;
  std::map<std::pair<Id128, Id128>, topo::CableProof> all_;
  mutable std::map<Id128, Cables> cables_;  // found from all_ when first asked for
  bool answered_ = false;
};

// Rails whose addresses do not tell whether they meet, and of which no host tells more, are left
// out, or meet by their place. So are rails of which one is on a cable to a third host. Rails about
// which datagrams got no answer are left out in any case, if other datagrams of the job got one.
enum class Unproven : std::uint8_t { LeftOut, ByPlace };

// One step of a route.
struct CablesBetween {
  const KnownCables* known = nullptr;  // null: addresses tell all
  const Id128 &from, &to;
  Unproven unproven = Unproven::ByPlace;
  topo::Sides sides = topo::Sides::Unknown;
};
// Returns the pairs of the two hosts' rails that meet.
std::vector<topo::RailPair> pairs_of_step(std::span<const topo::RailEnd> from,
                                          std::span<const topo::RailEnd> to,
                                          const CablesBetween& cables);

}  // namespace mesh::engine
