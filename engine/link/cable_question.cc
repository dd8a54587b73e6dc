// An acceptor's question about the rails of one HELLO: what is sent when, when it is over, and
// what is said of it.
#include "engine/link/cable_message.h"
#include "engine/link/cable_proofs.h"
#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

CableProofs::Question::~Question() { std::erase(proofs_.questions_, this); }

std::uint64_t CableProofs::Question::due_ns() const noexcept {
  const std::uint64_t end_ns =
      answers_ >= kAnswersToSettle ? std::min(settled_ns_, until_ns_) : until_ns_;
  return std::min(next_ns_, end_ns);
}

// Returns true if no further answer can change the paths: all have answered, or each port of one
// side has its counterpart, as with straight cables. So it is if nothing can be asked any more.
bool CableProofs::Question::decided() const {
  const bool all = proof_.met.size() == proof_.asked.size();
  if (all && (!proof_.met.empty() || down_.empty())) return true;
  const auto met = [this](const topo::WirePair& pair) { return topo::holds(proof_.met, pair); };
  if (alike_.empty() || !std::all_of(alike_.begin(), alike_.end(), met)) return false;
  const auto covered = [this](std::size_t topo::WirePair::*rail) {
    return std::all_of(proof_.asked.begin(), proof_.asked.end(), [&](const auto& pair) {
      return std::any_of(alike_.begin(), alike_.end(),
                         [&](const auto& each) { return each.*rail == pair.*rail; });
    });
  };
  return covered(&topo::WirePair::local) || covered(&topo::WirePair::peer);
}

void CableProofs::Question::send(const topo::WirePair& pair) {
  verbs::CableDatagrams* const end = proofs_.end_of(pair.peer);
  if (end == nullptr) return;
  end->send(place_of(places_[pair.local]),
            bytes_of({.kind = CableMessage::Kind::Question,
                      .connector_rail = static_cast<std::uint8_t>(pair.local),
                      .acceptor_rail = static_cast<std::uint8_t>(pair.peer),
                      .nonce = ask_}));
}

// The first answer may be to a late question, so those that follow it come as early as those of a
// peer that answers at once. A peer that was stopped answers several questions at once, which tells
// as much as one answer.
void CableProofs::Question::take_answer(const topo::WirePair& pair) {
  const bool is_news = !topo::holds(proof_.met, pair);
  if (proof_.met.empty()) {
    const std::uint64_t now_ns = proofs_.host_.now_ns();
    settled_ns_ = now_ns + kProofToSettledNs;
    until_ns_ = last_ns_;
    pause_ns_ = kProofToAskAgainNs;
    next_ns_ = now_ns + pause_ns_;
  }
  if (is_news) {
    if (!topo::holds(proof_.asked, pair)) proof_.asked.push_back(pair);  // it was down
    proof_.met.push_back(pair);
  }
  const bool is_due = pair == proof_.met.front() && std::exchange(awaits_, false);
  if (is_due && ++answers_ < kAnswersToSettle)
    next_ns_ = std::min(next_ns_, proofs_.host_.now_ns() + kProofToAskAgainNs);
  if (is_news || is_due) proofs_.host_.tend_soon();
}

bool CableProofs::Question::tend(std::uint64_t now_ns) {
  if (now_ns >= until_ns_ || settled(now_ns) || decided()) return false;
  if (now_ns < next_ns_) return true;
  for (const auto* const pairs : {&proof_.asked, &down_})
    for (const topo::WirePair& pair : *pairs)
      if (!topo::holds(proof_.met, pair)) send(pair);
  if (!proof_.met.empty()) {
    send(proof_.met.front());
    awaits_ = true;
  }
  next_ns_ = now_ns + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kProofToAskAgainMaxNs);
  return true;
}

// Says once which ports are on one wire, and which subnet does not tell it.
void CableProofs::say(const Hello& hello, const topo::CableProof& proof) const {
  std::vector<topo::WirePair> met = proof.met;
  std::sort(met.begin(), met.end(), [](const topo::WirePair& a, const topo::WirePair& b) {
    return std::pair(a.peer, a.local) < std::pair(b.peer, b.local);
  });
  std::vector<std::string> items;
  items.reserve(met.size() + 1);
  for (const topo::WirePair& pair : met)
    items.push_back(fmt::format("our {} is cabled to its {}", host_.rails()[pair.peer].info.name,
                                hello.rails[pair.local].name));
  const WireAddress& first = hello.rails[proof.asked.front().local].addresses.front();
  const topo::SubnetMember shared{SocketAddress::from_gid(first.gid), first.prefix_len};
  items.push_back(
      met.empty() ? fmt::format("no datagram is answered over ports in {}: their place decides",
                                topo::subnet_text(shared))
                  : fmt::format("as datagrams tell: {} is on {} cables", topo::subnet_text(shared),
                                shared.address.link_local() ? "all" : "several"));
  for (const std::string& line : log_lines(fmt::format("peer {}: ", hello.host), items))
    if (host_.peer_log().is_news(hello.host, line)) LOG_INFO("{}", line);
}

}  // namespace mesh::engine
