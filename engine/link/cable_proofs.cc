#include "engine/link/cable_proofs.h"

#include "engine/link/cable_message.h"
#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mesh::engine {

namespace {
bool same_devices(const std::vector<WirePlace>& a, const std::vector<WirePlace>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const WirePlace& one, const WirePlace& other) {
                      return one.address == other.address && one.ipv4 == other.ipv4;
                    });
}
}  // namespace

// Opens the datagrams of a rail when they are first needed, and again if that failed.
verbs::CableDatagrams* CableProofs::end_of(std::size_t rail) {
  const std::span<const verbs::Rail> rails = host_.rails();
  ends_.resize(rails.size());
  if (rail >= rails.size() || !rails[rail].ethernet) return nullptr;
  std::unique_ptr<verbs::CableDatagrams>& end = ends_[rail];
  if (end != nullptr) return end.get();
  end = host_.options().provider->open_datagrams(
      rails[rail].context.get(), rails[rail].gids.front(), verbs::DatagramEnd::Port);
  if (end != nullptr && !host_.plane().watch(end->fd()).ok()) end.reset();
  return end.get();
}

// Addresses come and go without an event of the device: an IPv6 address is tested for duplicates
// for some seconds after a port has come up.
void CableProofs::refresh_ends() {
  const std::uint64_t now_ns = host_.now_ns();
  if (now_ns < refresh_at_ns_) return;
  refresh_at_ns_ = now_ns + kEndToReadAgainNs;
  for (auto& end : ends_)
    if (end != nullptr && !end->refresh()) end.reset();
}

// ---- Either side.

void CableProofs::note_met(const Id128& ticket, std::span<const topo::WirePair> pairs) {
  if (ticket == Id128{} || pairs.empty()) return;
  auto found = std::find_if(met_.begin(), met_.end(),
                            [&ticket](const Met& each) { return each.ticket == ticket; });
  if (found == met_.end()) {
    if (met_.size() == kPeersKnownMax) met_.erase(met_.begin());
    met_.push_back({.ticket = ticket, .pairs = {}});
    found = met_.end() - 1;
  }
  for (const topo::WirePair& pair : pairs) {
    if (topo::holds(found->pairs, pair) || found->pairs.size() == kMeetMax) continue;
    found->pairs.push_back(pair);
    ++met_news_;
    host_.tend_soon();
  }
}

std::span<const topo::WirePair> CableProofs::met_with(const Id128& ticket) const noexcept {
  const auto found = std::find_if(met_.begin(), met_.end(),
                                  [&ticket](const Met& each) { return each.ticket == ticket; });
  if (found == met_.end()) return {};
  return found->pairs;
}

// ---- Acceptor.

const topo::CableProof* CableProofs::known(const Hello& hello,
                                           std::span<const topo::WirePair> pairs) const {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& each) {
    return each.is_of(hello) &&
           std::equal(each.pairs.begin(), each.pairs.end(), pairs.begin(), pairs.end());
  });
  if (found == known_.end() || found->doubted || host_.now_ns() >= found->until_ns) return nullptr;
  return &found->proof;
}

const topo::CableProof* CableProofs::former(const Hello& hello) const {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&hello](const Known& each) { return each.is_of(hello); });
  return found == known_.end() ? nullptr : &found->proof;
}

bool CableProofs::Known::is_of(const Hello& hello) const {
  const bool has_id = host_id != 0 && hello.host_id != 0;
  const bool same = has_id ? host_id == hello.host_id : control_port == hello.control_port;
  return same && host == hello.host && same_devices(places, hello.proof.places);
}

// Returns true if datagrams of a rail of ours may arrive at a place.
bool CableProofs::reaches(std::size_t rail, const WirePlace& place) {
  const verbs::CableDatagrams* const end = end_of(rail);
  return end != nullptr && reached_from(end->place(), place_of(place)).port != 0;
}

std::unique_ptr<CableProofs::Question> CableProofs::ask(const Hello& hello,
                                                        const DoubtfulRails& rails) {
  std::unique_ptr<Question> question(new Question(*this));
  question->last_ns_ = host_.now_ns() + kProofOfDownToPlaceNs;
  question->begin(hello, rails);
  if (question->proof_.asked.empty() && question->down_.empty()) return nullptr;
  questions_.push_back(question.get());
  return question;
}

void CableProofs::Question::begin(const Hello& hello, const DoubtfulRails& rails) {
  proofs_.refresh_ends();
  pairs_ = rails.up;
  places_ = hello.proof.places;
  ask_ = hello.proof.ask;
  answer_ = hello.proof.answer;
  doubted_ = false;
  down_.clear();
  alike_.clear();
  proof_ = {};
  for (const topo::WirePair& pair : rails.down)
    if (proofs_.reaches(pair.peer, places_[pair.local])) down_.push_back(pair);
  for (const topo::WirePair& pair : rails.up) {
    if (!proofs_.reaches(pair.peer, places_[pair.local])) continue;
    proof_.asked.push_back(pair);
    if (hello.rails[pair.local].identity == proofs_.host_.rails()[pair.peer].identity)
      alike_.push_back(pair);
  }
  next_ns_ = proofs_.host_.now_ns();
  pause_ns_ = kProofToAskAgainNs;
  answers_ = 0;
  awaits_ = false;
  until_ns_ =
      std::min(last_ns_, next_ns_ + (down_.empty() ? kProofToPlaceNs : kProofOfDownToPlaceNs));
}

namespace {
bool share_a_port(const topo::WirePair& a, const topo::WirePair& b) {
  return a.local == b.local || a.peer == b.peer;
}

// Adds the wires that were found earlier, and of which both ends are silent now: ports that are
// down answer nothing.
void add_silent(const topo::CableProof& former, topo::CableProof* proof) {
  const std::vector<topo::WirePair> now = proof->met;
  for (const topo::WirePair& pair : former.met) {
    const auto is_at = [&pair](const topo::WirePair& met) { return share_a_port(met, pair); };
    if (std::any_of(now.begin(), now.end(), is_at)) continue;
    proof->met.push_back(pair);
    for (const topo::WirePair& other : former.asked) {
      if (share_a_port(other, pair) && !topo::holds(proof->asked, other))
        proof->asked.push_back(other);
    }
  }
}
}  // namespace

topo::CableProof CableProofs::conclude(const Hello& hello, const Question& question) {
  topo::CableProof proof = question.proof();
  const bool answered = !proof.met.empty();
  std::erase_if(known_, [&](const Known& each) {
    if (!each.is_of(hello)) return false;
    add_silent(each.proof, &proof);
    return true;
  });
  for (const topo::WirePair& pair : met_with(hello.ticket)) {
    const topo::WirePair theirs{.local = pair.peer, .peer = pair.local};
    if (topo::holds(proof.asked, theirs) && !topo::holds(proof.met, theirs))
      proof.met.push_back(theirs);
  }
  note_met(hello.ticket, topo::turned(proof).met);
  if (known_.size() == kPeersKnownMax) known_.erase(known_.begin());
  known_.push_back({.host = hello.host,
                    .host_id = hello.host_id,
                    .control_port = hello.control_port,
                    .places = hello.proof.places,
                    .pairs = question.pairs_,
                    .proof = proof,
                    .until_ns = answered ? UINT64_MAX : host_.now_ns() + kHostKnownNs,
                    .doubted = question.doubted_});
  if (!proof.asked.empty()) say(hello, proof);
  return proof;
}

// ---- Events.

bool CableProofs::owns(int fd) const noexcept {
  return std::any_of(ends_.begin(), ends_.end(),
                     [fd](const auto& end) { return end != nullptr && end->fd() == fd; });
}

void CableProofs::on_readable(int fd) {
  for (std::size_t rail = 0; rail < ends_.size(); ++rail) {
    if (ends_[rail] == nullptr || ends_[rail]->fd() != fd) continue;
    for (int taken = 0; taken < kDatagramsPerPass; ++taken) {
      const std::optional<verbs::CableDatagram> next = ends_[rail]->next();
      if (!next) return;
      take(rail, *next);
    }
  }
}

void CableProofs::take(std::size_t rail, const verbs::CableDatagram& datagram) {
  const std::optional<CableMessage> message = cable_message_of(datagram.span());
  if (message && message->kind == CableMessage::Kind::Question && message->connector_rail == rail) {
    for (Offer& offer : offers_) {
      if (!same_secret(offer.ask, message->nonce)) continue;
      offer.note({.local = rail, .peer = message->acceptor_rail});
      CableMessage answer = *message;
      answer.kind = CableMessage::Kind::Answer;
      answer.nonce = offer.answer;
      return ends_[rail]->send(datagram.from, bytes_of(answer));
    }
  }
  if (message && message->kind == CableMessage::Kind::Answer && message->acceptor_rail == rail) {
    const topo::WirePair pair{.local = message->connector_rail, .peer = rail};
    for (Question* const question : questions_) {
      const bool is_asked =
          topo::holds(question->proof_.asked, pair) || topo::holds(question->down_, pair);
      if (!is_asked || !same_secret(question->answer_, message->nonce)) continue;
      return question->take_answer(pair);
    }
  }
  ++ignored_;
}

void CableProofs::doubt() noexcept {
  for (Known& each : known_) each.doubted = true;
  for (Question* const question : questions_) question->doubted_ = true;
  refresh_at_ns_ = 0;
  met_.clear();
  if (!questions_.empty()) host_.tend_soon();
}

}  // namespace mesh::engine
