#pragma once
// What the two sides of a link tell each other, whatever connections carry it: numbers our frames,
// keeps each until the peer says that it has handled it, and tells the peer's new frames from those
// said again after a connection was lost. Thread: the owner. Bound: kOutboxBytesMax of frames; a
// peer that acknowledges nothing is given up there.

#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace mesh::engine {

// Below the send queue's bound (control_connection.h), so that all of it can be said again at once
// on a new connection.
inline constexpr std::size_t kOutboxBytesMax = (1 << 20) - (1 << 16);
// Most frames are answered, and the answer acknowledges; so many in a row that are not get an
// ACKNOWLEDGE of their own.
inline constexpr std::uint64_t kAcknowledgeEvery = 16;

enum class Verdict : std::uint8_t {
  New,       // to be handled; it counts as handled from here on
  Repeated,  // handled before: to be ignored
  Broken,    // something is missing before it, or it acknowledges what was never said
};

class Conversation {
 public:
  // For the next frame of ours.
  FrameHeader next_header(const Id128& link) noexcept;
  // For frames that belong to a connection and not to the conversation: number 0, never said again.
  FrameHeader aside(const Id128& link) const noexcept {
    return {.acknowledged = handled_, .link = link};
  }
  void keep(Bytes frame);  // the one next_header() was for

  Verdict take(const FrameHeader& header) noexcept;
  // The peer has handled everything up to this number. False: we have not said so much.
  bool acknowledge(std::uint64_t sequence) noexcept;
  bool owes_acknowledgement() const noexcept { return handled_ - told_ >= kAcknowledgeEvery; }
  void acknowledged_now() noexcept { told_ = handled_; }

  const std::deque<Bytes>& unhandled() const noexcept { return outbox_; }  // in order
  bool overfull() const noexcept { return overfull_; }  // for good: something was not kept
  std::uint64_t said() const noexcept { return said_; }
  std::uint64_t handled() const noexcept { return handled_; }

 private:
  std::deque<Bytes> outbox_;    // the last of them is number said_
  std::size_t bytes_ = 0;       // in outbox_
  std::uint64_t said_ = 0;      // number of our last frame
  std::uint64_t handled_ = 0;   // of the peer's
  std::uint64_t told_ = 0;      // handled_ as the peer knows it, once what was said arrives
  std::uint64_t released_ = 0;  // of ours: the peer has handled them
  bool overfull_ = false;
};

}  // namespace mesh::engine
