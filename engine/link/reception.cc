#include "engine/link/reception.h"

#include "engine/link/acceptance.h"
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/handshake.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace mesh::engine {

namespace {
static_assert(kRailsMax == verbs::kRailsMax, "a rail's index means the same in HELLO as here");

bool names_a_listener(const Hello& hello, const Context& context) {
  return std::any_of(hello.listeners.begin(), hello.listeners.end(),
                     [&context](const Id128& nonce) { return context.listener(nonce) != nullptr; });
}

// Returns the error that NCCL gets: Unreachable for a peer that was never reached, else PeerGone.
Errc verdict(LinkState state, Errc reason) {
  if (state == LinkState::Dialing) return reason == Errc::PeerGone ? Errc::Unreachable : reason;
  return reason == Errc::Unreachable ? Errc::PeerGone : reason;
}

// An event concerns the link, which may have something due because of it. Returns the link.
Link* touch(Link* link) noexcept {
  if (link != nullptr) link->touch();
  return link;
}
}  // namespace

void refuse(LinkHost& host, const Caller& caller, const Refuse& why) {
  if (host.unauthenticated_lines().take(host.now_ns())) {
    LOG_WARN("{}: refused: {}{}", host.plane().peer_name(caller.connection), why.text,
             host.unauthenticated_lines().rest());
  }
  host.plane().send(caller.connection,
                    encode(FrameHeader{.sequence = 1, .link = caller.link}, why));
  host.plane().close(caller.connection);
}

void Reception::decline(const Handle& handle, const std::string& why) {
  ControlPlane& plane = host_.plane();
  const ConnectionId id = plane.dial({.addresses = handle.addresses, .port = handle.port});
  // The frame waits for the connection, which is closed as soon as it is up.
  plane.send(id, encode(FrameHeader{.sequence = 1}, Decline{.acceptor_context = handle.context,
                                                            .listener = handle.nonce,
                                                            .reason = Errc::Protocol,
                                                            .text = why}));
}

// ---- The control plane's events.

void Reception::end_link_of(ConnectionId id, const char* what) noexcept {
  Link* link = touch(links_.of_connection(id));
  if (link == nullptr) link = touch(links_.of_redial(id));
  if (link != nullptr) link->end_for_memory(what);
}

void Reception::on_dialed(ConnectionId id) {
  try {
    hear_dialed(id);
  } catch (const std::exception& error) {
    end_link_of(id, error.what());
  }
}

bool Reception::on_frame(ConnectionId id, const FrameHeader& header,
                         std::span<const std::byte> body) {
  try {
    return hear(id, header, body);
  } catch (const std::exception& error) {
    end_link_of(id, error.what());
    return false;
  }
}

void Reception::on_lost(ConnectionId id, Errc reason, const std::string& text) {
  Link* const concerned = touch(links_.of_connection(id));
  try {
    hear_lost(id, reason, text);
  } catch (const std::exception& error) {
    end_link_of(id, error.what());
    // The link may have let go of the connection already.
    if (concerned != nullptr) concerned->take_down(Errc::System);
  }
}

void Reception::hear_dialed(ConnectionId id) {
  if (Link* const lost = touch(links_.of_redial(id)); lost != nullptr)
    return lost->redial().on_dialed();
  if (Link* const link = touch(links_.of_connection(id)); link != nullptr)
    return link->handshake().greet();
  host_.plane().close(id);  // it was dialed for a DECLINE, which is queued
}

bool Reception::hear(ConnectionId id, const FrameHeader& header, std::span<const std::byte> body) {
  if (Link* const lost = touch(links_.of_redial(id)); lost != nullptr)
    return lost->redial().on_frame(header, body);
  Link* const link = touch(links_.of_connection(id));
  return link == nullptr ? on_unauthenticated(id, header, body) : link->on_frame(header, body);
}

void Reception::hear_lost(ConnectionId id, Errc reason, const std::string& text) {
  if (Link* const link = touch(links_.of_redial(id)); link != nullptr)
    return link->redial().on_lost(reason, text);
  Link* const link = touch(links_.of_connection(id));
  if (link == nullptr) return;
  link->set_connection(0);
  if (link->handshake().say_hello_again(reason)) return;
  if (!link->redial().begin(reason, text)) link->end(verdict(link->state(), reason), text);
}

// ---- Peers whose connection belongs to no link.

bool Reception::on_unauthenticated(ConnectionId id, const FrameHeader& header,
                                   std::span<const std::byte> bytes) {
  const Caller caller{.connection = id, .link = header.link};
  Hello hello;
  Resume resume;
  Summon summon;
  Decline declined;
  if (header.type == MessageType::Resume)
    return decode_into(bytes, &resume) && on_resume(caller, header, resume);
  if (header.type == MessageType::Summon)
    return decode_into(bytes, &summon) && on_summon(caller, summon);
  if (header.type == MessageType::Decline)
    return decode_into(bytes, &declined) && on_decline(caller, declined);
  if (header.type != MessageType::Hello) return false;
  if (header.sequence == 1 && header.acknowledged == 0 && decode_into(bytes, &hello) &&
      is_sane(hello.qps, hello.rq_depth, hello.slots))
    return on_hello(caller, header, hello);
  if (host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_WARN("{}: malformed HELLO; connection dropped{}", host_.plane().peer_name(id),
             host_.unauthenticated_lines().rest());
  }
  return false;
}

bool Reception::on_hello(const Caller& caller, const FrameHeader& header, const Hello& hello) {
  const std::string& name = host_.options().provider->host_name();
  Context* const context = links_.context_of(hello.acceptor_context);
  if (context == nullptr || context->closing) {
    refuse(host_, caller,
           {.reason = Errc::PeerClosed,
            .text = fmt::format("host {}: the communicator asked for has ended", name)});
    return true;
  }
  if (!names_a_listener(hello, *context)) {
    refuse(host_, caller,
           {.reason = Errc::PeerClosed,
            .text = fmt::format("host {}: the listener asked for was closed", name)});
    return true;
  }
  Wires wires = look_at_wires(host_, hello);
  Acceptance acceptance;
  if (wires.question == nullptr) acceptance = decide(host_, hello, wires.known);
  if (!acceptance.refusal.empty()) {
    for (const Id128& nonce : hello.listeners) {
      if (Listener* const named = context->listener(nonce); named != nullptr)
        named->refused = Errc::Unreachable;
    }
    refuse(host_, caller, {.reason = Errc::Unreachable, .text = acceptance.refusal});
    return true;
  }
  if (!links_.make_room(hello.listeners)) {
    turn_away(caller);
    return true;
  }
  CHECK(links_.of_connection(caller.connection) == nullptr);
  Link& link = context->add_acceptor(caller.link, hello);
  link.set_connection(caller.connection);  // first, so that a failure after this can end it
  host_.plane().identify(caller.connection);
  link.conversation().take(header);
  if (wires.question != nullptr)
    link.handshake().prove(hello, std::move(wires.question));
  else
    link.handshake().accept(hello, std::move(acceptance.choice));
  return true;
}

// Refuses a HELLO in whose place another one is expected soon.
void Reception::send_back(const Caller& caller, const Refuse& why) {
  host_.plane().send(caller.connection,
                     encode(FrameHeader{.sequence = 1, .link = caller.link}, why));
  host_.plane().close(caller.connection);
}

void Reception::turn_away(const Caller& caller) {
  ControlPlane& plane = host_.plane();
  if (host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_DETAIL("{}: told to dial again later: {} links carry no channel yet{}",
               plane.peer_name(caller.connection), kHalfOpenMax,
               host_.unauthenticated_lines().rest());
  }
  const std::string text = fmt::format("host {}: {} links of its peers carry no channel yet",
                                       host_.options().provider->host_name(), kHalfOpenMax);
  send_back(caller, {.reason = Errc::Exhausted, .text = text});
}

void Reception::deny(const Caller& caller, const Link* link) {
  ControlPlane& plane = host_.plane();
  const Errc failure = link != nullptr ? link->failure() : Errc::Ok;
  const Errc reason = failure == Errc::Ok ? Errc::PeerGone : failure;
  if (link != nullptr ? link->may_cause_lines()
                      : host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_DETAIL("{}: RESUME for a link that has ended here is refused",
               plane.peer_name(caller.connection));
  }
  const std::string text = fmt::format("host {}: its end of the link has ended: {}",
                                       host_.options().provider->host_name(), errc_name(reason));
  plane.send(caller.connection,
             encode(FrameHeader{.link = caller.link}, Refuse{.reason = reason, .text = text}));
  plane.close(caller.connection);
}

bool Reception::on_resume(const Caller& caller, const FrameHeader& header, const Resume& body) {
  Link* const link = touch(links_.claimed(LinkRole::Acceptor, caller.link, body));
  if (link == nullptr || link->state() != LinkState::Up || link->failure() != Errc::Ok) {
    deny(caller, link);
    return true;
  }
  if (!link->redial().is_newer(body)) return false;  // the peer has dialed again since
  if (link->redial().resume_on(caller.connection, header, body)) return true;
  deny(caller, nullptr);
  link->end(Errc::Protocol, fmt::format("RESUME from {} acknowledges messages that were never sent",
                                        host_.plane().peer_name(caller.connection)));
  return true;
}

// Passes SUMMON to its link. Ends the peer's connection in any case, because nothing follows on it.
bool Reception::on_summon(const Caller& caller, const Summon& body) {
  Link* const link = touch(links_.claimed(LinkRole::Connector, caller.link, body));
  if (link == nullptr || link->state() == LinkState::Down) {
    deny(caller, link);
    return true;
  }
  link->redial().on_summon(body, caller.connection);
  return false;
}

// Fails the listener's accept(). Only the one peer with the handle knows context and listener.
bool Reception::on_decline(const Caller& caller, const Decline& body) {
  const Context* const context = links_.context_of(body.acceptor_context);
  Listener* const listener = context == nullptr ? nullptr : context->listener(body.listener);
  if (listener == nullptr) return false;
  listener->refused = body.reason;
  if (host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_WARN("{}: its connect has failed: {}{}", host_.plane().peer_name(caller.connection),
             body.text, host_.unauthenticated_lines().rest());
  }
  return false;
}

}  // namespace mesh::engine
