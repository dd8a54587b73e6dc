#include "engine/data/peer_link.h"

#include "engine/data/progress_loop.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <cstdlib>
#include <cstring>
#include <exception>

namespace mesh::engine {

void LinkReach::want_path() noexcept {
  if (!wanted_.exchange(true, std::memory_order_relaxed)) loop_.wake_control();
}

namespace {
const char* advice(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return "check cable, port and MTU";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer had no receive: a bug in nccl-mesh";
    case IBV_WC_REM_ACCESS_ERR:
      return "the remote memory is deregistered: its process may have aborted";
    case IBV_WC_LOC_QP_OP_ERR: return "our port may have lost its address";
    case IBV_WC_LOC_PROT_ERR: return "our memory is no longer registered";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's NIC did not understand a request";
    case IBV_WC_WR_FLUSH_ERR: return "the peer or the device ended the queue pair";
    default: return "see the device's error counters";
  }
}

const char* status_name(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return "retries exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "receiver-not-ready retries exceeded";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request";
    case IBV_WC_REM_OP_ERR: return "remote operation error";
    case IBV_WC_LOC_QP_OP_ERR: return "local queue pair error";
    case IBV_WC_WR_FLUSH_ERR: return "flushed";
    default: return "error completion";
  }
}

// Says in a few words, which fit a line about a path, what the device has told.
std::string cause_text(const ibv_wc& completion) {
  const std::string vendor = completion.vendor_err == 0
                                 ? std::string()
                                 : fmt::format(", vendor {:#x}", completion.vendor_err);
  return fmt::format("{} (status {}{}); {}", status_name(completion.status),
                     static_cast<int>(completion.status), vendor, advice(completion.status));
}
}  // namespace

PeerLink::PeerLink(ProgressLoop& loop, ChannelOwner& owner, const LinkIdentity& identity,
                   const TransferPolicy& policy)
    : loop_(loop),
      owner_(owner),
      identity_(identity),
      policy_(policy),
      late_(*this),
      paths_(*this),
      channels_(*this),
      reach_(loop) {}

namespace {
// Returns true if every path would end like this, as the mistake is not the wire's. (Not for
// LOC_QP_OP_ERR: soft-RoCE says that when a port has lost its address.)
bool is_mistake(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_REM_ACCESS_ERR: return true;
    default: return false;
  }
}
}  // namespace

void PeerLink::on_error_completion(QueuePair& queue_pair, const ibv_wc& completion) noexcept {
  if ((completion.wr_id & kReceiveBit) != 0) queue_pair.receives().on_flushed();
  DCHECK(loop_.held());
  if (failure() != Errc::Ok) return;
  Path& path = queue_pair.path();
  path.health.probe_failed = true;
  if (path.health.state != PathState::Up) return;  // the rest of a flush
  const bool black_hole = completion.status == IBV_WC_RETRY_EXC_ERR &&
                          identity_.role == LinkRole::Connector &&
                          SendQueuePair::of(*path.queue_pairs[0]).full_packet_hangs();
  if (black_hole) ++path.health.black_holes;
  try {
    const std::string cause = cause_text(completion);
    LOG_DETAIL("peer {}: path {}: queue pair {} (number {}): {}", identity_.peer_host, path.name,
               queue_pair.index(), completion.qp_num, cause);
    if (is_mistake(completion.status)) {
      fail(Errc::Transport, fmt::format("{}: {}", path.name, cause));
    } else {
      quarantine(path, black_hole ? black_hole_text(path) : cause);
    }
  } catch (const std::exception& error) {
    fail_for_memory(path, error.what());
  }
}

void PeerLink::on_post_failed(QueuePair& queue_pair, int error) noexcept {
  if (failure() != Errc::Ok) return;
  DCHECK(loop_.held());
  queue_pair.path().health.probe_failed = true;
  try {
    quarantine(queue_pair.path(), fmt::format("posting on queue pair {} was refused: {}",
                                              queue_pair.index(), std::strerror(std::abs(error))));
  } catch (const std::exception& without) {
    fail_for_memory(queue_pair.path(), without.what());
  }
}

// Fails the link, and not the process, if an exception, as a rule for want of memory, stops the
// loss of a path half way.
void PeerLink::fail_for_memory(const Path& path, const char* what) noexcept {
  LOG_WARN("peer {}: path {} is lost; out of memory, so the link ends: {}", identity_.peer_host,
           path.name, what);
  fail(Errc::System, "out of memory", LogLevel::Detail);
}

void PeerLink::report_truncated(std::uint64_t sent, std::uint64_t room) const noexcept {
  loop_.counters.errors.add(1);
  LOG_WARN(
      "peer {}: a send of {} bytes met a receive of {} bytes; both fail (ranks disagree about a "
      "message's size)",
      identity_.peer_host, sent, room);
}

// The link ends, because NCCL would read as many bytes of its buffer as it is told.
void PeerLink::on_overrun(std::uint64_t said, std::uint64_t room) noexcept {
  LOG_WARN("peer {}: claims to have written {} bytes into a receive of {} bytes; the link ends",
           identity_.peer_host, said, room);
  loop_.counters.errors.add(1);
  fail(Errc::Protocol, "a message is longer than its receive", LogLevel::Detail);
}

void PeerLink::fail(Errc why, std::string_view cause, LogLevel level) noexcept {
  DCHECK(loop_.held());
  if (failure() != Errc::Ok) return;
  if (level == LogLevel::Warn) loop_.counters.errors.add(1);
  if (!cause.empty()) {
    MESH_LOG(level, "peer {}: {}", identity_.peer_host, cause);
  }
  try {
    cause_ = cause;
  } catch (const std::exception&) {
    // The peer's log then has the kind of the error only.
  }
  end(why);
  loop_.wake_control();
}

void PeerLink::tell_end(Errc why) const noexcept {
  if (why != Errc::PeerClosed && !reach_.unreachable()) return;
  const std::string& peer = identity_.peer_host;
  try {
    if (!owner_.peer_log().is_first_end(peer)) return;
  } catch (const std::exception&) {
    // Without memory to remember it, the line comes again.
  }
  if (reach_.unreachable()) {
    LOG_WARN("peer {}: no path leads to it: {}", peer, reach_.why());
  } else {
    LOG_WARN(
        "peer {}: it has closed its end with requests of ours open: its program has aborted or "
        "left the communicator; see its log",
        peer);
  }
}

void PeerLink::end(Errc why) noexcept {
  if (failure() != Errc::Ok) return;
  failure_.store(why, std::memory_order_release);
  owner_.peer_log().forget(*this);
  channels_.for_each([why](Channel& channel) { channel.fail_all(why); });
}

void PeerLink::destroy_queue_pairs() noexcept {
  loop_.forget_wishing(*this);
  paths_.destroy_all();
  memory_.release();
}

}  // namespace mesh::engine
