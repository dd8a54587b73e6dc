// Handshakes that do not go on: steps that the peer leaves unanswered, and refusals.
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/handshake.h"
#include "engine/link/link.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <algorithm>
#include <string>

namespace mesh::engine {

std::uint64_t Handshake::began_ns() const {
  return step_deadline_ns_ == 0 ? link_.host().now_ns() : step_deadline_ns_ - kHandshakeStepNs;
}

bool Handshake::names_one_of(std::span<const Id128> listeners) const {
  return std::any_of(listeners.begin(), listeners.end(), [this](const Id128& nonce) {
    return std::any_of(listeners_.begin(), listeners_.end(),
                       [&nonce](const Id128& own) { return same_secret(own, nonce); });
  });
}

// What is waited for; null: nothing.
const char* Handshake::awaited() const {
  const BringUp* const bring_up = link_.bring_up();
  switch (link_.state()) {
    case LinkState::AwaitWelcome: return "has not answered our HELLO with WELCOME";
    case LinkState::AwaitAttach: return "has not answered our WELCOME with ATTACH";
    case LinkState::Connecting:
      if (bring_up == nullptr || bring_up->over()) return nullptr;
      return bring_up->running() ? "our queue pairs to it are not up"
                                 : "no thread was free to bring our queue pairs up";
    case LinkState::AwaitReady: return "has not answered our ATTACH with READY";
    case LinkState::Up:
      if (step_deadline_ns_ == 0) return nullptr;
      return link_.has_carried() ? "has not closed its side of our channels"
                                 : "has not answered our READY with OPEN";
    case LinkState::Dialing:  // the control plane's own deadline
    case LinkState::ByeSent:
    case LinkState::Down: break;
  }
  return nullptr;
}

void Handshake::tend() {
  const std::uint64_t now_ns = link_.host().now_ns();
  if (link_.state() == LinkState::Dialing && link_.connection() == 0) {
    if (now_ns < dial_at_ns_) return link_.host().tend_at(dial_at_ns_);
    link_.set_connection(link_.redial().dial_all());
  }
  if (link_.state() == LinkState::Up) {
    const bool idle = link_.carries_nothing();
    if (!idle) step_deadline_ns_ = 0;
    if (idle && step_deadline_ns_ == 0) enter(LinkState::Up);
  }
  if (const char* const what = awaited(); what != nullptr && now_ns >= step_deadline_ns_)
    return give_up(what);
  link_.openings().expire(now_ns);
}

bool Handshake::say_hello_again(Errc reason) {
  if (link_.state() != LinkState::AwaitWelcome || reason != Errc::PeerGone ||
      hello_tries_ >= kHelloTriesMax)
    return false;
  ++hello_tries_;
  link_.set_state(LinkState::Dialing);
  // Whoever took our HELLO has forgotten it with its connection.
  link_.conversation() = Conversation{};
  link_.set_connection(link_.redial().dial_all());
  return true;
}

void Handshake::give_up(const char* what) {
  const std::string text = fmt::format("{} in {} s", what, kHandshakeStepNs / kNsPerSecond);
  if (link_.has_carried()) {
    link_.send(Bye{});
    return link_.take_down(Errc::PeerClosed);
  }
  if (link_.may_cause_lines()) {
    LOG_WARN("peer {} ({}): {}; the handshake is given up", link_.identity().peer_host,
             link_.connection_name(), text);
  }
  link_.send(Refuse{.reason = Errc::Timeout,
                    .text = fmt::format("host {} gives up the handshake: its peer {}",
                                        link_.host().options().provider->host_name(), text)});
  fail_named(Errc::Timeout);
  link_.take_down(Errc::Timeout);
}

bool Handshake::on_refuse(const Refuse& body) {
  if (dials_anew(body)) return true;
  // Both ends of a broken link tell each other; one that has said why already does not say it
  // twice.
  if (link_.failure() != Errc::Ok) {
    LOG_INFO("peer {}: {}", link_.connection_name(), body.text);
  } else if (link_.may_cause_lines()) {
    LOG_WARN("peer {}: {}", link_.connection_name(), body.text);
  }
  fail_named(body.reason);
  link_.take_down(body.reason);
  return true;
}

bool Handshake::shakes() const noexcept {
  const LinkState state = link_.state();
  return link_.connector() && (state == LinkState::AwaitWelcome || state == LinkState::Connecting ||
                               state == LinkState::AwaitReady);
}

void Handshake::fail_named(Errc why) {
  if (!shakes()) return;
  link_.openings().fail_named(why);
  if (!link_.openings().empty()) dial_anew(0);
}

// A connector that found no room. False: the refusal is a verdict.
bool Handshake::dials_anew(const Refuse& body) {
  if (!shakes() || body.reason != Errc::Exhausted) return false;
  const std::uint64_t now_ns = link_.host().now_ns();
  if (anew_until_ns_ == 0) anew_until_ns_ = now_ns + kHandshakeStepNs;
  if (now_ns >= anew_until_ns_) return false;
  anew_pause_ns_ = std::clamp(2 * anew_pause_ns_, kAnewPauseMinNs, kAnewPauseMaxNs);
  LOG_DETAIL("peer {}: {}; dialing anew in {} ms", link_.connection_name(), body.text,
             anew_pause_ns_ / kNsPerMs);
  dial_anew(anew_pause_ns_);
  return true;
}

// What waits for this link is to wait for another one.
void Handshake::dial_anew(std::uint64_t pause_ns) {
  CHECK(link_.connector() && !link_.has_carried());
  Link& next =
      link_.context().add_connector(link_.identity().peer_context, link_.openings().first_asked());
  next.name_peer(link_.identity().peer_host);
  next.redial().copy_port(link_.redial());
  next.handshake().anew_pause_ns_ = anew_pause_ns_;
  next.handshake().dial_at_ns_ = link_.host().now_ns() + pause_ns;
  next.handshake().anew_until_ns_ = anew_until_ns_;
  link_.openings().move_to(next);
  link_.take_down(Errc::Exhausted);
}

}  // namespace mesh::engine
