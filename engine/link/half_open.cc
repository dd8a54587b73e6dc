#include "engine/link/half_open.h"

#include "engine/engine_impl.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <algorithm>
#include <span>
#include <vector>

namespace mesh::engine {

namespace {

// As acceptor: of its channels there is none for which our side has not said CLOSE.
bool carries_nothing(const LinkControl& link) {
  if (link.connector()) return false;
  if (link.state == LinkState::AwaitAttach || link.state == LinkState::Connecting) return true;
  if (link.state != LinkState::Up) return false;
  for (std::uint32_t i = 0; i < link.link->channel_index_bound(); ++i) {
    const Channel* const channel = link.link->channel(i);
    if (channel != nullptr && !channel->life.close_sent) return false;
  }
  return true;
}

bool has_carried(const LinkControl& link) {
  return link.link && link.link->channel_index_bound() != 0;
}

// When the step began that the link is at.
std::uint64_t began_ns(const LinkControl& link, std::uint64_t now_ns) {
  return link.step_deadline_ns == 0 ? now_ns : link.step_deadline_ns - kHandshakeStepNs;
}

bool share_a_listener(const LinkControl& link, std::span<const Id128> named) {
  return std::any_of(named.begin(), named.end(), [&link](const Id128& nonce) {
    return std::any_of(link.listeners.begin(), link.listeners.end(),
                       [&nonce](const Id128& own) { return same_secret(own, nonce); });
  });
}

// What is waited for; null: nothing.
const char* awaited(const LinkControl& link) {
  switch (link.state) {
    case LinkState::AwaitWelcome: return "has not answered our HELLO with WELCOME";
    case LinkState::AwaitAttach: return "has not answered our WELCOME with ATTACH";
    case LinkState::Connecting:
      if (!link.bring_up || link.bring_up->over()) return nullptr;
      return link.bring_up->running() ? "our queue pairs to it are not up"
                                      : "no thread was free to bring our queue pairs up";
    case LinkState::AwaitReady: return "has not answered our ATTACH with READY";
    case LinkState::Up:
      if (link.step_deadline_ns == 0) return nullptr;
      return has_carried(link) ? "has not closed its side of our channels"
                               : "has not answered our READY with OPEN";
    case LinkState::Dialing:  // the control plane's own deadline
    case LinkState::ByeSent:
    case LinkState::Down: break;
  }
  return nullptr;
}

}  // namespace

void EngineImpl::enter(LinkControl& link, LinkState state) {
  link.state = state;
  link.step_deadline_ns = clock_.now_ns() + kHandshakeStepNs;
}

void EngineImpl::tend_handshake(LinkControl& link) {
  const std::uint64_t now_ns = clock_.now_ns();
  if (link.state == LinkState::Dialing && link.connection == 0) {
    if (now_ns < link.redial.next_ns) return tend_at(link.redial.next_ns);
    link.connection = plane_->dial({.addresses = link.redial.addresses, .port = link.redial.port});
  }
  if (link.state == LinkState::Up) {
    const bool idle = carries_nothing(link);
    if (!idle) link.step_deadline_ns = 0;
    if (idle && link.step_deadline_ns == 0) enter(link, LinkState::Up);
  }
  if (const char* const what = awaited(link); what != nullptr && now_ns >= link.step_deadline_ns) {
    give_up(link, what);
    return;
  }
  const std::vector<PendingConnect*> waiting = link.waiting;
  for (PendingConnect* stage : waiting) {
    if (stage->state != StageState::Opening || now_ns < stage->deadline_ns) continue;
    LOG_WARN(
        "peer {} ({}): has not answered our OPEN of channel {} with OPENED in {} s; the connect "
        "fails",
        link.identity.peer_host, plane_->peer_name(link.connection), stage->channel->index,
        kHandshakeStepNs / 1'000'000'000);
    fail_stage(*stage, Errc::Timeout);
  }
}

// True: it is being dialed again.
bool EngineImpl::say_hello_again(LinkControl& link, Errc reason) {
  if (link.state != LinkState::AwaitWelcome || reason != Errc::PeerGone ||
      link.hello_tries >= kHelloTriesMax)
    return false;
  ++link.hello_tries;
  link.state = LinkState::Dialing;
  link.conversation =
      Conversation{};  // whoever took our HELLO has forgotten it with its connection
  link.connection = plane_->dial({.addresses = link.redial.addresses, .port = link.redial.port});
  return true;
}

void EngineImpl::give_up(LinkControl& link, const char* what) {
  const std::string text = fmt::format("{} in {} s", what, kHandshakeStepNs / 1'000'000'000);
  if (has_carried(link)) {
    send(link, Bye{});
    return take_down(link, Errc::PeerClosed);
  }
  if (may_cause_lines(link)) {
    LOG_WARN("peer {} ({}): {}; the handshake is given up", link.identity.peer_host,
             plane_->peer_name(link.connection), text);
  }
  send(link, Refuse{.reason = Errc::Timeout,
                    .text = fmt::format("host {} gives up the handshake: its peer {}",
                                        options_.provider->host_name(), text)});
  take_down(link, Errc::Timeout);
}

// ---- Who has no channel here may come again and again, so what it causes to be said comes out of
// a budget.

bool EngineImpl::may_cause_lines(const LinkControl& link) {
  return link.connector() || has_carried(link) || stranger_lines_.take(clock_.now_ns());
}

// False in any case: whoever breaks the protocol loses the connection.
bool EngineImpl::complain(const LinkControl& link, const std::string& text) {
  if (may_cause_lines(link)) {
    LOG_WARN("peer {}: {}; connection dropped{}", link.identity.peer_host, text,
             stranger_lines_.rest());
  }
  return false;
}

// ---- Too many links that carry no channel.

// For one more link, which names these listeners. False: there is none, and none of the others
// gives way yet.
bool EngineImpl::make_room(std::span<const Id128> named) {
  std::size_t idle = 0, related = 0;
  LinkControl* oldest = nullptr;
  LinkControl* oldest_related = nullptr;
  const std::uint64_t now_ns = clock_.now_ns();
  const auto note_older = [now_ns](LinkControl*& so_far, LinkControl& link) {
    if (so_far == nullptr || began_ns(link, now_ns) < began_ns(*so_far, now_ns)) so_far = &link;
  };
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (!carries_nothing(*link)) continue;
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

void EngineImpl::send_away(LinkControl& link, const std::string& why) {
  Context& context = link.context;
  if (has_carried(link)) {
    send(link, Bye{});
    take_down(link, Errc::PeerClosed);
    return reap_links(context);
  }
  if (stranger_lines_.take(clock_.now_ns())) {
    LOG_WARN("peer {} ({}): {}{}", link.identity.peer_host, plane_->peer_name(link.connection), why,
             stranger_lines_.rest());
  }
  send(link,
       Refuse{.reason = Errc::Exhausted,
              .text = fmt::format("host {}: this link {}", options_.provider->host_name(), why)});
  take_down(link, Errc::Exhausted);
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
bool EngineImpl::dials_anew(LinkControl& link, const Refuse& body) {
  const bool early = link.state == LinkState::AwaitWelcome || link.state == LinkState::Connecting ||
                     link.state == LinkState::AwaitReady;
  if (!link.connector() || !early || body.reason != Errc::Exhausted) return false;
  const std::uint64_t now_ns = clock_.now_ns();
  if (link.anew_until_ns == 0) link.anew_until_ns = now_ns + kHandshakeStepNs;
  if (now_ns >= link.anew_until_ns) return false;
  link.redial.backoff_ns = std::clamp(2 * link.redial.backoff_ns, kAnewPauseMinNs, kAnewPauseMaxNs);
  LOG_INFO("peer {}: {}; dialing anew in {} ms", plane_->peer_name(link.connection), body.text,
           link.redial.backoff_ns / kNsPerMs);
  dial_anew(link, link.redial.backoff_ns);
  return true;
}

// What waits for this link is to wait for another one.
void EngineImpl::dial_anew(LinkControl& link, std::uint64_t pause_ns) {
  LinkControl& next = add_connector(link.context, link.identity.peer_context);
  next.identity.peer_host = link.identity.peer_host;
  next.rail_wanted = link.rail_wanted;
  next.redial.addresses = link.redial.addresses;
  next.redial.port = link.redial.port;
  next.redial.backoff_ns = link.redial.backoff_ns;
  next.redial.next_ns = clock_.now_ns() + pause_ns;
  next.anew_until_ns = link.anew_until_ns;
  next.waiting.swap(link.waiting);
  for (PendingConnect* const stage : next.waiting) stage->link = &next;
  take_down(link, Errc::Exhausted);
}

}  // namespace mesh::engine
