#pragma once
// The frames that the two sides of a link exchange, whatever connections carry them. A conversation
// numbers our frames, and keeps each until the peer has acknowledged that it handled it. It
// recognizes frames of the peer that are repeated after a connection was lost. Thread: the owner.
// Bound: kOutboxBytesMax bytes of frames; a peer that acknowledges nothing is given up there.

#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace mesh::engine {

// Below the send queue's bound (control_connection.h), so that the whole outbox can be repeated at
// once on a new connection.
inline constexpr std::size_t kOutboxBytesMax = (1 << 20) - (1 << 16);
// Most frames are answered, and the answer acknowledges them. After this many frames without an
// answer an ACKNOWLEDGE of its own is sent.
inline constexpr std::uint64_t kAcknowledgeEvery = 16;

enum class Verdict : std::uint8_t {
  New,       // the frame must be handled; one with a number counts as handled from here on
  Repeated,  // the frame was handled before and is ignored
  Broken,    // a frame before it is missing, or it acknowledges a frame that was never sent
};

class Conversation {
 public:
  // The header of our next frame.
  FrameHeader next_header(const Id128& link) noexcept;
  // The header of a frame that belongs to a connection and not to the conversation. Its number is
  // 0, and it is never repeated.
  FrameHeader aside(const Id128& link) const noexcept {
    return {.acknowledged = handled_, .link = link};
  }
  void keep(Bytes frame);  // keeps the frame that next_header() was called for

  Verdict take(const FrameHeader& header) noexcept;
  // Notes that the peer has handled our frames up to this number. False if we sent fewer.
  bool acknowledge(std::uint64_t sequence) noexcept;
  bool owes_acknowledgement() const noexcept { return handled_ - told_ >= kAcknowledgeEvery; }
  void acknowledged_now() noexcept { told_ = handled_; }

  const std::deque<Bytes>& unhandled() const noexcept { return outbox_; }  // in order
  bool overfull() const noexcept { return overfull_; }  // some frame was not kept; it stays so
  std::uint64_t said() const noexcept { return said_; }
  std::uint64_t handled() const noexcept { return handled_; }
  // Returns true if the peer has handled our frame with this number.
  bool has_released(std::uint64_t sequence) const noexcept { return released_ >= sequence; }

 private:
  bool consistent() const noexcept;

  std::deque<Bytes> outbox_;    // the last frame has number said_
  std::size_t bytes_ = 0;       // size of all frames in outbox_
  std::uint64_t said_ = 0;      // number of our last frame
  std::uint64_t handled_ = 0;   // number of the peer's last frame that was handled
  std::uint64_t told_ = 0;      // handled_ when our last frame with a number was made
  std::uint64_t released_ = 0;  // number of our last frame that the peer has handled
  bool overfull_ = false;
};

}  // namespace mesh::engine
