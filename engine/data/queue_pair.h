#pragma once
// One RC queue pair of a peer link as the loop uses it: its doorbell chain, what each posted work
// request is for, its receives. There are three ways to post what belongs to a message: small (a
// whole message on an express queue pair), uniform (a stripe that is one work request, on a bulk
// one) and span (any part of any stripe, also of one that goes out again). Sends are retired in
// order by cumulative count, so an unsignaled work request costs nothing but its entry here.
// Thread: loop (token). Set-up calls: control mutex and token. Bounds: those of SendRoom.

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

// Whether the completion of a message's part ends its stripe.
enum class Ends : std::uint8_t { Nothing, Stripe };

// The bytes that may lie inline in a work request: of a message, and of a row, which always does.
struct InlineBytes {
  std::uint32_t data = 0, rows = kCreditBytesMax;
};

// The most work requests at the end of a stripe: data, record, and an announcement by itself.
inline constexpr std::uint32_t kStripeEnd = 3;

// The note of a posted work request until it completes. 0: a row, or data that goes apart.
// Otherwise its request, tagged in the low bits. kWhole: a whole message on an express queue pair.
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
  QueuePair(const TransferPolicy& policy, const QueuePairPlace& place);

  // ---- Room. Room taken from the promise is there, in the send queue and in the window.
  bool has_room(std::uint32_t count) const noexcept { return room_.has(count); }
  // Returns true if one more announcement may be outstanding.
  bool window_open() noexcept { return room_.window_open(); }
  // Express only. Each takes room, for one stage_small() or for one stage_credits().
  bool take_small() noexcept { return promise_.take() || promise_small(); }
  bool take_row() noexcept { return promise_.take() || promise_rows(); }
  // Takes promised room for post_small() or post_credit(). Returns false if it must be staged.
  bool take_one() noexcept { return promise_.take(); }
  // Bulk only. Returns how many stripes of one work request may be posted now and have a place in
  // the chain.
  std::uint32_t stripes_left() noexcept;
  // Makes room for `count` calls of stage_small(), at most as many as the chain holds.
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
  // Stages a whole message on an express one. The caller counts it in its channel's outstanding.
  inline void stage_small(const Small& message) noexcept;
  struct Uniform {
    verbs::LocalSource source;  // not empty
    verbs::RemoteTarget target;
    std::uint32_t imm = 0;
    std::uintptr_t mark = 0;  // a Mark's word
  };
  // Stages a stripe on a bulk one, taken from the promise of all of them. The caller counts the
  // message once in its channel's outstanding and in its path's bytes; a message that several paths
  // share, it counts stripe by stripe.
  inline void stage_uniform(const Uniform& stripe) noexcept;
  // Stages the last, shorter stripe of a message that several paths share; it is noted as a part.
  inline void stage_rest(const Uniform& stripe, const StripeSpan& span) noexcept;
  void shorten_last(std::uint32_t bytes) noexcept {
    chain_.shorten_last(bytes);
  }  // the one that was staged last
  struct Part {
    verbs::LocalSource source;
    verbs::RemoteTarget target;
    Request* request = nullptr;
    Ends ends = Ends::Nothing;  // if a stripe: it is announced with the request's immediate
    StripeSpan stripe{};        // the stripe that it ends
    std::uint32_t inline_bytes = 0;
  };
  // Returns true if queue and chain have room for a whole stripe whose data goes apart.
  bool has_apart_room() noexcept {
    make_chain_room(kStripeEnd);
    return has_room(kStripeEnd) && window_open();
  }
  // Stage the data of such a stripe on a bulk one, counted as by stage_uniform(), and then on this
  // queue pair the announcement that ends it. The caller asked has_apart_room().
  inline void stage_apart(const Uniform& stripe) noexcept;
  inline void stage_announcement(const Uniform& stripe) noexcept;
  // Stages a part of a span. The caller asked has_room() and, if the part ends its stripe,
  // window_open(), and counts the part in its channel's outstanding.
  inline void stage_part(const Part& part) noexcept;
  // Each stages a small write of at most row_bytes_max(), whose bytes the caller fills in at the
  // returned address before ring(). Credits were taken from the promise; for other rows the caller
  // asked has_room().
  inline std::uint64_t* stage_credits(std::uint32_t bytes,
                                      const verbs::RemoteTarget& target) noexcept;
  inline std::uint64_t* stage_row(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;
  bool staged() const noexcept { return chain_.staged() != 0; }
  // Rows for consecutive places, posted at once by a caller that has just taken the token and so
  // finds nothing staged: at most as many as has_row_room() confirms, and as kRowsMax. The caller
  // fills row_words() before post_rows().
  static constexpr std::uint32_t kRowsMax = verbs::WrRows::kBytesMax / kCreditHalfBytes;
  bool has_row_room(std::size_t rows) noexcept {
    return promise_.covers(rows) || find_row_room(rows);
  }
  std::uint64_t* row_words() noexcept { return rows_.words(); }
  inline void post_rows(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;

  // ---- While nothing is staged: posts one work request with a doorbell of its own, after
  // take_one(). Returns false if it was refused.
  inline bool post_small(const Small& message) noexcept;
  void set_row_bytes(std::uint32_t bytes) noexcept {
    DCHECK(bytes != 0 && bytes <= row_bytes_max_);
    row_.gather().length = bytes;
  }  // the bytes of every credit that post_credit() posts
  // Returns the words of the credit, which the caller fills before post_credit().
  inline std::uint64_t* credit_to(const verbs::RemoteTarget& target) noexcept;
  inline bool post_credit() noexcept;
  // Rings one doorbell for what is staged, one at least; if it is refused, the path is lost.
  // (queue_pair_datapath.h)
  void ring() noexcept;
  [[gnu::noinline]] bool ring_full() noexcept;  // ring(), out of line; true: the chain has room

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
  bool return_window() noexcept;  // reposts, and tells the peer; false: call it again

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
  // The receiver has taken this many announcements: what they covered is completed; the rest of the
  // stripes is lost, and goes to *lost for other queue pairs. Nothing is outstanding afterwards.
  // The count must be one of which may_have_taken() is true.
  bool may_have_taken(std::uint64_t taken) const noexcept;
  void account_lost(std::uint64_t taken, std::vector<Span>* lost);
  void renew() noexcept;  // as new, for another verbs queue pair; still quarantined
  // Posts a write of no bytes, which shows whether anything gets through, and behind it a write of
  // the source's bytes, which shows whether full packets do; without bytes, no second one. Nothing
  // may be outstanding. Returns 0, or the error of a refusal.
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
  // Returns true in RESET or ERR, where the device sends and receives nothing with it.
  bool is_still() const noexcept { return stopped_ || !started_; }
  ibv_qp* verbs() const noexcept { return qp_.get(); }
  verbs::Provider& provider() const noexcept { return *qp_.provider(); }  // the one that made it
  verbs::QpHandle release() noexcept { return std::move(qp_); }  // for the caller to destroy

  // Returns true if a posted work request of this request has not completed.
  bool carries(const Request& request) const noexcept;
  // For one of the last sq_depth() posted work requests: the request that it was a part of, or
  // null; and its stripe, while that request is there.
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
  // The further note of a part, beside its mark.
  struct PostedPart {
    std::uint32_t counted_bytes = 0;  // as its path counts them
    Ends ends = Ends::Nothing;
    StripeSpan stripe;  // the stripe that it ends
  };
  const PostedPart* part_at(std::uint64_t at) const noexcept;  // null: it is no part
  bool announces_at(std::uint64_t at) const noexcept;
  [[gnu::noinline]] bool promise_small() noexcept;
  [[gnu::noinline]] bool promise_rows() noexcept;
  // Even what cannot be promised may have room: see promise_rows().
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
  inline void note(std::uint64_t at, Mark mark) noexcept;  // of a work request in the chain
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
  // Posts nothing after a refusal, as ring() does.
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
  Promise promise_;  // an express one's; a link's bulk ones share one
  SendRoom room_;
  std::uint64_t reposted_ = 0;      // receives ever posted
  std::uint64_t flushed_ = 0;       // receives that ended without an announcement
  std::uint64_t return_at_ = 0;     // announcements taken at which a quarter is posted again
  std::int64_t to_return_ = -1;     // below 0 from there on; it is what counts those taken
  std::uint64_t bytes_posted_ = 0;  // of an express one; its path counts the others' bytes
  std::uint64_t doorbells_ = 0, completions_ = 0;
  std::uint64_t signaled_ = 0;  // an acceptor's: posted() when the last signaled one was staged
  // An acceptor's: posted() when the last word of a round of window words was staged.
  std::uint64_t window_round_end_ = 0;
  // A connector's: posted() with the probe of full packets; 0: there is none.
  std::uint64_t full_probe_ = 0;
  bool signal_next_ = false;
  bool started_ = false, stopped_ = false;
  bool refused_ = false;  // a post was refused; nothing is posted any more
  verbs::RemoteTarget peer_window_;
  std::vector<Mark> ring_;             // by posted count
  std::vector<PostedPart> parts_;      // by posted count, where a mark says so
  std::vector<ibv_recv_wr> receives_;  // a chain of a quarter window, posted again and again
  verbs::WrSingle message_, row_;
  verbs::WrRows rows_;
  verbs::WrChain chain_;
  verbs::QpHandle qp_;
};

}  // namespace mesh::engine
