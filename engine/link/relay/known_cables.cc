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
  cables_.clear();
  all_[{to, from}] = topo::turned(proof);
  all_[{from, to}] = std::move(proof);
}

const topo::CableProof* KnownCables::between(const Id128& from, const Id128& to) const {
  const auto found = all_.find({first(from), last(to)});
  return found == all_.end() ? nullptr : &found->second;
}

const KnownCables::Cables& KnownCables::cables_of(const Id128& host) const {
  if (cables_.empty()) {
    std::map<End, std::vector<End>> ends;
    for (const auto& [hosts, proof] : all_)
      for (const topo::WirePair& met : proof.met)
        ends[{hosts.first, met.local}].emplace_back(hosts.second, met.peer);
    for (const auto& [end, others] : ends) {
      Cables& cables = cables_[end.first];
      cables.resize(end.second + 1);
      if (others.size() == 1 && ends.at(others.front()).size() == 1) cables.back() = others.front();
    }
  }
  static const Cables kNone;
  const auto found = cables_.find(host);
  return found == cables_.end() ? kNone : found->second;
}

bool KnownCables::is_elsewhere(const Id128& from, const Id128& to,
                               const topo::RailPair& pair) const {
  const auto leads_elsewhere = [this](const End& rail, const End& other) {
    const Cables& cables = cables_of(rail.first);
    return rail.second < cables.size() && cables[rail.second] && *cables[rail.second] != other;
  };
  const End local{first(from), pair.local}, far{last(to), pair.peer};
  return leads_elsewhere(local, far) || leads_elsewhere(far, local);
}

bool KnownCables::are_elsewhere(const Id128& from, const Id128& to, const RailCounts& rails) const {
  const auto all_lead_elsewhere = [this](const Id128& host, std::size_t count, const Id128& other) {
    const Cables& cables = cables_of(host);
    return cables.size() >= count &&
           std::all_of(cables.begin(), cables.end(), [&other](const std::optional<End>& each) {
             return each && each->first != other;
           });
  };
  return all_lead_elsewhere(first(from), rails.from, last(to)) ||
         all_lead_elsewhere(last(to), rails.to, first(from));
}

std::vector<topo::RailPair> pairs_of_step(std::span<const topo::RailEnd> from,
                                          std::span<const topo::RailEnd> to,
                                          const CablesBetween& cables) {
  const bool left_out = cables.known != nullptr && cables.unproven == Unproven::LeftOut;
  if (left_out && cables.known->are_elsewhere(cables.from, cables.to, {from.size(), to.size()}))
    return {};  // as for most pairs of hosts in a mesh of cables
  const topo::CableProof* const proof =
      cables.known == nullptr ? nullptr : cables.known->between(cables.from, cables.to);
  std::vector<topo::RailPair> pairs = topo::pair_rails(
      from, to, {.path_count_max = kMeetMax, .proof = proof, .sides = cables.sides});
  if (cables.known == nullptr || pairs.empty()) return pairs;
  std::vector<topo::WirePair> unknown;
  if (proof != nullptr && proof->met.empty() && cables.known->answered())
    unknown = proof->asked;
  else if ((proof == nullptr || proof->met.empty()) && left_out)
    unknown = topo::doubtful_pairs(from, to, cables.sides);
  std::erase_if(pairs, [&](const topo::RailPair& pair) {
    return topo::holds(unknown, {pair.local, pair.peer}) ||
           (left_out && cables.known->is_elsewhere(cables.from, cables.to, pair));
  });
  return pairs;
}

}  // namespace mesh::engine
