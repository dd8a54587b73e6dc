// Passes the control plane's events on: to the relay client or service that owns the connection, or
// else to the links.
#include "engine/engine_impl.h"

namespace mesh::engine {

void EngineImpl::on_dialed(ConnectionId id) {
  if (relay_client_.owns(id)) return relay_client_.on_dialed(id);
  reception_.on_dialed(id);
}

bool EngineImpl::on_frame(ConnectionId id, const FrameHeader& header,
                          std::span<const std::byte> body) {
  if (relay_client_.owns(id)) return relay_client_.on_frame(id, header, body);
  const bool strange = links_.of_connection(id) == nullptr && links_.of_redial(id) == nullptr;
  if (relay_service_.owns(id) || (strange && is_of_relays(header.type)))
    return relay_service_.on_frame(id, header, body);
  return reception_.on_frame(id, header, body);
}

void EngineImpl::on_lost(ConnectionId id, Errc reason, const std::string& text) {
  if (relay_client_.owns(id)) return relay_client_.on_lost(id, text);
  if (relay_service_.owns(id)) return relay_service_.on_lost(id);
  reception_.on_lost(id, reason, text);
}

void EngineImpl::on_readable(int fd) {
  port_events_.on_readable(fd);
  relay_service_.look_at_ports();
}

}  // namespace mesh::engine
