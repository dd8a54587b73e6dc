#include "tests/fuzz/memory_plane.h"

namespace mesh::fuzz {

using engine::ConnectionId;

ConnectionId MemoryPlane::arrive() {
  lines[next] = {.up = true};
  return next++;
}

void MemoryPlane::push(Event event) {
  if (queue_.size() < kQueueMax) queue_.push_back(std::move(event));
}

ConnectionId MemoryPlane::dial(const engine::DialOrder&) {
  lines[next] = {.dialed = true};
  return next++;
}

bool MemoryPlane::send(ConnectionId id, engine::Bytes frame) {
  const auto found = lines.find(id);
  if (found == lines.end()) return false;
  if (const auto type = said_.take(frame);
      type == engine::MessageType::Hello || type == engine::MessageType::Resume) {
    found->second.link = said_.link;
    found->second.sequence = type == engine::MessageType::Hello ? 0 : numbers[said_.link];
  }
  return true;
}

bool MemoryPlane::poll_once() {
  bool active = false;
  // Handles the events queued now; an event that a handler causes comes with the next pass.
  for (std::size_t left = queue_.size(); left != 0; --left) {
    const Event event = std::move(queue_.front());
    queue_.pop_front();
    const auto line = lines.find(event.id);
    if (line == lines.end()) continue;
    active = true;
    switch (event.kind) {
      case Event::Kind::Dialed:
        if (!line->second.dialed || line->second.up) break;
        line->second.up = true;
        events_.on_dialed(event.id);
        break;
      case Event::Kind::Frame:
        if (line->second.up && !events_.on_frame(event.id, event.header, event.body))
          close(event.id);
        break;
      case Event::Kind::Lost:
        lines.erase(line);
        events_.on_lost(event.id, event.reason, "lost");
        break;
    }
  }
  return active;
}

}  // namespace mesh::fuzz
