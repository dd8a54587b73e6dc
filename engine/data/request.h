#pragma once
// One slot of a channel in use: what NCCL calls a request. NCCL's thread fills it and frees it; in
// between the loop owns it. Thread: state as noted; the fields belong to NCCL's thread while Free,
// to the loop while Submitted, to NCCL's afterwards.

#include <mesh/channel.h>

#include "src/base/check.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mesh {

// Of a group of receives the first is the request that NCCL has. Group: it is open; Gathered: every
// member has its message. Member: another one, whether or not it has its message; once the channel
// has failed, that is Gathered too.
// Flushing: a flush (flusher.h), which is no slot of a channel's.
enum class RequestState : std::uint32_t {
  Free,
  Submitted,
  Done,
  Failed,
  Flushing,
  Group,  // from here on of groups only
  Member,
  Gathered
};
// The first one of a group answers for its members.
constexpr bool is_open(RequestState state) noexcept {
  return state == RequestState::Submitted || state == RequestState::Group;
}
// Of a group that is open, or whose messages are all there.
constexpr bool is_of_group(RequestState state) noexcept { return state >= RequestState::Group; }

inline constexpr std::uint64_t kNoAnnouncement = UINT64_MAX;  // no immediate looks like this

class alignas(64) Request {
 public:
  // The loop releases Done and Failed, and test() acquires them.
  std::atomic<RequestState> state{RequestState::Free};
  std::uint32_t tag = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // asked for; when Done: what was sent
  Registration* region = nullptr;
  Channel* channel = nullptr;
  std::uint32_t generation = 0;  // loop: of its credit; of receives, and of sends with a record
  Errc error = Errc::Ok;         // when Failed; Ok again when the slot is Free
  // Receives of a group: so many slots before this one is the first (receive_groups.h).
  std::uint8_t offset = 0;
  bool uniform = false;  // sends, loop: counted once in its channel's outstanding and, when all is
                         // done, by its path
  // Loop. Sends: stripes not yet completed. The first of a group: members without a message.
  std::uint8_t open_stripes = 0;
  // Loop. Receives: what the credit given from this slot looks like. It outlives the request:
  // announcements may come late. Sends: what announces them, for the case that a path is lost.
  // The immediate of its announcements; of a receive, without the number of stripes.
  std::uint64_t expected = kNoAnnouncement;
  // Receives: how many have been announced, in the lowest byte, and above their bytes. Sends with a
  // record: how many there are; sends that several paths share: the bytes of one.
  std::uint64_t stripes = 0;

  // A member of a group, its offset, its generation and what it expects: stored at once, and the
  // next member's is a step further.
  using Credited [[gnu::vector_size(16)]] = std::uint64_t;
  static Credited credited(std::uint32_t generation_of, std::uint64_t imm_of) noexcept {
    return Credited{generation_of, imm_of};
  }
  static Credited credited_step(std::uint64_t imm_step) noexcept {
    return Credited{std::uint64_t{1} << 40, imm_step};
  }
  void set_credited(const Credited& value) noexcept {
    std::memcpy(&generation, &value, sizeof value);
  }

  std::uint32_t imm() const noexcept {
    return static_cast<std::uint32_t>(expected);
  }  // of a send, or a live credit's
  std::uint8_t stripe_count() const noexcept { return static_cast<std::uint8_t>(stripes); }
  static constexpr std::uint32_t kBytesShift = 8;  // of stripes

  // Loop, holding the token. A request that already failed stays failed: its slot may be dead.
  // False: it has, or it is one of a group.
  bool complete(std::uint64_t bytes_done) noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return false;
    DCHECK(bytes_done <= bytes);
    bytes = bytes_done;
    state.store(RequestState::Done, std::memory_order_release);
    return true;
  }
  // A send that was one work request of its own has completed.
  void complete_whole() noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return;
    DCHECK(error == Errc::Ok);
    state.store(RequestState::Done, std::memory_order_release);
  }
  // The last stripe of a send has completed; its size is what was asked for.
  void complete_send() noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return;
    DCHECK(open_stripes == 0);
    state.store(error == Errc::Ok ? RequestState::Done : RequestState::Failed,
                std::memory_order_release);
  }
  // Of a group the first one, for all of them.
  void fail(Errc why) noexcept {
    const RequestState was = state.load(std::memory_order_relaxed);
    if (was != RequestState::Submitted && was != RequestState::Group) return;
    DCHECK(why != Errc::Ok && why != Errc::WouldBlock);
    error = why;
    state.store(RequestState::Failed, std::memory_order_release);
  }
};
static_assert(sizeof(Request) == 64, "one cache line a slot");
static_assert(static_cast<int>(Errc::Ok) == 0);
static_assert(offsetof(Request, offset) == offsetof(Request, generation) + 5);
static_assert(offsetof(Request, expected) == offsetof(Request, generation) + 8);

}  // namespace mesh
