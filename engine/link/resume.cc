// A control connection that is lost while its link is up comes back: the data path needs none. The
// connector dials again; the acceptor, which only sometimes hears of a loss first, lets it come and
// after a moment asks for it on a connection of its own. What either has said and the other has not
// handled is said again.
#include "engine/engine_impl.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <algorithm>
#include <exception>

namespace mesh::engine {

namespace {
constexpr std::uint64_t kSummonAfterNs =
    100 * kNsPerMs;  // the connector comes by itself where it has noticed too
constexpr std::uint64_t kRedialPauseMinNs = 10 * kNsPerMs;  // doubled after each try
constexpr std::uint64_t kRedialPauseMaxNs =
    1000 * kNsPerMs;  // a network that is back is found within a second
constexpr std::uint64_t kRedialTimeoutNs = 2 * kNsPerSecond;  // per address: TCP asks at 0 and 1 s
constexpr std::uint64_t kRedialTimeoutMinNs = 100 * kNsPerMs;
constexpr std::uint64_t kEndOfStreamNs =
    kNsPerSecond;  // the acceptor's patience with a peer whose kernel ended the connection

std::string addresses_text(const Redial& redial) {
  std::string text;
  for (const SocketAddress& address : redial.addresses) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", address.text_with_port(redial.port));
  }
  return text;
}

// What NCCL is told. A peer that was never reached is unreachable; one that was, is gone.
Errc verdict(LinkState state, Errc reason) {
  if (state == LinkState::Dialing) return reason == Errc::PeerGone ? Errc::Unreachable : reason;
  return reason == Errc::Unreachable ? Errc::PeerGone : reason;
}

LinkClaim claim_of(const LinkControl& link) {
  const bool connector = link.connector();
  return {.connector_context = connector ? link.context.id : link.identity.peer_context,
          .acceptor_context = connector ? link.identity.peer_context : link.context.id,
          .attempt = link.redial.attempt};
}
}  // namespace

// ---- What is said, and said again.

void EngineImpl::say(LinkControl& link, Bytes frame) {
  if (link.connection != 0)
    plane_->send(link.connection, frame);  // a lost connection reports itself
  link.conversation.keep(std::move(frame));
}

void EngineImpl::acknowledge(LinkControl& link) {
  if (link.connection == 0 || !link.conversation.owes_acknowledgement()) return;
  plane_->send(link.connection, encode(link.conversation.aside(link.identity.id), Acknowledge{}));
  link.conversation.acknowledged_now();
}

// The connection carries the link from here on.
void EngineImpl::go_on(LinkControl& link, ConnectionId connection) {
  Redial& redial = link.redial;
  if (redial.connection == connection) redial.connection = 0;
  const bool was_lost = redial.under_way;
  stop_redial(link);
  link.connection = connection;
  note_address(link);
  const auto& frames = link.conversation.unhandled();
  for (const Bytes& frame : frames) plane_->send(connection, frame);
  ++resumes_;
  if (!may_cause_lines(link)) return;
  LOG_INFO("peer {}: control connection is back ({}) after {} ms, {} messages said again",
           link.identity.peer_host, plane_->peer_name(connection),
           was_lost ? (clock_.now_ns() - redial.lost_ns) / kNsPerMs : 0, frames.size());
}

// An address that has carried the connection goes first, and its refusal counts.
void EngineImpl::note_address(LinkControl& link) {
  const SocketAddress address = plane_->peer_address(link.connection);
  std::vector<SocketAddress>& all = link.redial.addresses;
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const SocketAddress& each) { return each.same_host(address); });
  if (found == all.end()) return;
  *found = address;
  std::rotate(all.begin(), found, found + 1);
  link.redial.proven = true;
}

// ---- Losing a connection.

void EngineImpl::on_lost(ConnectionId id, Errc reason, const std::string& text) {
  LinkControl* const concerned = find_link(id);
  try {
    take_loss(id, reason, text);
  } catch (const std::exception& error) {
    end_link_of(id, error.what());
    if (concerned != nullptr)
      take_down(*concerned, Errc::System);  // it may have let go of the connection already
  }
}

void EngineImpl::take_loss(ConnectionId id, Errc reason, const std::string& text) {
  if (LinkControl* const link = find_redial(id); link != nullptr) {
    on_redial_lost(*link, reason, text);
    return;
  }
  LinkControl* const link = find_link(id);
  if (link == nullptr) return;
  link->connection = 0;
  if (say_hello_again(*link, reason)) return;
  if (!await_resume(*link, reason, text)) end_link(*link, verdict(link->state, reason), text);
}

bool EngineImpl::is_over(const LinkControl& link) const {
  return link.state == LinkState::ByeSent || link.state == LinkState::Down ||
         (link.link && link.link->every_channel_ended() && link.waiting.empty());
}

void EngineImpl::end_link(LinkControl& link, Errc why, const std::string& text) {
  // The peer said CLOSE before it went: whatever it counted is here by now.
  for (LinkControl::PendingClose& pending : link.closes) pending.deadline_ns = 0;
  std::erase_if(link.closes, [&](const LinkControl::PendingClose& pending) {
    return act_on_close(link, pending);
  });
  const bool over = is_over(link);
  if (!over) LOG_WARN("peer {} is lost: {}", link.identity.peer_host, text);
  take_down(link, over ? Errc::PeerClosed : why);
}

// False: the link ends with its connection.
bool EngineImpl::await_resume(LinkControl& link, Errc reason, const std::string& text) {
  if (link.state != LinkState::Up || link.link->failure() != Errc::Ok) return false;
  if (reason == Errc::Protocol || reason == Errc::Exhausted) return false;
  Redial& redial = link.redial;
  const std::uint64_t now_ns = clock_.now_ns();
  // TCP has been silent for a while already when it gives up.
  const std::uint64_t silent_ns = reason == Errc::Unreachable ? kDeadHostTimeoutMs * kNsPerMs : 0;
  const std::uint64_t timeout_ns =
      static_cast<std::uint64_t>(settings_.path_timeout_s) * kNsPerSecond;
  const std::uint64_t patience_ns = std::max(timeout_ns, silent_ns + kEndOfStreamNs) - silent_ns;
  redial.under_way = true;
  redial.rounds = 0;
  redial.lost_ns = now_ns;
  redial.next_ns = link.connector() || is_over(link) ? now_ns : now_ns + kSummonAfterNs;
  redial.backoff_ns = kRedialPauseMinNs;
  redial.give_up_ns =
      now_ns + (link.connector() || reason != Errc::PeerGone ? patience_ns : kEndOfStreamNs);
  if (may_cause_lines(link)) {
    LOG_INFO("peer {}: control connection lost ({}), data goes on; {}", link.identity.peer_host,
             text, link.connector() ? "dialing again" : "the peer is to dial again");
  }
  busy_ = true;
  return true;
}

// ---- Dialing again.

LinkControl* EngineImpl::find_redial(ConnectionId id) {
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (link->redial.connection == id) return link.get();
    }
  }
  return nullptr;
}

// True: look at it again soon.
bool EngineImpl::tend_redial(LinkControl& link) {
  if (link.state == LinkState::Down) return false;
  if (link.conversation.overfull()) {
    end_link(
        link, Errc::Exhausted,
        fmt::format("it acknowledges nothing, over {} bytes of messages wait", kOutboxBytesMax));
    return false;
  }
  Redial& redial = link.redial;
  if (redial.answered_ns != 0 && clock_.now_ns() - redial.answered_ns >= kRedialTimeoutNs &&
      redial_met_another(link)) {
    const std::string text = fmt::format("{}: says nothing", plane_->peer_name(redial.connection));
    plane_->close(redial.connection);
    redial.answered_ns = 0;  // that time does not count as the peer's
    on_redial_lost(link, Errc::Timeout, text);
  }
  // A peer that stands still is waited for, but not for ever where nothing here depends on it:
  // somebody else may have its port.
  const std::uint64_t patience_ns =
      static_cast<std::uint64_t>(settings_.path_timeout_s) * kNsPerSecond;
  if (redial.under_way && !link.connector() && is_over(link) &&
      clock_.now_ns() >= redial.lost_ns + patience_ns) {
    end_link(link, Errc::PeerGone, "no way back to its control port");
    return false;
  }
  if (redial.under_way && redial.connection == 0 && clock_.now_ns() >= redial.next_ns)
    this->redial(link);
  return redial.under_way;
}

void EngineImpl::redial(LinkControl& link) {
  Redial& redial = link.redial;
  const std::uint64_t now_ns = clock_.now_ns();
  const std::uint64_t left_ns = redial.give_up_ns > now_ns ? redial.give_up_ns - now_ns : 0;
  std::span<const SocketAddress> addresses(redial.addresses);
  // In turns: alone, so that its refusal is a verdict that waits for no other; and with the others,
  // should its way be blocked.
  if (redial.proven && redial.rounds % 2 == 0) addresses = addresses.first(1);
  ++redial.rounds;
  if (link.connector()) ++redial.attempt;
  redial.answered_ns = 0;
  redial.connection =
      plane_->dial({.addresses = addresses,
                    .port = redial.port,
                    .timeout_ns = std::clamp(left_ns, kRedialTimeoutMinNs, kRedialTimeoutNs)});
}

// Not at the address that has carried the connection: it may be somebody else's machine that
// answers, or our own.
bool EngineImpl::redial_met_another(const LinkControl& link) const {
  const Redial& redial = link.redial;
  return redial.connection != 0 && redial.proven &&
         !redial.addresses.front().same_host(plane_->peer_address(redial.connection));
}

void EngineImpl::stop_redial(LinkControl& link) {
  Redial& redial = link.redial;
  redial.under_way = false;
  if (redial.connection != 0) plane_->close(redial.connection);
  redial.connection = 0;
}

// From here on there is no time-out where it is the peer's kernel that answers: a peer that stands
// still is waited for.
void EngineImpl::on_redialed(LinkControl& link) {
  Redial& redial = link.redial;
  redial.answered_ns = clock_.now_ns();
  redial.give_up_ns = std::max(
      redial.give_up_ns,
      redial.lost_ns + static_cast<std::uint64_t>(settings_.path_timeout_s) * kNsPerSecond);
  plane_->identify(redial.connection);
  const FrameHeader header = link.conversation.aside(link.identity.id);
  plane_->send(redial.connection, link.connector() ? encode(header, Resume{claim_of(link)})
                                                   : encode(header, Summon{claim_of(link)}));
}

bool EngineImpl::on_redial_frame(LinkControl& link, const FrameHeader& header,
                                 std::span<const std::byte> bytes) {
  const ConnectionId id = link.redial.connection;
  Resumed resumed;
  Refuse refused;
  if (header.type == MessageType::Refuse && !redial_met_another(link) &&
      decode_into(bytes, &refused)) {
    end_link(link, refused.reason, refused.text);
    return true;
  }
  const bool fits = link.connector() && header.type == MessageType::Resumed &&
                    header.link == link.identity.id && header.sequence == 0 &&
                    decode_into(bytes, &resumed);
  if (fits && link.conversation.take(header) == Verdict::New) {
    go_on(link, id);
    return true;
  }
  on_redial_lost(link, Errc::Protocol,
                 fmt::format("{}: answers with a message (type {}) that does not fit",
                             plane_->peer_name(id), static_cast<int>(header.type)));
  return false;
}

void EngineImpl::on_redial_lost(LinkControl& link, Errc reason, const std::string& text) {
  Redial& redial = link.redial;
  const std::uint64_t now_ns = clock_.now_ns();
  const bool refused = redial.answered_ns == 0 && reason == Errc::PeerGone && redial.proven;
  redial.connection = 0;
  if (redial.answered_ns != 0) redial.give_up_ns += now_ns - redial.answered_ns;
  if (refused) {
    end_link(link, Errc::PeerGone,
             fmt::format("nobody listens on its control port any more ({})", text));
  } else if (now_ns >= redial.give_up_ns) {
    end_link(link, Errc::PeerGone,
             fmt::format("no way back to its control port in {} ms; tried {}; last: {}",
                         (now_ns - redial.lost_ns) / kNsPerMs, addresses_text(redial), text));
  } else {
    redial.next_ns = now_ns + redial.backoff_ns;
    redial.backoff_ns = std::min(2 * redial.backoff_ns, kRedialPauseMaxNs);
  }
}

// ---- A peer that dials again.

// The newest of that name: a HELLO that is said again makes another link while the first may not
// have noticed.
LinkControl* EngineImpl::find_claimed(LinkRole role, const Id128& id, const LinkClaim& claim) {
  LinkControl* found = nullptr;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      const LinkClaim ours = claim_of(*link);
      if (link->identity.role == role && same_secret(link->identity.id, id) &&
          same_secret(ours.connector_context, claim.connector_context) &&
          same_secret(ours.acceptor_context, claim.acceptor_context)) {
        found = link.get();
      }
    }
  }
  return found;
}

void EngineImpl::deny(ConnectionId id, const LinkControl* link, const Id128& link_id) {
  const Errc failure = link != nullptr && link->link ? link->link->failure() : Errc::Ok;
  const Errc reason = failure == Errc::Ok ? Errc::PeerGone : failure;
  if (link != nullptr ? may_cause_lines(*link) : stranger_lines_.take(clock_.now_ns())) {
    LOG_INFO("{}: wants to go on with a link that has ended here", plane_->peer_name(id));
  }
  plane_->send(
      id, encode(FrameHeader{.link = link_id},
                 Refuse{.reason = reason,
                        .text = fmt::format("host {}: its end of the link has ended: {}",
                                            options_.provider->host_name(), errc_name(reason))}));
  plane_->close(id);
}

bool EngineImpl::on_resume(ConnectionId id, const FrameHeader& header, const Resume& body) {
  LinkControl* const link = find_claimed(LinkRole::Acceptor, header.link, body);
  if (link == nullptr || link->state != LinkState::Up || link->link->failure() != Errc::Ok) {
    deny(id, link, header.link);
    return true;
  }
  if (body.attempt <= link->redial.attempt) return false;  // it has dialed again since
  if (header.sequence != 0 || link->conversation.take(header) != Verdict::New) {
    deny(id, nullptr, header.link);
    end_link(*link, Errc::Protocol,
             fmt::format("{} wants to go on behind messages that were never sent",
                         plane_->peer_name(id)));
    return true;
  }
  if (link->connection != 0) plane_->close(link->connection);  // we had not noticed yet
  link->redial.attempt = body.attempt;
  plane_->identify(id);
  plane_->send(id, encode(link->conversation.aside(header.link), Resumed{}));
  link->conversation.acknowledged_now();
  go_on(*link, id);
  return true;
}

// Ends the peer's connection in any case: it has said what it had to say.
bool EngineImpl::on_summon(ConnectionId id, const FrameHeader& header, const Summon& body) {
  LinkControl* const link = find_claimed(LinkRole::Connector, header.link, body);
  if (link == nullptr || link->state == LinkState::Down) {
    deny(id, link, header.link);
    return true;
  }
  Redial& redial = link->redial;
  if (redial.under_way) {
    redial.next_ns = 0;
  } else if (link->state == LinkState::Up && body.attempt >= redial.attempt) {
    plane_->close(link->connection);
    link->connection = 0;
    await_resume(*link, Errc::Timeout, "the peer has lost it");
  }
  return false;
}

}  // namespace mesh::engine
