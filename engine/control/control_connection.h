#pragma once
// One control connection: its socket, the frame being read and the frames waiting to be sent. Moves
// bytes and describes what it saw; who is told, and when time is up, is the control plane's.
// Thread: the owner of the control plane. Bounds: one frame of receive memory, kSendQueueBytesMax
// waiting to be sent.

#include <mesh/status.h>

#include "engine/control/control_plane.h"
#include "engine/control/frames.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kSendQueueBytesMax = 1 << 20;
inline constexpr std::uint64_t kNever = UINT64_MAX;

// Why a connection ends, in one line.
struct Loss {
  Errc reason = Errc::PeerGone;
  std::string text;
};

enum class ReadOutcome : std::uint8_t {
  Idle,     // nothing was there
  Partial,  // bytes, but no whole frame yet
  Frame,    // header() and take_body()
  Lost,     // loss()
};

// Assembles frames: the header first, then as much body as it names.
class FrameReader {
 public:
  ReadOutcome read(int fd);  // at most one frame, so that no connection keeps the others waiting

  const FrameHeader& header() const noexcept { return header_; }
  Bytes take_body();  // the frame is over, the next read starts a new one
  const Loss& loss() const noexcept { return loss_; }

  bool in_frame() const noexcept { return header_got_ > 0; }
  std::string describe() const;  // "nothing", "half a message (17 of 48 bytes)"

 private:
  bool header_acceptable();  // of what has arrived of it; fills in loss_
  void grow_body();
  ReadOutcome end_of_stream(long received);

  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  bool spoke_ = false;  // a whole frame has come
  std::size_t header_got_ = 0;
  std::size_t body_got_ = 0;
  FrameHeader header_;
  Bytes body_;
  Loss loss_;
};

class SendQueue {
 public:
  bool push(Bytes frame);  // false: over the bound
  bool flush(int fd);      // as much as the socket takes; false: it takes no more for good, and the
                           // queue is empty
  bool empty() const noexcept { return frames_.empty(); }

 private:
  std::deque<Bytes> frames_;
  std::size_t first_sent_ = 0;  // bytes of the first frame that are out
  std::size_t bytes_ = 0;
};

enum class ConnectionState : std::uint8_t {
  Dialing,
  Up,
  Closing,  // flush, shut down, wait for the peer's end so that unread input does not reset what we
            // said
  Lost,     // being reported
};

struct Connection {
  ConnectionId id = 0;
  UniqueFd fd;
  ConnectionState state = ConnectionState::Up;
  bool known = false;         // the handler has heard of it
  bool send_broken = false;   // the socket takes no more; reading finds out why
  std::uint32_t watched = 0;  // epoll events asked for
  std::uint64_t accepted_ns = 0;
  std::uint64_t stranger_deadline_ns = kNever;
  std::uint64_t step_deadline_ns = kNever;  // of the dial, the half frame or the close
  SocketAddress peer;
  std::string name;
  FrameReader reader;
  SendQueue queue;
  std::optional<Loss> loss;  // found where it could not be reported

  std::vector<SocketAddress> candidates;  // of a dial
  std::size_t next_candidate = 0;
  std::uint16_t port = 0;
  std::uint64_t dial_timeout_ns = 0;
  std::uint64_t descriptor_until_ns =
      0;  // none is left for this candidate, which waits so long; 0: it does not
  Loss dial_loss;

  std::uint64_t deadline_ns() const noexcept {
    return stranger_deadline_ns < step_deadline_ns ? stranger_deadline_ns : step_deadline_ns;
  }
  std::uint32_t wanted_events() const noexcept;
};

// The same loss with the peer's name before the text.
Loss named(const Connection& connection, const Loss& loss);

enum class DialStep : std::uint8_t {
  Started,
  NoDescriptor,  // the process has none for the next candidate
  NoneLeft,      // dial_loss says what happened
};
// Starts connecting to the next candidate that can be tried at all.
DialStep dial_next(Connection& connection);
// Ok, WouldBlock, or why this candidate failed (added to dial_loss).
Status dial_result(Connection& connection);
void note_dial_failure(Connection& connection, Errc reason, const std::string& text);

// Flushes and shuts down; then discards what still comes. True: over, the socket may be closed.
bool closing_done(Connection& connection);

}  // namespace mesh::engine
