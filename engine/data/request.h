#pragma once
// One slot of a channel in use: what NCCL calls a request. NCCL's thread fills it and frees it; in
// between the loop owns it. Thread: state as noted; the fields belong to NCCL's thread while Free,
// to the loop while Submitted, to NCCL's thread afterwards.

#include <mesh/channel.h>

#include "src/base/check.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mesh {

// In a group of receives the first slot is the request that NCCL has. Group: it is open. Gathered:
// every member has its message. Member: another slot of the group, whether or not it has its
// message; it becomes Gathered too when the channel fails.
// Flushing: a Flush (flusher.h), which is no slot of a channel's.
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
// Returns true if a request is open; the first one of a group stands for its members.
constexpr bool is_open(RequestState state) noexcept {
  return state == RequestState::Submitted || state == RequestState::Group;
}
// Returns true for a slot of a group that is open or has all its messages.
constexpr bool is_of_group(RequestState state) noexcept { return state >= RequestState::Group; }

inline constexpr std::uint64_t kNoAnnouncement = UINT64_MAX;  // no immediate looks like this

// The stripes of a receive's message that have landed, by the loop: their number in the lowest
// byte, so that one addition counts a stripe and its bytes.
class Landed {
 public:
  void add(std::uint64_t bytes) noexcept { word_ += (bytes << kBytesShift) + 1; }
  // Counts a stripe of a message whose record tells the bytes.
  void add_recorded() noexcept { ++word_; }
  std::uint8_t count() const noexcept { return static_cast<std::uint8_t>(word_); }
  std::uint64_t bytes() const noexcept { return word_ >> kBytesShift; }
  bool none() const noexcept { return word_ == 0; }

 private:
  static constexpr std::uint32_t kBytesShift = 8;
  std::uint64_t word_ = 0;
};

// How a send was cut, by the loop.
struct Cut {
  // The size of each stripe but the last, where stripes have one size (uniform, apart, shared). A
  // replay computes from it the stripes that were posted, whatever paths the link has by then.
  std::uint32_t stripe_bytes;
  std::uint8_t stripes;  // as its record says
  std::uint8_t open;     // stripes not yet completed
  bool uniform;  // its channel's outstanding counts it once, and so does its path when all is done
};

class alignas(64) Request {
 public:
  // The loop releases Done and Failed, and test() acquires them.
  std::atomic<RequestState> state{RequestState::Free};
  std::uint32_t tag = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // asked for; when Done: what was sent
  Registration* region = nullptr;
  Channel* channel = nullptr;
  std::uint32_t generation = 0;  // loop: its credit's; of receives, and of sends with a record
  Errc error = Errc::Ok;         // when Failed; Ok again when the slot is Free
  // Receives of a group: the first one lies this many slots before this one (receive_groups.h).
  std::uint8_t offset = 0;
  std::uint8_t open_members = 0;  // loop: the first one of a group counts those without a message
  // Loop. The immediate of its announcements. Receives: that of the credit given from this slot,
  // without the number of stripes; it outlives the request, because announcements may come late.
  // Sends: kept for the case that a path is lost.
  std::uint64_t expected = kNoAnnouncement;
  union {
    Landed landed{};  // of a receive
    Cut cut;          // of a send
  };

  // The fields from `generation` to `expected` of a group's member, stored at once; as two words,
  // so that one addition leads to the next member's.
  struct Credited {
    std::uint32_t generation = 0;
    Errc error = Errc::Ok;
    std::uint8_t offset = 0;
    std::uint8_t open_members = 0;
    std::uint64_t expected = 0;
  };
  using CreditedWords [[gnu::vector_size(sizeof(Credited))]] = std::uint64_t;
  static CreditedWords credited(std::uint32_t generation_of, std::uint64_t imm_of) noexcept {
    return CreditedWords{generation_of, imm_of};
  }
  static CreditedWords credited_step(std::uint64_t imm_step) noexcept {
    return CreditedWords{std::uint64_t{1} << 8 * offsetof(Credited, offset), imm_step};
  }
  void set_credited(const CreditedWords& words) noexcept {
    std::memcpy(&generation, &words, sizeof words);
  }

  std::uint32_t imm() const noexcept {
    return static_cast<std::uint32_t>(expected);
  }  // of a send, or of a live credit

  // Loop, holding the progress lock. Completes a receive. Returns false if it is one of a group, or
  // has failed already: then it stays failed, as its slot may be dead.
  bool complete(std::uint64_t bytes_done) noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return false;
    DCHECK(bytes_done <= bytes);
    bytes = bytes_done;
    state.store(RequestState::Done, std::memory_order_release);
    return true;
  }
  // Completes a send that was one work request of its own.
  void complete_whole() noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return;
    DCHECK(error == Errc::Ok);
    state.store(RequestState::Done, std::memory_order_release);
  }
  // Completes a send whose last stripe has completed; its size is what was asked for.
  void complete_send() noexcept {
    if (state.load(std::memory_order_relaxed) != RequestState::Submitted) [[unlikely]]
      return;
    DCHECK(cut.open == 0);
    state.store(error == Errc::Ok ? RequestState::Done : RequestState::Failed,
                std::memory_order_release);
  }
  // Fails an open request; the first one of a group fails for all its members.
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
static_assert(sizeof(Landed) == sizeof(Request::cut) && sizeof(Request::Credited) == 16);
static_assert(offsetof(Request, error) - offsetof(Request, generation) ==
              offsetof(Request::Credited, error));
static_assert(offsetof(Request, offset) - offsetof(Request, generation) ==
              offsetof(Request::Credited, offset));
static_assert(offsetof(Request, open_members) - offsetof(Request, generation) ==
              offsetof(Request::Credited, open_members));
static_assert(offsetof(Request, expected) - offsetof(Request, generation) ==
              offsetof(Request::Credited, expected));

}  // namespace mesh
