#pragma once
// The part of a channel that both sides share: the ring of requests and its hand-over from NCCL's
// thread to the loop. The ring is the queue: NCCL fills slot n % slots and publishes n + 1; the
// loop accepts up to what is published. Slots are taken in order, so a slot that is not free means
// "no room". Thread: as noted per field. Bound: policy.slots requests.

#include <mesh/channel.h>
#include <mesh/policy.h>
#include <mesh/snapshot.h>

#include "engine/data/request.h"
#include "engine/data/stall_watch.h"
#include "engine/data/tag_queues.h"
#include "src/base/check.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace mesh {

namespace engine {
class PeerLink;
class ProgressLoop;
struct Path;
struct Span;
enum class Side : std::uint8_t { Send, Receive };

// Values of Channel::takes: the tag of a send channel's first send, as a number, or one of these.
inline constexpr std::uint64_t kTakesReceives = UINT64_MAX;
inline constexpr std::uint64_t kTakesNothing = UINT64_MAX - 1;
inline constexpr std::uint64_t kTakesAnySend = UINT64_MAX - 2;  // its first send is still to come

// The progress of a channel's end; moved only under the engine's control mutex.
struct ChannelClosing {
  bool closed_here = false;   // close() was called
  bool close_sent = false;    // CLOSE is on its way to the peer
  bool closed_there = false;  // the peer's CLOSE was acted on
  bool revoke_sent = false;   // REVOKE is on its way
  bool revoked = false;       // and was answered: no write of the peer's can come any more
};
// The reason why an open request waits, asked rarely and about one request.
struct Waiting {
  WaitReason reason = WaitReason::Data;
  const Path* path = nullptr;  // the path it waits for, where known
  std::uint32_t landed = 0;    // Data: stripes that have come
  std::uint64_t left = 0;      // bytes not gone out yet, of the message that is being posted
};
// The messages of a channel, counted since it was made; the numbers never fall.
struct MessageCounts {
  std::uint64_t messages = 0;        // posted whole, or received
  std::uint64_t bytes_received = 0;  // a receive channel's
  std::uint64_t close_says = 0;      // messages that the receiver gets; CLOSE carries this number
};
}  // namespace engine

class Channel {
 public:
  Channel(engine::PeerLink& link_of, engine::Side side_of, std::uint32_t index_of);
  virtual ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // NCCL's thread, when test() has nothing to return. Returns true if the loop's poller made no
  // turn over the last calls: it dozes, or another thread has its CPU.
  [[gnu::noinline]] bool poller_is_late() noexcept;
  // NCCL's thread: the slot for the next request; it must be Free.
  Request& next_slot() const noexcept { return request(submitted.load(std::memory_order_relaxed)); }
  // NCCL's thread. Logs the first refusal of a channel's life; NCCL gives up after it.
  [[gnu::cold, gnu::noinline]] Errc refuse_range(const void* data,
                                                 std::size_t bytes) const noexcept;
  // NCCL's thread, after filling next_slot(). Returns true if the loop need not be told, because
  // the next call on this channel will soon post this request and the few that wait with one
  // doorbell. NCCL makes such a call if it starts one request after the other, or if the second
  // request that it will test, and so the first, is done already. Returns false if the loop must be
  // told.
  bool publish(Request& slot) noexcept {
    const std::uint64_t sequence = submitted.load(std::memory_order_relaxed);
    DCHECK(slot.state.load(std::memory_order_relaxed) == RequestState::Free);
    DCHECK(sequence - accepted.load(std::memory_order_relaxed) < slot_count);
    const bool more_to_come =
        !std::exchange(asked, false) || (second < sequence && is_done(second));
    slot.state.store(RequestState::Submitted,
                     std::memory_order_release);  // acquired where regions are looked for
    submitted.store(sequence + 1, std::memory_order_release);  // acquired in the loop's advance
    if (more_to_come && sequence + 1 < group_end) return true;
    group_end = sequence + batch + (more_to_come ? 1 : 0);
    return false;
  }

  bool is_done(std::uint64_t sequence) const noexcept {
    return request(sequence).state.load(std::memory_order_relaxed) == RequestState::Done;
  }
  Request& request(std::uint64_t sequence) const noexcept { return requests[sequence & slot_mask]; }
  // NCCL's thread. Returns true for the first request of a group of receives. Not for flushes.
  bool is_group(const Request& request) const noexcept;
  // Returns the request that oldest_open() or `oldest` names, in the ring or another tag's queue.
  Request& open_request(std::uint64_t sequence) const noexcept;
  static bool is_of_queue(std::uint64_t sequence) noexcept;
  static std::uint64_t number_in_queue(std::uint64_t sequence) noexcept;
  // Visits all slots, those of other tags included.
  template <typename Visit>
  void for_each_request(Visit&& visit) const {
    for (std::uint32_t slot = 0; slot < slot_count; ++slot) visit(requests[slot]);
    const engine::TagQueues* const tagged = tags.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; tagged != nullptr && i < tagged->count(); ++i) {
      for (std::uint32_t slot = 0; slot < engine::kTagSlots; ++slot)
        visit(tagged->at(i).request(slot));
    }
  }
  // NCCL's thread. Returns the first send's tag; if there was none, `tag` becomes it.
  std::uint64_t take_first_tag(std::uint32_t tag) noexcept;
  // NCCL's thread. Returns the queue of a further tag; WouldBlock: all queues are in use.
  Result<engine::TagQueue*> tag_queue(std::uint32_t tag) noexcept;

  // Loop. Returns true if something is published that the loop has not taken over.
  bool has_new() const noexcept {
    return submitted.load(std::memory_order_acquire) != accepted.load(std::memory_order_relaxed);
  }

  // Loop, holding the progress lock: later calls of NCCL return `why`; the first reason stays.
  void take_no_more(Errc why) noexcept;
  // Holding the progress lock: NCCL's calls return WouldBlock until the link has a path
  // (Reach::Lazy).
  void sleep() noexcept;
  void wake() noexcept;
  // Loop, holding the progress lock: take_no_more(), and all that is open fails.
  void fail_all(Errc why) noexcept;

  // ---- Implemented by each side, off the message path. Holding the progress lock.
  virtual engine::MessageCounts counts() const noexcept = 0;
  // Returns true if a NIC, ours or the peer's, may still touch the region because of this channel.
  virtual bool uses(const Registration& region) const noexcept = 0;
  // Returns what an open request waits for.
  virtual engine::Waiting waiting(std::uint64_t sequence) noexcept = 0;
  // Fails what is published and not posted. A send of zero bytes succeeds if the peer merely
  // closed.
  virtual void drop_unposted(Errc why) noexcept = 0;
  // A path is lost: choose_express(), then leave_path(). After the fence: fenced(), and replay()
  // for every stripe of this channel that the path has lost.
  virtual void choose_express() noexcept = 0;
  virtual void leave_path(const engine::Path& /*path*/) {}
  virtual void fenced(const engine::Path& path) noexcept = 0;
  virtual void replay(const engine::Span& lost);

  // Without the progress lock. Returns the first open request of the ring, or of the queue that
  // `from` is of. In the ring, the requests before `from` are known to have ended.
  engine::OpenRequest oldest_open(std::uint64_t from) const noexcept;
  // Control mutex. Updates `oldest` to what has now been open for longest.
  void see_open(std::uint64_t now_ns) noexcept;
  // Holding the progress lock. Counts the requests in state Submitted and, for each in state Group,
  // its members without a message.
  std::uint32_t open_count() const noexcept;

  // Fields off the message path. They come first, so that what the loop changes lies beside the
  // fields of the derived class.
  std::map<Registration*, std::uint32_t>
      regions;                     // control mutex: registered through this channel, how often
  engine::ChannelClosing closing;  // control mutex
  engine::OldestRequest oldest;    // control mutex
  // Queues of sends whose tag is not the first one's; owned. NCCL's thread stores with release.
  std::atomic<engine::TagQueues*> tags{nullptr};
  // NCCL releases, wake() acquires: the first send's tag, or kTakesAnySend.
  std::atomic<std::uint64_t> first_tag{engine::kTakesAnySend};

  // The line of what a message needs only if the loop visits its channel, or a call is in vain.
  alignas(64) const engine::Side side;
  std::atomic<Errc> failure{Errc::Ok};  // sticky; loop releases, NCCL acquires
  const std::uint32_t index;            // in the link, what the immediate carries
  engine::PeerLink& link;
  Channel* next_active = nullptr;  // loop: its list of channels with work
  const std::uint32_t slot_count;
  std::uint32_t mail_bit = 0;           // constant once attached
  std::uint32_t life_number = 0;        // how often this index was used before
  std::uint32_t poller_turns_seen = 0;  // NCCL's thread: the loop's, at its last look

  // The line of NCCL's thread. Each call needs this line of the object and no other.
  alignas(64) engine::ProgressLoop& loop;
  const std::unique_ptr<Request[]> requests;
  const std::uint32_t slot_mask;
  const bool callers_turn;      // the loop has no poller
  bool asked = true;            // test() was called since the last request was started
  bool poller_late = false;     // at its last look the poller had made no turn
  std::uint8_t vain_tests = 0;  // calls of poller_is_late()
  const std::uint64_t batch;  // the policy's; 1 if the loop has a poller: nothing waits for test()
  std::uint64_t group_end = 0;  // the loop is told when so many are published
  // The number of the request behind the one that test() will end next, less the open sends of
  // other tags.
  std::uint64_t second = 1;
  // kTakesNothing once it has failed: one comparison checks side, failure and tag.
  std::atomic<std::uint64_t> takes;
  std::atomic<std::uint64_t> submitted{0};  // requests ever published

  // The line of the loop, which the derived class goes on with.
  // Requests before this one are matched (sends), or have their credit (receives).
  alignas(64) std::atomic<std::uint64_t> accepted{0};
  // Work requests and uniform messages that are posted and still to complete.
  std::uint32_t outstanding = 0;
  bool active = false;

 private:
  engine::OpenRequest oldest_of_queue(std::uint32_t queue) const noexcept;

 protected:
  bool slow_path_ = false;  // loop: this is not the plain case; always true once it failed
  // Loop.
  void accept_one() noexcept {
    DCHECK(has_new());
    accepted.store(accepted.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace mesh
