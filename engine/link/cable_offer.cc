// A connector's part of a proof: where its ports take datagrams, and the questions that come there.
#include "engine/link/cable_message.h"
#include "engine/link/cable_proofs.h"
#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/random.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mesh::engine {

WireProof CableProofs::offer() {
  WireProof proof;
  proof.shared = shared_;
  refresh_ends();
  for (std::size_t rail = 0; rail < host_.rails().size(); ++rail) {
    const verbs::CableDatagrams* const end = end_of(rail);
    proof.places.push_back(end == nullptr ? WirePlace{} : wire_place_of(end->place()));
  }
  proof.ask = random_id();
  proof.answer = random_id();
  if (offers_.size() == kOffersMax) offers_.erase(offers_.begin());
  offers_.push_back({.ask = proof.ask, .answer = proof.answer});
  return proof;
}

void CableProofs::withdraw(const Id128& ask) noexcept {
  std::erase_if(offers_, [&ask](const Offer& offer) { return same_secret(offer.ask, ask); });
}

void CableProofs::Offer::note(const topo::WirePair& pair) {
  const auto found = std::find_if(heard.begin(), heard.end(),
                                  [&pair](const Heard& each) { return each.pair == pair; });
  if (found != heard.end()) {
    ++found->times;
  } else if (heard.size() < kMeetMax) {
    heard.push_back({.pair = pair, .times = 1});
  }
}

std::vector<topo::WirePair> CableProofs::one_way(const Id128& ask,
                                                 const topo::CableProof& told) const {
  std::vector<topo::WirePair> pairs;
  for (const Offer& offer : offers_) {
    if (!same_secret(offer.ask, ask)) continue;
    for (const Heard& each : offer.heard) {
      if (each.times >= kOneWayQuestions && topo::holds(told.asked, each.pair) &&
          !topo::holds(told.met, each.pair))
        pairs.push_back(each.pair);
    }
  }
  return pairs;
}

}  // namespace mesh::engine
