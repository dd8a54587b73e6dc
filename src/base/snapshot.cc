#include <mesh/snapshot.h>

namespace mesh {

const char* wait_reason_name(WaitReason reason) noexcept {
  switch (reason) {
    case WaitReason::Credit: return "credit";
    case WaitReason::Tag: return "tag";
    case WaitReason::Data: return "data";
    case WaitReason::Turn: return "turn";
    case WaitReason::Completion: return "completion";
    case WaitReason::Queue: return "queue";
    case WaitReason::Window: return "window";
    case WaitReason::Inflight: return "inflight";
    case WaitReason::Path: return "path";
  }
  return "unknown";
}

}  // namespace mesh
