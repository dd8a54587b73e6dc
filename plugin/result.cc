#include "plugin/result.h"

namespace mesh::plugin {

ncclResult_t to_result(Errc code) noexcept {
  switch (code) {
    case Errc::Ok:
    case Errc::WouldBlock: return ncclSuccess;
    case Errc::InvalidArgument: return ncclInvalidArgument;
    case Errc::Revoked: return ncclInvalidUsage;  // the request's memory was deregistered
    case Errc::Unreachable:
    case Errc::Protocol:
    case Errc::PeerClosed:
    case Errc::PeerGone:
    case Errc::Truncated:
    case Errc::Transport:
    case Errc::Timeout: return ncclRemoteError;
    case Errc::NotFound:
    case Errc::System: return ncclSystemError;
    case Errc::Exhausted:
    case Errc::Internal: return ncclInternalError;
  }
  return ncclInternalError;
}

}  // namespace mesh::plugin
