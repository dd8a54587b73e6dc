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
  ends_.reset();
  all_[{to, from}] = topo::turned(proof);
  all_[{from, to}] = std::move(proof);
}

const topo::CableProof* KnownCables::between(const Id128& from, const Id128& to) const {
  const auto found = all_.find({first(from), last(to)});
  return found == all_.end() ? nullptr : &found->second;
}

bool KnownCables::is_elsewhere(const Id128& from, const Id128& to,
                               const topo::RailPair& pair) const {
  if (!ends_) {
    ends_.emplace();
    for (const auto& [hosts, proof] : all_)
      for (const topo::WirePair& met : proof.met)
        (*ends_)[{hosts.first, met.local}].emplace_back(hosts.second, met.peer);
  }
  const auto only_end = [this](const End& end) -> const End* {
    const auto found = ends_->find(end);
    return found == ends_->end() || found->second.size() != 1 ? nullptr : &found->second.front();
  };
  const auto leads_elsewhere = [&](const End& rail, const End& other) {
    const End* const far = only_end(rail);
    return far != nullptr && *far != other && only_end(*far) != nullptr;
  };
  const End local{first(from), pair.local}, far{last(to), pair.peer};
  return leads_elsewhere(local, far) || leads_elsewhere(far, local);
}

std::vector<topo::RailPair> pairs_of_step(std::span<const topo::RailEnd> from,
                                          std::span<const topo::RailEnd> to,
                                          const CablesBetween& cables) {
  const topo::CableProof* const proof =
      cables.known == nullptr ? nullptr : cables.known->between(cables.from, cables.to);
  std::vector<topo::RailPair> pairs = topo::pair_rails(
      from, to, {.path_count_max = kMeetMax, .proof = proof, .sides = cables.sides});
  if (cables.known == nullptr || pairs.empty()) return pairs;
  std::vector<topo::WirePair> unknown;
  if (proof != nullptr && proof->met.empty() && cables.known->answered())
    unknown = proof->asked;
  else if ((proof == nullptr || proof->met.empty()) && cables.unproven == Unproven::LeftOut)
    unknown = topo::doubtful_pairs(from, to, cables.sides);
  const bool left_out = cables.unproven == Unproven::LeftOut;
  std::erase_if(pairs, [&](const topo::RailPair& pair) {
    return topo::holds(unknown, {pair.local, pair.peer}) ||
           (left_out && cables.known->is_elsewhere(cables.from, cables.to, pair));
  });
  return pairs;
}

}  // namespace mesh::engine
