#pragma once
// One control connection: its socket, the frame being read and the frames waiting to be sent. It
// moves bytes and describes what happened to it. The control plane decides who is told and when
// time is up. Thread: the owner of the control plane. Bounds: one frame of receive memory, and
// kSendQueueBytesMax bytes waiting to be sent.

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

// The reason for which a connection ends, with one line of text.
struct Loss {
  Errc reason = Errc::PeerGone;
  std::string text;
};

enum class ReadOutcome : std::uint8_t {
  Idle,     // nothing was there
  Partial,  // some bytes came, but no whole frame yet
  Frame,    // header() and take_body() have the frame
  Lost,     // loss() has the reason
};

// Assembles frames: the header first, then as much body as it names.
class FrameReader {
 public:
  // Reads at most one frame, so that no connection keeps the others waiting.
  ReadOutcome read(int fd);

  const FrameHeader& header() const noexcept { return header_; }
  Bytes take_body();  // ends the frame; the next read starts a new one
  const Loss& loss() const noexcept { return loss_; }

  bool in_frame() const noexcept { return header_got_ > 0; }
  std::string describe() const;  // "nothing", "half a message (17 of 48 bytes)"

 private:
  bool header_acceptable();  // checks the bytes that have arrived; fills in loss_
  bool may_be_decline() const;
  void grow_body();
  ReadOutcome end_of_stream(long received);

  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  bool spoke_ = false;  // a whole frame has arrived
  std::size_t header_got_ = 0;
  std::size_t body_got_ = 0;
  FrameHeader header_;
  Bytes body_;
  Loss loss_;
};

class SendQueue {
 public:
  bool push(Bytes frame);  // returns false if the frame exceeds the bound
  // Sends as much as the socket takes. Returns false if it will never take anything again; the
  // queue is then empty.
  bool flush(int fd);
  bool empty() const noexcept { return frames_.empty(); }

 private:
  std::deque<Bytes> frames_;
  std::size_t first_sent_ = 0;  // bytes of the first frame that are sent
  std::size_t bytes_ = 0;       // bytes of all frames that are not sent
};

enum class ConnectionState : std::uint8_t {
  Dialing,
  Up,
  // The queue is flushed, the socket is shut down, and then we wait for the peer's end of stream:
  // closing with unread input would reset the connection and lose what we sent.
  Closing,
  Lost,  // the handler is being told of its end
};

struct Connection {
  ConnectionId id = 0;
  UniqueFd fd;
  ConnectionState state = ConnectionState::Up;
  bool known = false;         // the handler has heard of this connection
  bool send_broken = false;   // the socket takes nothing more; reading finds the reason
  std::uint32_t watched = 0;  // the epoll events that were asked for
  std::uint64_t accepted_ns = 0;
  std::uint64_t first_frame_deadline_ns = kNever;
  std::uint64_t step_deadline_ns = kNever;  // for the dial, the half frame or the close
  SocketAddress peer;
  std::string name;
  FrameReader reader;
  SendQueue queue;
  std::optional<Loss> loss;  // found where it could not be reported

  // ---- For a dial.
  struct Candidate {
    SocketAddress address;
    std::uint32_t tries = 0;  // that ended in silence
  };
  std::vector<Candidate> candidates;
  std::size_t next_candidate = 0;
  std::uint16_t port = 0;
  std::uint64_t dial_timeout_ns = 0;
  // Until this time the candidate waits for a free descriptor. 0: it does not wait.
  std::uint64_t descriptor_until_ns = 0;
  Loss dial_loss;

  std::uint64_t deadline_ns() const noexcept {
    return first_frame_deadline_ns < step_deadline_ns ? first_frame_deadline_ns : step_deadline_ns;
  }
  std::uint32_t wanted_events() const noexcept;
};

// Returns the loss with the peer's name before its text.
Loss named(const Connection& connection, const Loss& loss);

enum class DialStep : std::uint8_t {
  Started,
  NoDescriptor,  // the process has no descriptor left for the next candidate
  NoneLeft,      // dial_loss has the reasons
};
// Starts connecting to the next candidate that can be tried at all.
DialStep dial_next(Connection& connection);
// Returns Ok, WouldBlock, or why this candidate failed, which is also added to dial_loss.
Status dial_result(Connection& connection);
void note_dial_failure(Connection& connection, Errc reason, const std::string& text);
// Returns how long to wait for the candidate that dial_next has started: shortly at first if there
// are others.
std::uint64_t dial_patience_ns(const Connection& connection);
// Puts that candidate, which was silent, behind the others. Returns false if it has had the whole
// time.
bool put_off_candidate(Connection& connection);

// Flushes and shuts down, then discards what still arrives. Returns true if the socket may be
// closed.
bool closing_done(Connection& connection);

}  // namespace mesh::engine
