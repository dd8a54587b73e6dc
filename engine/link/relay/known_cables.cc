#include "engine/link/relay/known_cables.h"

#include "engine/control/frames.h"

#include <algorithm>
#include <cstddef>

namespace mesh::engine {

std::vector<WireCables> told_cables(const topo::CableProof& proof) {
  std::map<std::size_t, WireCables> cables;
  for (const topo::WirePair& pair : proof.asked)
    cables[pair.local].asked |= std::uint64_t{1} << pair.peer;
  for (const topo::WirePair& pair : proof.met)
    cables[pair.local].met |= std::uint64_t{1} << pair.peer;
  std::vector<WireCables> told;
  told.reserve(cables.size());
  for (auto& [rail, each] : cables) {
    each.rail = static_cast<std::uint8_t>(rail);
    told.push_back(each);
  }
  return told;
}

topo::CableProof heard_cables(std::span<const WireCables> cables) {
  topo::CableProof proof;
  for (const WireCables& each : cables) {
    for (std::size_t peer = 0; peer < kRailsMax; ++peer) {
      if ((each.asked >> peer & 1) != 0) proof.asked.push_back({each.rail, peer});
      if ((each.met >> peer & 1) != 0) proof.met.push_back({each.rail, peer});
    }
  }
  return proof;
}

void KnownCables::note(const Id128& from, const Id128& to, std::span<const WireCables> told) {
  topo::CableProof proof = heard_cables(told);
  if (proof.asked.empty() || (proof.met.empty() && all_.count({from, to}) != 0)) return;
  answered_ |= !proof.met.empty();
  all_[{to, from}] = topo::turned(proof);
  all_[{from, to}] = std::move(proof);
}

const topo::CableProof* KnownCables::between(const Id128& from, const Id128& to) const {
  const auto found = all_.find({from == Id128{} ? own_ : from, to == Id128{} ? peer_ : to});
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<topo::RailPair> pairs_of_step(std::span<const topo::RailEnd> from,
                                          std::span<const topo::RailEnd> to,
                                          const CablesBetween& cables) {
  const topo::CableProof* const proof =
      cables.known == nullptr ? nullptr : cables.known->between(cables.from, cables.to);
  std::vector<topo::RailPair> pairs =
      topo::pair_rails(from, to, {.path_count_max = kMeetMax, .proof = proof});
  if (cables.known == nullptr || pairs.empty()) return pairs;
  std::vector<topo::WirePair> unknown;
  if (proof != nullptr && proof->met.empty() && cables.known->answered())
    unknown = proof->asked;
  else if ((proof == nullptr || proof->met.empty()) && cables.unproven == Unproven::LeftOut)
    unknown = topo::doubtful_pairs(from, to);
  std::erase_if(pairs, [&unknown](const topo::RailPair& pair) {
    return topo::holds(unknown, {pair.local, pair.peer});
  });
  return pairs;
}

}  // namespace mesh::engine
