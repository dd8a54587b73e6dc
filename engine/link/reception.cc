// Frames and losses of connections, and whose they are.
#include "engine/engine_impl.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <exception>

namespace mesh::engine {

namespace {
// What NCCL is told. A peer that was never reached is unreachable; one that was, is gone.
Errc verdict(LinkState state, Errc reason) {
  if (state == LinkState::Dialing) return reason == Errc::PeerGone ? Errc::Unreachable : reason;
  return reason == Errc::Unreachable ? Errc::PeerGone : reason;
}
}  // namespace

// ---- Peers that come with a claim on a link.

// The newest of that name: a HELLO that is said again makes another link while the first may not
// have noticed.
Link* EngineImpl::find_claimed(LinkRole role, const Id128& id, const LinkClaim& claim) {
  Link* found = nullptr;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      const LinkClaim ours = link->redial().claim();
      if (link->identity().role == role && same_secret(link->identity().id, id) &&
          same_secret(ours.connector_context, claim.connector_context) &&
          same_secret(ours.acceptor_context, claim.acceptor_context)) {
        found = link.get();
      }
    }
  }
  return found;
}

void EngineImpl::deny(ConnectionId id, const Link* link, const Id128& link_id) {
  const Errc failure = link != nullptr ? link->failure() : Errc::Ok;
  const Errc reason = failure == Errc::Ok ? Errc::PeerGone : failure;
  if (link != nullptr ? link->may_cause_lines() : stranger_lines_.take(clock_.now_ns())) {
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
  Link* const link = find_claimed(LinkRole::Acceptor, header.link, body);
  if (link == nullptr || link->state() != LinkState::Up || link->failure() != Errc::Ok) {
    deny(id, link, header.link);
    return true;
  }
  if (!link->redial().is_newer(body)) return false;  // it has dialed again since
  if (link->redial().resume_on(id, header, body)) return true;
  deny(id, nullptr, header.link);
  link->end(Errc::Protocol, fmt::format("{} wants to go on behind messages that were never sent",
                                        plane_->peer_name(id)));
  return true;
}

// Ends the peer's connection in any case: it has said what it had to say.
bool EngineImpl::on_summon(ConnectionId id, const FrameHeader& header, const Summon& body) {
  Link* const link = find_claimed(LinkRole::Connector, header.link, body);
  if (link == nullptr || link->state() == LinkState::Down) {
    deny(id, link, header.link);
    return true;
  }
  link->redial().on_summon(body);
  return false;
}

// ---- Connections that are lost.

Link* EngineImpl::find_redial(ConnectionId id) {
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (link->redial().connection() == id) return link.get();
    }
  }
  return nullptr;
}

void EngineImpl::on_lost(ConnectionId id, Errc reason, const std::string& text) {
  Link* const concerned = find_link(id);
  try {
    take_loss(id, reason, text);
  } catch (const std::exception& error) {
    end_link_of(id, error.what());
    if (concerned != nullptr)
      concerned->take_down(Errc::System);  // it may have let go of the connection already
  }
}

void EngineImpl::take_loss(ConnectionId id, Errc reason, const std::string& text) {
  if (Link* const link = find_redial(id); link != nullptr) {
    link->redial().on_lost(reason, text);
    return;
  }
  Link* const link = find_link(id);
  if (link == nullptr) return;
  link->set_connection(0);
  if (say_hello_again(*link, reason)) return;
  if (!link->redial().begin(reason, text)) link->end(verdict(link->state(), reason), text);
}

}  // namespace mesh::engine
