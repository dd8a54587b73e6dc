#pragma once
// One side of one channel as its user drives it, and the expected results: which send meets which
// receive, where each byte comes from, which errors have an excuse.

#include <mesh/channel.h>
#include <mesh/engine.h>

#include "tests/sim/scenario.h"

namespace mesh::sim {

// The errors that have a reason so far, one bit for each Errc.
using Excuses = std::uint32_t;
constexpr Excuses excuse(Errc code) noexcept { return 1u << static_cast<unsigned>(code); }
inline constexpr Excuses kPeerEnded = excuse(Errc::PeerClosed);
inline constexpr Excuses kPeerAborted = excuse(Errc::PeerClosed) | excuse(Errc::PeerGone) |
                                        excuse(Errc::Transport) | excuse(Errc::Timeout);
inline constexpr Excuses kPathFailed = kPeerAborted | excuse(Errc::Unreachable);

enum class SideState : std::uint8_t {
  Waiting,  // for another channel to be over
  Opening,
  Running,
  Draining,  // a request has failed: the other requests must end too
  Over,      // closed, or gone with its context
};

struct OpenRequest {
  Request* request = nullptr;
  std::size_t number = 0;   // index among this side's requests; of a group, its first member's
  std::size_t members = 1;  // requests of a group, with consecutive numbers
  bool flushes = false;     // the receive is done, and the flush of its bytes is under way
  std::array<std::size_t, kGroupMax> bytes{};  // bytes of that receive, by member
};

struct Side {
  SideState state = SideState::Waiting;
  std::size_t context = 0;
  Channel* channel = nullptr;
  std::vector<Registration*> regions;  // null: taken back
  std::vector<OpenRequest> open;
  std::size_t started = 0, ended = 0, failed = 0;
  Excuses excuses = 0;
  bool gone = false;  // its context was closed or its host lost: nothing of it may be touched

  // For channel_watch.cc: identifies the engine's channel, and keeps what the engine has said and
  // shown of it so far.
  engine::Id128 link{};
  std::uint32_t index = 0;                  // in the link
  std::optional<std::uint64_t> close_said;  // messages that its CLOSE counted
  std::uint64_t questions = 0;              // tests of requests that were still open
  std::uint32_t idle_looks = 0;
  std::array<std::uint64_t, 4> seen{};
};

// The place of a receive's bytes, and what is known about them.
enum class SlotState : std::uint8_t { Untouched, Open, Full, Consumed, Failed };
struct ReceiveSlot {
  std::size_t region = 0;
  std::size_t offset = 0;  // of its room in the region; a guard lies on either side
  SlotState state = SlotState::Untouched;
};

}  // namespace mesh::sim
