#include <mesh/status.h>

#include <mesh/snapshot.h>

namespace mesh {

const char* errc_name(Errc code) noexcept {
  switch (code) {
    case Errc::Ok: return "ok";
    case Errc::WouldBlock: return "would block";
    case Errc::InvalidArgument: return "invalid argument";
    case Errc::NotFound: return "not found";
    case Errc::Unreachable: return "unreachable";
    case Errc::Protocol: return "protocol error";
    case Errc::PeerClosed: return "peer closed";
    case Errc::PeerGone: return "peer gone";
    case Errc::Truncated: return "truncated";
    case Errc::Revoked: return "revoked";
    case Errc::Transport: return "transport error";
    case Errc::Timeout: return "timeout";
    case Errc::Exhausted: return "exhausted";
    case Errc::System: return "system error";
    case Errc::Internal: return "internal error";
  }
  return "unknown";
}

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
    case WaitReason::QueuePairs: return "queue_pairs";
  }
  return "unknown";
}

}  // namespace mesh
