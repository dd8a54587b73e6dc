#pragma once
// One RC queue pair of a peer link as the loop uses it: doorbell chain, what each posted work
// request is for, receives. There are three ways to post what belongs to a message: small (a whole
// message on an express queue pair), uniform (a stripe that is one work request, on a bulk one) and
// span (any part of any stripe, also of one that goes out again). Sends are retired in order by
// cumulative count, so an unsignaled work request costs nothing but its entry here. Thread: loop
// (token). Set-up calls: control mutex and token. Bounds: those of SendRoom.

#include <mesh/metrics.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/path.h"
#include "engine/data/promise.h"
#include "engine/data/request.h"
#include "engine/data/send_room.h"
#include "engine/data/span.h"
#include "engine/message/stripe.h"
#include "engine/message/wire.h"
#include "src/base/check.h"
#include "src/verbs/handle.h"
#include "src/verbs/wr_chain.h"
#include "src/verbs/wr_rows.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

class Lane;
class PeerLink;
class ProgressLoop;

// wr_id: table index 16 | receive 1 | life 15 | count 32. A completion that outlives its queue pair
// finds another life.
inline constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 47;
constexpr std::uint64_t wr_id_base(std::uint32_t index, std::uint32_t life) noexcept {
  DCHECK(index <= 0xffff);
  return (std::uint64_t{index} << 48) | (std::uint64_t{life & 0x7fff} << 32);
}

struct QueuePairPlace {
  PeerLink* link = nullptr;
  Path* path = nullptr;
  std::uint32_t index = 0;  // in the path: 0 is express
};

// What the completion of a part of a message ends.
enum class Ends : std::uint8_t { Nothing, Stripe };

// How much of a work request's bytes may lie in it: of a message, and of a row, which always does.
struct InlineBytes {
  std::uint32_t data = 0, rows = kCreditBytesMax;
};

// What the end of a stripe takes at most: its data, the record, and an announcement by itself.
inline constexpr std::uint32_t kStripeEnd = 3;

// What a work request is noted as until it completes. A row: nothing. Else its request, and with it
// kWhole for a whole message on an express queue pair, kUniform and the stripe's number for a
// stripe of a uniform message, that number and one for a stripe of a message that several paths
// share, or no tag for anything else: a part.
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
  QueuePair(const TransferPolicy& policy, const QueuePairPlace& place);

  // ---- Room. What was taken from the promise is there, in the send queue and the window.
  bool has_room(std::uint32_t count) const noexcept { return room_.has(count); }
  // May one more announcement be outstanding?
  bool window_open() noexcept { return room_.window_open(); }
  // Of an express one, for stage_small() and stage_credits().
  bool take_small() noexcept { return promise_.take() || promise_small(); }
  bool take_row() noexcept { return promise_.take() || promise_rows(); }
  // The same for post_small() and post_credit(), without a look. False: it is not known; stage it.
  bool take_one() noexcept { return promise_.take(); }
  // Of a bulk one: so many stripes of one work request may be posted now, and have a place in the
  // chain.
  std::uint32_t stripes_left() noexcept;
  // Before so many are staged with stage_small(), at most as many as the chain holds.
  void make_chain_room(std::uint32_t count) noexcept {
    if (!chain_.has_room(count)) [[unlikely]]
      empty_chain();
  }

  // ---- Staging: nothing is posted before ring().
  struct Small {
    verbs::LocalSource source;  // not empty
    verbs::RemoteTarget target;
    Request* request = nullptr;
    std::uint32_t imm = 0;
    std::uint32_t inline_bytes = 0;  // of the source's region
  };
  // A whole message on an express queue pair. The caller counts it in its channel's outstanding.
  inline void stage_small(const Small& message) noexcept;
  struct Uniform {
    verbs::LocalSource source;  // not empty
    verbs::RemoteTarget target;
    std::uint32_t imm = 0;
    std::uintptr_t mark = 0;  // see Mark
  };
  // A stripe on a bulk one, taken from the promise of all of them. The caller counts the message,
  // once, in its channel's outstanding and its path's bytes; one that several paths share stripe by
  // stripe.
  inline void stage_uniform(const Uniform& stripe) noexcept;
  // The rest of a message that several paths share, when it is no whole stripe: noted as a part.
  inline void stage_rest(const Uniform& stripe, const StripeSpan& span) noexcept;
  void shorten_last(std::uint32_t bytes) noexcept {
    chain_.shorten_last(bytes);
  }  // the one that was staged last
  struct Part {
    verbs::LocalSource source;
    verbs::RemoteTarget target;
    Request* request = nullptr;
    Ends ends = Ends::Nothing;  // unless nothing: announced with the request's immediate
    StripeSpan stripe{};        // which it ends
    std::uint32_t inline_bytes = 0;
  };
  // Has it room, in the chain too, for all that a stripe takes that goes apart?
  bool has_apart_room() noexcept {
    make_chain_room(kStripeEnd);
    return has_room(kStripeEnd) && window_open();
  }
  // The data of such a stripe on a bulk one, counted as stage_uniform()'s, and then on the same one
  // what announces it and ends it. The caller asked has_apart_room().
  inline void stage_apart(const Uniform& stripe) noexcept;
  inline void stage_announcement(const Uniform& stripe) noexcept;
  // A part of a span. The caller asked has_room() and, if it ends its stripe, window_open(), and
  // counts it in its channel's outstanding.
  inline void stage_part(const Part& part) noexcept;
  // A small write, at most row_bytes_max(), whose bytes the caller fills in at the address
  // returned, before ring(). Credits were taken from the promise; for others the caller asked
  // has_room().
  inline std::uint64_t* stage_credits(std::uint32_t bytes,
                                      const verbs::RemoteTarget& target) noexcept;
  inline std::uint64_t* stage_row(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;
  bool staged() const noexcept { return chain_.staged() != 0; }
  // Rows for places that follow one another, which are posted at once by who has just taken the
  // token and finds nothing staged: at most as many as there is said to be room for, and as
  // kRowsMax. The caller fills the words first.
  static constexpr std::uint32_t kRowsMax = verbs::WrRows::kBytesMax / kCreditHalfBytes;
  bool has_row_room(std::size_t rows) noexcept {
    return promise_.covers(rows) || find_row_room(rows);
  }
  std::uint64_t* row_words() noexcept { return rows_.words(); }
  inline void post_rows(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;

  // ---- While nothing is staged: one work request with a doorbell of its own, after take_one().
  // False: it was refused.
  inline bool post_small(const Small& message) noexcept;
  void set_row_bytes(std::uint32_t bytes) noexcept {
    DCHECK(bytes != 0 && bytes <= row_bytes_max_);
    row_.gather().length = bytes;
  }  // of all credits that are posted so
  // The words are to be filled, and then posted.
  inline std::uint64_t* credit_to(const verbs::RemoteTarget& target) noexcept;
  inline bool post_credit() noexcept;
  // One doorbell for what is staged, at least one; a refusal fails the link.
  // (queue_pair_datapath.h)
  void ring() noexcept;
  [[gnu::noinline]] bool ring_full() noexcept;  // the same, out of line; true: the chain has room

  // ---- Completions, from the lane.
  void retire_through(std::uint32_t count) noexcept;  // (queue_pair_datapath.h)
  void on_receive() noexcept {  // one announcement was taken from the receive queue
    DCHECK(announcements_taken() + flushed_ < reposted_);
    if (--to_return_ < 0) [[unlikely]]
      ask_for_return();
  }
  void on_receives(std::uint32_t count) noexcept {
    DCHECK(announcements_taken() + flushed_ + count <= reposted_);
    to_return_ -= count;
    if (to_return_ < 0) ask_for_return();
  }
  bool return_window() noexcept;  // reposts and tells the peer; false: wants to be asked again

  // ---- A lost path (queue_pair_loss.cc; holding the token).
  void quarantine() noexcept;  // nothing more is staged or posted
  void on_receive_flushed() noexcept {
    ++flushed_;
    DCHECK(announcements_taken() + flushed_ <= reposted_);
  }
  bool drained() const noexcept {
    return announcements_taken() + flushed_ == reposted_;
  }  // stopped, and every receive was polled
  std::uint64_t announcements_taken() const noexcept {
    return return_at_ - 1 - static_cast<std::uint64_t>(to_return_);
  }
  // The receiver has taken so many announcements: what they covered is completed, the rest of the
  // stripes is lost and for other queue pairs. Nothing is outstanding afterwards. Only a count that
  // may be true.
  bool may_have_taken(std::uint64_t taken) const noexcept;
  void account_lost(std::uint64_t taken, std::vector<Span>* lost);
  void renew() noexcept;  // as new, for another verbs queue pair; still quarantined
  // A write of no bytes shows whether anything gets through, and one of the source's bytes behind
  // it whether full packets do; without bytes there is no second one. Nothing is outstanding. 0, or
  // the error of a refusal.
  int post_probe(const verbs::LocalSource& source, const verbs::RemoteTarget& target) noexcept;
  bool full_packet_hangs() const noexcept {
    return full_probe_ != 0 && retired() + 1 == full_probe_;
  }
  void open() noexcept;  // no longer quarantined

  // ---- Set-up and end.
  Status fill_receive_queue() noexcept;  // in state INIT or later
  void adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted);
  void set_window_words(std::uint64_t* words) noexcept {
    DCHECK(!rows_only_);
    DCHECK(reinterpret_cast<std::uintptr_t>(words) % alignof(std::uint64_t) == 0);
    room_.set_window_words(words);
  }  // connector: written by the peer
  void set_peer_window(const verbs::RemoteTarget& target) noexcept {
    DCHECK(rows_only_);
    peer_window_ = target;
  }  // acceptor
  void
  drop_outstanding() noexcept;  // after the queue pair is destroyed: nothing can complete any more
  void set_started() noexcept { started_ = true; }  // left RESET: the peer may know it
  bool started() const noexcept { return started_; }
  void set_stopped() noexcept { stopped_ = true; }  // it is in ERR
  // In RESET or ERR: the device sends and receives nothing with it.
  bool is_still() const noexcept { return stopped_ || !started_; }
  ibv_qp* verbs() const noexcept { return qp_.get(); }
  verbs::Provider& provider() const noexcept { return *qp_.provider(); }  // which made it
  verbs::QpHandle release() noexcept { return std::move(qp_); }  // for the caller to destroy

  // Whether a posted work request of it is not completed.
  bool carries(const Request& request) const noexcept;
  // Of one of the last sq_depth() that were posted: the request whose part it was, or null; and the
  // stripe, while that request is there.
  const Request* request_at(std::uint64_t at) const noexcept {
    return ring_[at & ring_mask_].request();
  }
  StripeSpan span_at(std::uint64_t at) const noexcept;
  std::uint64_t outstanding() const noexcept { return room_.outstanding(); }
  std::uint64_t posted() const noexcept { return room_.posted(); }
  std::uint64_t retired() const noexcept { return room_.retired(); }
  void signal_next_doorbell() noexcept {
    DCHECK(rows_only_);
    signal_next_ = true;
  }  // somebody waits for these rows to have landed
  void add_to(PathCounters* counters) const noexcept;
  PeerLink& link() const noexcept { return *place_.link; }
  Path& path() const noexcept { return *place_.path; }
  std::uint32_t index() const noexcept { return place_.index; }
  std::uint32_t rq_depth() const noexcept { return rq_depth_; }
  std::uint32_t sq_depth() const noexcept { return sq_depth_; }
  std::uint32_t row_bytes_max() const noexcept { return row_bytes_max_; }
  std::uint64_t id_base() const noexcept { return id_base_; }

  QueuePair* next_staged = nullptr;  // the loop's list of queue pairs to ring
  bool in_staged_list = false;
  bool window_due = false;  // on the loop's list of those that owe the peer a return

 private:
  // What is noted of a part, beside its mark.
  struct PostedPart {
    std::uint32_t counted_bytes = 0;  // by the path
    Ends ends = Ends::Nothing;
    StripeSpan stripe;  // which it ends
  };
  const PostedPart* part_at(std::uint64_t at) const noexcept;  // null: none
  bool announces_at(std::uint64_t at) const noexcept;
  [[gnu::noinline]] bool promise_small() noexcept;
  [[gnu::noinline]] bool promise_rows() noexcept;
  // The room may be there where it cannot be promised: see promise_rows().
  [[gnu::noinline]] bool find_row_room(std::size_t rows) noexcept {
    if (!promise_rows()) return false;
    promise_.put_back();
    if (promise_.covers(rows)) return true;
    promise_.withdraw();
    return room_.left() >= rows;
  }
  [[gnu::noinline]] void empty_chain() noexcept;
  [[gnu::noinline]] void ask_for_return() noexcept;
  inline void ring_if_full() noexcept;
  inline void note(std::uint64_t at, Mark mark) noexcept;  // of one in the chain
  void retire(std::uint64_t at) noexcept;
  void count_apart(Request& request) noexcept;
  Span lose(std::uint64_t at) noexcept;
  inline void finish_stripe(Request& request) noexcept;
  inline void finish_shared(Request& request) noexcept;
  [[gnu::noinline]] void retire_part(std::uint64_t at) noexcept;
  void set_return_at(std::uint64_t taken) noexcept {
    to_return_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_return_) +
                                           (taken - return_at_));  // wraps: a difference
    return_at_ = taken;
  }
  std::uint64_t open_announcements() const noexcept;
  void signal_chain() noexcept;
  [[gnu::noinline]] void signal_between() noexcept;
  // Or not at all, as in ring().
  [[gnu::noinline]] void post_rows_signaled(const verbs::RemoteTarget& target) noexcept {
    if (refused_) return;
    signaled_ = room_.posted();
    signal_next_ = false;
    ++doorbells_;
    const std::uint64_t wr_id = id_base_ | static_cast<std::uint32_t>(signaled_);
    if (const int error = rows_.post_signaled(qp_.get(), target, wr_id); error != 0) refuse(error);
  }
  Status post_receives(std::uint32_t count) noexcept;
  [[gnu::noinline]] void refuse(int error) noexcept;

  const QueuePairPlace place_;
  ProgressLoop& loop_;
  const std::uint32_t sq_depth_, rq_depth_, signal_interval_, row_interval_;
  const std::uint32_t ring_mask_;
  const std::uint32_t counted_;  // all ones for a bulk queue pair, whose bytes its path counts
  const bool rows_only_;         // an acceptor's
  std::uint32_t inline_bytes_ = 0, row_bytes_max_ = InlineBytes{}.rows;
  std::uint64_t id_base_ = 0;
  Promise promise_;  // an express one's; the bulk ones of a link have one together
  SendRoom room_;
  std::uint64_t reposted_ = 0;      // receives ever posted
  std::uint64_t flushed_ = 0;       // receives that ended without an announcement
  std::uint64_t return_at_ = 0;     // announcements taken from which on a quarter is posted again
  std::int64_t to_return_ = -1;     // below 0 from then on; it is what counts those taken
  std::uint64_t bytes_posted_ = 0;  // of an express one; its path knows the others'
  std::uint64_t doorbells_ = 0, completions_ = 0;
  std::uint64_t signaled_ = 0;  // an acceptor's: posted when the last signaled one was staged
  // An acceptor's: posted when the last word of a round of window words was staged.
  std::uint64_t window_round_end_ = 0;
  // A connector's: what was posted with the probe of full packets; 0: there is none.
  std::uint64_t full_probe_ = 0;
  bool signal_next_ = false;
  bool started_ = false, stopped_ = false;
  bool refused_ = false;  // a post was; nothing is posted any more
  verbs::RemoteTarget peer_window_;
  std::vector<Mark> ring_;             // by posted count
  std::vector<PostedPart> parts_;      // likewise, where a mark says so
  std::vector<ibv_recv_wr> receives_;  // a chain of a quarter window, posted again and again
  verbs::WrSingle message_, row_;
  verbs::WrRows rows_;
  verbs::WrChain chain_;
  verbs::QpHandle qp_;
};

}  // namespace mesh::engine
