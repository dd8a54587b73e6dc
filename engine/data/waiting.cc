#include "engine/data/waiting.h"

#include "engine/data/path.h"

#include <fmt/format.h>

namespace mesh::engine {

std::string waiting_text(const Waiting& waiting) {
  const std::string path = waiting.path == nullptr ? "" : " on " + waiting.path->text();
  switch (waiting.reason) {
    case WaitReason::Credit: return "the peer: it has posted no receive for it";
    case WaitReason::Tag: return "the peer: its next receive has another tag";
    case WaitReason::Data:
      return waiting.landed == 0
                 ? "the peer: it has sent nothing for it"
                 : fmt::format("the peer: {} stripes of it have come, not all", waiting.landed);
    case WaitReason::Turn: return "the program: nobody has asked about it for a second";
    case WaitReason::Completion:
      return fmt::format("the network: it is posted{} and not acknowledged", path);
    case WaitReason::Queue: return fmt::format("room in a send queue{}", path);
    case WaitReason::Window:
      return fmt::format("the peer: it has not taken what was announced{}", path);
    case WaitReason::Inflight:
      return fmt::format("the network: the bytes in flight{} are not acknowledged", path);
    case WaitReason::Path: {
      const bool told = waiting.path != nullptr && !waiting.path->health.last_cause.empty();
      return told ? fmt::format("a path: none to this peer is up; {}: {}", waiting.path->text(),
                                waiting.path->health.last_cause)
                  : "a path: none to this peer is up";
    }
  }
  return "an unknown reason";
}

}  // namespace mesh::engine
