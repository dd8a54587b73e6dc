#include "engine/link/recabling.h"

#include "engine/link/acceptance.h"
#include "engine/link/announce.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "engine/link/relay/known_cables.h"
#include "src/base/timeouts.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace mesh::engine {

namespace {
std::vector<WireRail> rails_now(LinkHost& host) {
  return describe_rails(*host.options().provider, host.rails());
}
}  // namespace

void Recabling::ask_soon() noexcept {
  if (link_.state() != LinkState::Up || link_.host().cables() == nullptr) return;
  wanted_ = true;
  link_.touch();
  link_.host().tend_soon();
}

void Recabling::drop() noexcept {
  wanted_ = false;
  asked_.reset();
  asking_.reset();
  if (CableProofs* const cables = link_.host().cables(); cables != nullptr)
    cables->withdraw(offered_);
}

// Returns true if addresses do not tell where the cables to the peer lead.
bool Recabling::in_doubt() const {
  if (link_.terms.crossing.apart()) return false;
  const std::vector<WireRail> rails = rails_now(link_.host());
  Hello hello;
  hello.rails = link_.terms.peer_rails;
  hello.host_id = link_.terms.peer_host_id;
  return !doubtful_rails(hello, {rails,
                                 {},
                                 link_.host().cables()->shared(),
                                 link_.host().options().provider->host_id()})
              .empty();
}

// A link that runs the other way may have found cables of which this one knows nothing.
void Recabling::look_for_news() {
  const CableProofs& cables = *link_.host().cables();
  if (std::exchange(news_seen_, cables.met_news()) == cables.met_news() || !link_.connector())
    return;
  for (const topo::WirePair& pair : cables.met_with(link_.terms.peer_ticket))
    wanted_ |=
        topo::holds(link_.terms.cables.asked, pair) && !topo::holds(link_.terms.cables.met, pair);
}

void Recabling::tend() {
  if (asking_ != nullptr) tend_question();
  if (link_.state() != LinkState::Up || link_.host().cables() == nullptr) return;
  look_for_news();
  if (!wanted_ && !asked_) return;
  const std::uint64_t now_ns = link_.host().now_ns();
  if (now_ns < next_ns_) return link_.host().tend_at(next_ns_);
  next_ns_ = now_ns + kAskCablesToNextNs;
  if (asked_) begin(*std::exchange(asked_, std::nullopt));
  if (!std::exchange(wanted_, false) || !in_doubt()) return;
  if (link_.connector()) return say_places();
  link_.send(AskCables{});
}

void Recabling::say_places() {
  CableProofs& cables = *link_.host().cables();
  cables.withdraw(offered_);
  AskCables asks{.proof = cables.offer(), .up = 0};
  offered_ = asks.proof.ask;
  const std::vector<WireRail> rails = rails_now(link_.host());
  for (std::size_t i = 0; i < rails.size(); ++i)
    if (rails[i].up != 0) asks.up |= std::uint64_t{1} << i;
  next_ns_ = link_.host().now_ns() + kAskCablesToAnswerNs;
  link_.send(asks);
}

bool Recabling::on(const AskCables& body) {
  if (link_.connector()) {
    ask_soon();
    return true;
  }
  if (body.proof.places.size() != link_.terms.peer_rails.size())
    return link_.complain("tells places of rails that it has not");
  asked_ = body;
  link_.host().tend_soon();
  return true;
}

// Acceptor: begins to ask, instead of what it asks now.
void Recabling::begin(const AskCables& asked) {
  LinkHost& host = link_.host();
  asking_.reset();
  Hello hello;
  hello.host = link_.identity().peer_host;
  hello.rails = link_.terms.peer_rails;
  hello.host_id = link_.terms.peer_host_id;
  hello.ticket = link_.terms.peer_ticket;
  hello.control_port = link_.port.port;
  hello.site = host.options().settings.site;
  hello.proof = asked.proof;
  for (std::size_t i = 0; i < hello.rails.size(); ++i)
    hello.rails[i].up = static_cast<std::uint8_t>(asked.up >> i & 1);
  const std::vector<WireRail> rails = rails_now(host);
  auto question = host.cables()->ask(hello, doubtful_rails(hello, own_rails(host, rails)));
  if (question == nullptr) return answer();
  asking_ = std::make_unique<Asking>(Asking{std::move(hello), std::move(question)});
  tend_question();
}

void Recabling::tend_question() {
  CableProofs::Question& question = *asking_->question;
  if (keep_asking(link_.host(), asking_->hello, question))
    return link_.host().tend_at(question.due_ns());
  const std::unique_ptr<Asking> done = std::move(asking_);
  const topo::CableProof proof = link_.host().cables()->conclude(done->hello, question);
  if (!proof.met.empty()) link_.terms.cables = topo::turned(proof);
  answer();
}

void Recabling::answer() {
  link_.send(CablesAre{.cables = told_cables(topo::turned(link_.terms.cables))});
}

bool Recabling::on(const CablesAre& body) {
  if (link_.host().cables() == nullptr) return link_.complain("tells cables that nobody asked for");
  next_ns_ = link_.host().now_ns() + kAskCablesToNextNs;
  link_.terms.cables = heard_cables(body.cables);
  take_one_way(link_, offered_);
  link_.host().cables()->withdraw(offered_);
  link_.host().cables()->note_met(link_.terms.peer_ticket, link_.terms.cables.met);
  offered_ = {};
  link_.host().tend_soon();
  return true;
}

}  // namespace mesh::engine
