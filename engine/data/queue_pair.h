#pragma once
// One RC queue pair of a peer link as the loop uses it: its doorbell chain, what each posted work
// request is for, its receives. A connector's sends messages (send_queue_pair.h), an acceptor's
// sends credits and window words (recv_queue_pair.h). Sends are retired in order by cumulative
// count, so an unsignaled work request costs nothing but its entry here. Thread: loop (progress
// lock). Set-up calls: control mutex and progress lock. Bounds: those of SendRoom.

#include <mesh/metrics.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/path.h"
#include "engine/data/receive_queue.h"
#include "engine/data/request.h"
#include "engine/data/send_room.h"
#include "engine/message/stripe.h"
#include "engine/message/wire.h"
#include "src/base/check.h"
#include "src/verbs/handle.h"
#include "src/verbs/wr_chain.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class DeviceContext;
class PeerLink;
class ProgressLoop;
enum class LinkRole : std::uint8_t;

// wr_id: table index 16 | receive 1 | timed 1 | life 14 | count 32. A completion that outlives its
// queue pair finds another life.
inline constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 47;
inline constexpr std::uint64_t kTimedBit = std::uint64_t{1} << 46;  // of a path's timed write
constexpr std::uint64_t wr_id_base(std::uint32_t index, std::uint32_t life) noexcept {
  DCHECK(index <= 0xffff);
  return (std::uint64_t{index} << 48) | (std::uint64_t{life & 0x3fff} << 32);
}

struct QueuePairPlace {
  PeerLink* link = nullptr;
  Path* path = nullptr;
  std::uint32_t index = 0;  // in the path: 0 is express
};

// Whether the completion of a message's part ends its stripe.
enum class Ends : std::uint8_t { Nothing, Stripe };

// The depths of a queue pair's two queues, in work requests. The sender of messages takes no
// announcements, and the receiver sends nothing but rows: credits on the express queue pair, and
// window words on each.
struct QueueDepths {
  std::uint32_t send = 0, receive = 0;
};
QueueDepths depths_of(const TransferPolicy& policy, LinkRole role, std::uint32_t index) noexcept;

// The bytes that may lie inline in a work request: of a message, and of a row, which always does.
struct InlineBytes {
  std::uint32_t data = 0, rows = kCreditBytesMax;
};

// The note of a posted work request until it completes. 0: a row, or data that goes apart.
// Otherwise its request, tagged in the low bits. kWhole: a whole small message.
// kUniform and the stripe's number: a stripe of a uniform message. The number plus one: a stripe of
// a message that several paths share. No tag: a part.
struct Mark {
  static constexpr std::uintptr_t kUniform = 1, kWhole = 2, kNumberStep = 4,
                                  kTags = alignof(Request) - 1;
  static_assert(kStripesTold * kNumberStep <= kTags);
  static constexpr std::uintptr_t kFirstShared = kNumberStep;
  std::uintptr_t word = 0;

  static Mark of(const Request& request, std::uintptr_t tags) noexcept {
    DCHECK((tags & ~kTags) == 0);
    return {reinterpret_cast<std::uintptr_t>(&request) | tags};
  }
  Request* request() const noexcept { return reinterpret_cast<Request*>(word & ~kTags); }
  bool is_row() const noexcept { return word == 0; }
  bool is_uniform() const noexcept { return (word & kUniform) != 0; }
  bool is_whole() const noexcept { return (word & kWhole) != 0; }
  bool is_part() const noexcept { return word != 0 && (word & kTags) == 0; }
  bool is_shared() const noexcept {
    return (word & (kUniform | kWhole)) == 0 && (word & kTags) != 0;
  }
  Request& whole() const noexcept { return *reinterpret_cast<Request*>(word - kWhole); }
  std::uint32_t number() const noexcept {
    DCHECK(is_uniform());
    return static_cast<std::uint32_t>((word & kTags) / kNumberStep);
  }
  std::uint32_t shared_number() const noexcept {
    DCHECK(is_shared());
    return static_cast<std::uint32_t>(((word & kTags) - kFirstShared) / kNumberStep);
  }
};

class QueuePair {
 public:
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  virtual ~QueuePair() = default;  // no other virtual call is on a message's way

  // ---- Posting.
  bool has_room(std::uint32_t count) const noexcept { return room_.has(count); }
  // Takes reserved room for one post with a doorbell of its own. Returns false if it must be
  // staged.
  bool try_take_one() noexcept { return reservation_.take(); }
  // Stages a small write, whose bytes the caller fills in at the returned address before ring().
  // The caller asked has_room().
  inline std::uint64_t* stage_row(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;
  // Rings one doorbell for what is staged, one at least; if it is refused, the path is lost.
  // (queue_pair_datapath.h)
  void ring() noexcept;
  [[gnu::noinline]] bool ring_full() noexcept;  // ring(), out of line; true: the chain has room

  // ---- Completions, from the device context.
  void retire_through(std::uint32_t count) noexcept;  // (queue_pair_datapath.h)
  void on_receives(std::uint32_t count) noexcept {    // as many announcements have come
    if (receives_.take(count)) [[unlikely]]
      ask_for_return();
  }
  ReceiveQueue& receives() noexcept { return receives_; }
  const ReceiveQueue& receives() const noexcept { return receives_; }

  // ---- A lost path (holding the progress lock).
  void quarantine() noexcept;     // nothing more is staged or posted
  virtual void renew() noexcept;  // as new, for another verbs queue pair; still quarantined
  void open() noexcept;           // no longer quarantined

  // ---- Set-up and end.
  virtual void adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted);
  Status fill_receive_queue() noexcept { return receives_.fill(qp_.get()); }
  void
  drop_outstanding() noexcept;  // after the queue pair is destroyed: nothing can complete any more
  void set_started() noexcept { started_ = true; }  // left RESET: the peer may know it
  bool started() const noexcept { return started_; }
  void set_stopped() noexcept { stopped_ = true; }  // it is in ERR
  // Returns true in RESET or ERR, where the device sends and receives nothing with it.
  bool is_still() const noexcept { return stopped_ || !started_; }
  ibv_qp* verbs() const noexcept { return qp_.get(); }
  verbs::Provider& provider() const noexcept { return *qp_.provider(); }  // the one that made it
  verbs::QpHandle release() noexcept { return std::move(qp_); }  // for the caller to destroy

  // Posts an empty write, whose completion shows that the peer's device answers. Does nothing if
  // what is staged or under way will show it.
  void ask_answer() noexcept;
  // Returns true if a completion is still to come. An acceptor's rows complete only behind a
  // signaled one.
  bool owes_completion() const noexcept {
    return rows_only_ ? signaled_ > retired() : outstanding() != 0;
  }
  // Returns a count that grows with each answer of the peer's device and with what the peer sends.
  std::uint64_t signs_of_peer() const noexcept { return retired() + receives_.taken(); }

  // Returns true if a posted work request of this request has not completed.
  bool carries(const Request& request) const noexcept;
  // For one of the last sq_depth() posted work requests: the request that it was a part of, or
  // null; and its stripe, while that request is there, which must not be null.
  const Request* request_at(std::uint64_t at) const noexcept {
    return ring_[at & ring_mask_].request();
  }
  StripeSpan span_at(std::uint64_t at) const noexcept;
  // Returns the bytes that it allocates for notes of posted work requests and for its doorbell
  // chain.
  static std::size_t note_bytes(LinkRole role, const QueueDepths& depths) noexcept;
  std::uint64_t outstanding() const noexcept { return room_.outstanding(); }
  std::uint64_t posted() const noexcept { return room_.posted(); }
  std::uint64_t retired() const noexcept { return room_.retired(); }
  void add_to(PathCounters* counters) const noexcept;
  PeerLink& link() const noexcept { return *place_.link; }
  Path& path() const noexcept { return *place_.path; }
  std::uint32_t index() const noexcept { return place_.index; }
  std::uint32_t sq_depth() const noexcept { return depths_.send; }
  const QueueDepths& depths() const noexcept { return depths_; }
  std::uint64_t id_base() const noexcept { return id_base_; }

  QueuePair* next_staged = nullptr;  // the loop's list of queue pairs to ring
  bool in_staged_list = false;
  bool window_due = false;  // on the loop's list of those that owe the peer a return

 protected:
  QueuePair(const TransferPolicy& policy, const QueuePairPlace& place);

  // The further note of a part, beside its mark.
  struct PostedPart {
    std::uint32_t counted_bytes = 0;  // as its path counts them
    Ends ends = Ends::Nothing;
    StripeSpan stripe;  // the stripe that it ends
  };
  [[gnu::noinline]] void empty_chain() noexcept;
  inline void ring_if_full() noexcept;
  inline void note(std::uint64_t at, Mark mark) noexcept;  // of a work request in the chain
  inline void finish_stripe(Request& request) noexcept;
  [[gnu::noinline]] void retire_part(std::uint64_t at) noexcept;
  [[gnu::noinline]] void refuse(int error) noexcept;
  // Posts an empty signaled write, whose wr_id has this mark. The caller asked has_room().
  void post_empty(std::uint64_t mark) noexcept;

  const QueuePairPlace place_;
  ProgressLoop& loop_;
  const QueueDepths depths_;
  const std::uint32_t signal_interval_, row_interval_;
  const std::uint32_t ring_mask_;
  const std::uint32_t counted_;  // all ones for a bulk queue pair, whose bytes its path counts
  const bool rows_only_;         // an acceptor's
  std::uint32_t inline_bytes_ = 0, cts_bytes_max_ = InlineBytes{}.rows;
  std::uint64_t id_base_ = 0;
  Reservation reservation_;  // an express one's; a link's bulk ones share one
  SendRoom room_;
  ReceiveQueue receives_;
  std::uint64_t bytes_posted_ = 0;  // of small messages; its path counts the others' bytes
  std::uint64_t doorbells_ = 0, completions_ = 0;
  std::uint64_t signaled_ = 0;  // an acceptor's: posted() when the last signaled one was staged
  bool signal_next_ = false;
  bool started_ = false, stopped_ = false;
  bool refused_ = false;           // a post was refused; nothing is posted any more
  std::vector<Mark> ring_;         // by posted count
  std::vector<PostedPart> parts_;  // by posted count, where a mark says so; a connector's
  verbs::WrSingle single_;         // a message, or a credit, with a doorbell of its own
  verbs::WrChain chain_;
  verbs::QpHandle qp_;

 private:
  [[gnu::noinline]] void ask_for_return() noexcept;
  inline void finish_shared(Request& request) noexcept;
  inline void signal_chain() noexcept;
  [[gnu::noinline]] void signal_between() noexcept;
};

}  // namespace mesh::engine
