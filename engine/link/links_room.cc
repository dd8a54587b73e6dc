// Makes room among an acceptor's links that carry no channel: the oldest one gives way.
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "engine/link/links.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mesh::engine {

bool Links::make_room(std::span<const Id128> named) {
  std::size_t idle = 0, related = 0;
  Link* oldest = nullptr;
  Link* oldest_related = nullptr;
  const auto note_older = [](Link*& so_far, Link& link) {
    if (so_far == nullptr || link.handshake().began_ns() < so_far->handshake().began_ns())
      so_far = &link;
  };
  const auto look_at = [&](Link& link) {
    ++idle;
    note_older(oldest, link);
    if (!link.handshake().names_one_of(named)) return;
    ++related;
    note_older(oldest_related, link);
  };
  for (const auto& context : contexts_) {
    context->idle.drop_if([](Link& link) { return link.leave_idle(); });
    for (Link* const link : context->idle.span()) look_at(*link);
  }
  if (related >= kHalfOpenPerListenerMax) {
    send_away(*oldest_related, fmt::format("is closed to make room: it carries no channel and is "
                                           "the oldest of {} for one listener",
                                           related));
    return true;
  }
  if (idle < kHalfOpenMax) return true;
  const std::uint64_t began_ns = oldest->handshake().began_ns();
  if (host_.now_ns() - began_ns < kHalfOpenToGiveWayNs) return false;
  send_away(
      *oldest,
      fmt::format("is closed to make room: it carries no channel and is the oldest of {}", idle));
  return true;
}

void Links::send_away(Link& link, const std::string& why) {
  Context& context = link.context();
  if (link.has_carried()) {
    link.send(Bye{});
    link.take_down(Errc::PeerClosed);
    return context.reap_links();
  }
  if (host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_WARN("peer {} ({}): {}{}", link.identity().peer_host, link.connection_name(), why,
             host_.unauthenticated_lines().rest());
  }
  link.send(Refuse{
      .reason = Errc::Exhausted,
      .text = fmt::format("host {}: this link {}", host_.options().provider->host_name(), why)});
  link.take_down(Errc::Exhausted);
  context.reap_links();
}

}  // namespace mesh::engine
