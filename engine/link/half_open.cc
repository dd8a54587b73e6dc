#include "engine/link/half_open.h"

#include "engine/engine_impl.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <algorithm>
#include <span>
#include <vector>

namespace mesh::engine {

namespace {

// When the step began that the link is at.
std::uint64_t began_ns(const Link& link, std::uint64_t now_ns) {
  return link.step_deadline_ns == 0 ? now_ns : link.step_deadline_ns - kHandshakeStepNs;
}

bool share_a_listener(const Link& link, std::span<const Id128> named) {
  return std::any_of(named.begin(), named.end(), [&link](const Id128& nonce) {
    return std::any_of(link.listeners.begin(), link.listeners.end(),
                       [&nonce](const Id128& own) { return same_secret(own, nonce); });
  });
}

// What is waited for; null: nothing.
const char* awaited(const Link& link) {
  switch (link.state()) {
    case LinkState::AwaitWelcome: return "has not answered our HELLO with WELCOME";
    case LinkState::AwaitAttach: return "has not answered our WELCOME with ATTACH";
    case LinkState::Connecting:
      if (!link.bring_up || link.bring_up->over()) return nullptr;
      return link.bring_up->running() ? "our queue pairs to it are not up"
                                      : "no thread was free to bring our queue pairs up";
    case LinkState::AwaitReady: return "has not answered our ATTACH with READY";
    case LinkState::Up:
      if (link.step_deadline_ns == 0) return nullptr;
      return link.has_carried() ? "has not closed its side of our channels"
                                : "has not answered our READY with OPEN";
    case LinkState::Dialing:  // the control plane's own deadline
    case LinkState::ByeSent:
    case LinkState::Down: break;
  }
  return nullptr;
}

}  // namespace

void EngineImpl::enter(Link& link, LinkState state) {
  link.set_state(state);
  link.step_deadline_ns = clock_.now_ns() + kHandshakeStepNs;
}

void EngineImpl::tend_handshake(Link& link) {
  const std::uint64_t now_ns = clock_.now_ns();
  if (link.state() == LinkState::Dialing && link.connection() == 0) {
    if (now_ns < link.dial_at_ns) return services_.tend_at(link.dial_at_ns);
    link.set_connection(link.redial().dial_all());
  }
  if (link.state() == LinkState::Up) {
    const bool idle = link.carries_nothing();
    if (!idle) link.step_deadline_ns = 0;
    if (idle && link.step_deadline_ns == 0) enter(link, LinkState::Up);
  }
  if (const char* const what = awaited(link); what != nullptr && now_ns >= link.step_deadline_ns) {
    give_up(link, what);
    return;
  }
  link.openings().expire(now_ns);
}

// True: it is being dialed again.
bool EngineImpl::say_hello_again(Link& link, Errc reason) {
  if (link.state() != LinkState::AwaitWelcome || reason != Errc::PeerGone ||
      link.hello_tries >= kHelloTriesMax)
    return false;
  ++link.hello_tries;
  link.set_state(LinkState::Dialing);
  link.conversation() =
      Conversation{};  // whoever took our HELLO has forgotten it with its connection
  link.set_connection(link.redial().dial_all());
  return true;
}

void EngineImpl::give_up(Link& link, const char* what) {
  const std::string text = fmt::format("{} in {} s", what, kHandshakeStepNs / 1'000'000'000);
  if (link.has_carried()) {
    link.send(Bye{});
    return link.take_down(Errc::PeerClosed);
  }
  if (link.may_cause_lines()) {
    LOG_WARN("peer {} ({}): {}; the handshake is given up", link.identity().peer_host,
             link.connection_name(), text);
  }
  link.send(Refuse{.reason = Errc::Timeout,
                   .text = fmt::format("host {} gives up the handshake: its peer {}",
                                       options_.provider->host_name(), text)});
  link.take_down(Errc::Timeout);
}

// ---- Too many links that carry no channel.

// For one more link, which names these listeners. False: there is none, and none of the others
// gives way yet.
bool EngineImpl::make_room(std::span<const Id128> named) {
  std::size_t idle = 0, related = 0;
  Link* oldest = nullptr;
  Link* oldest_related = nullptr;
  const std::uint64_t now_ns = clock_.now_ns();
  const auto note_older = [now_ns](Link*& so_far, Link& link) {
    if (so_far == nullptr || began_ns(link, now_ns) < began_ns(*so_far, now_ns)) so_far = &link;
  };
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (!link->carries_nothing()) continue;
      ++idle;
      note_older(oldest, *link);
      if (!share_a_listener(*link, named)) continue;
      ++related;
      note_older(oldest_related, *link);
    }
  }
  if (related >= kHalfOpenPerListenerMax) {
    send_away(*oldest_related,
              fmt::format("carries no channel and gives way, as the oldest of {} for one listener",
                          related));
    return true;
  }
  if (idle < kHalfOpenMax) return true;
  if (now_ns - began_ns(*oldest, now_ns) < kHalfOpenGraceNs) return false;
  send_away(*oldest, fmt::format("carries no channel and gives way, as the oldest of {}", idle));
  return true;
}

void EngineImpl::send_away(Link& link, const std::string& why) {
  Context& context = link.context();
  if (link.has_carried()) {
    link.send(Bye{});
    link.take_down(Errc::PeerClosed);
    return reap_links(context);
  }
  if (stranger_lines_.take(clock_.now_ns())) {
    LOG_WARN("peer {} ({}): {}{}", link.identity().peer_host, link.connection_name(), why,
             stranger_lines_.rest());
  }
  link.send(
      Refuse{.reason = Errc::Exhausted,
             .text = fmt::format("host {}: this link {}", options_.provider->host_name(), why)});
  link.take_down(Errc::Exhausted);
  reap_links(context);
}

void EngineImpl::turn_away(ConnectionId id, const Id128& link) {
  if (stranger_lines_.take(clock_.now_ns())) {
    LOG_INFO("{}: asked to come again, {} links carry no channel yet{}", plane_->peer_name(id),
             kHalfOpenMax, stranger_lines_.rest());
  }
  const std::string text = fmt::format("host {}: {} links of its peers carry no channel yet",
                                       options_.provider->host_name(), kHalfOpenMax);
  plane_->send(id, encode(FrameHeader{.sequence = 1, .link = link},
                          Refuse{.reason = Errc::Exhausted, .text = text}));
  plane_->close(id);
}

// A connector that found no room. False: the refusal is a verdict.
bool EngineImpl::dials_anew(Link& link, const Refuse& body) {
  const bool early = link.state() == LinkState::AwaitWelcome ||
                     link.state() == LinkState::Connecting || link.state() == LinkState::AwaitReady;
  if (!link.connector() || !early || body.reason != Errc::Exhausted) return false;
  const std::uint64_t now_ns = clock_.now_ns();
  if (link.anew_until_ns == 0) link.anew_until_ns = now_ns + kHandshakeStepNs;
  if (now_ns >= link.anew_until_ns) return false;
  link.anew_pause_ns = std::clamp(2 * link.anew_pause_ns, kAnewPauseMinNs, kAnewPauseMaxNs);
  LOG_INFO("peer {}: {}; dialing anew in {} ms", link.connection_name(), body.text,
           link.anew_pause_ns / kNsPerMs);
  dial_anew(link, link.anew_pause_ns);
  return true;
}

// What waits for this link is to wait for another one.
void EngineImpl::dial_anew(Link& link, std::uint64_t pause_ns) {
  Link& next = add_connector(link.context(), link.identity().peer_context);
  next.name_peer(link.identity().peer_host);
  next.rail_wanted = link.rail_wanted;
  next.redial().copy_port(link.redial());
  next.anew_pause_ns = link.anew_pause_ns;
  next.dial_at_ns = clock_.now_ns() + pause_ns;
  next.anew_until_ns = link.anew_until_ns;
  link.openings().move_to(next);
  link.take_down(Errc::Exhausted);
}

}  // namespace mesh::engine
