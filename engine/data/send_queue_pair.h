#pragma once
// A connector's queue pair: messages go out on it. The first one of a path is express and carries
// small messages, the others are bulk and carry stripes, and small messages while they have no
// stripes under way. engine/README.md has the ways in which messages are posted. Thread: loop
// (progress lock). Set-up calls: control mutex and progress lock. Bounds: those of SendRoom.

#include "engine/data/path.h"
#include "engine/data/queue_pair.h"
#include "engine/data/request.h"
#include "engine/message/stripe.h"
#include "src/base/check.h"
#include "src/base/clock.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

class SendQueuePair;

// A stripe that is still to be posted, or the rest of one: an entry in its send channel's ledger.
// The first posting of a message and the replay of what a lost path has not carried use spans
// alike. Thread: loop (progress lock). Bounds: kStripesMax of a message under way; sq_depth of each
// queue pair of a lost path.
struct Span {
  Request* request = nullptr;
  StripeSpan stripe;
  std::uint64_t posted_bytes = 0;
  // The queue pair that carries the span. Null: nothing is posted, and any bulk one may carry it.
  SendQueuePair* queue_pair = nullptr;

  std::uint64_t left() const noexcept {
    DCHECK(posted_bytes <= stripe.bytes);
    return stripe.bytes - posted_bytes;
  }
};

// The most work requests at the end of a stripe: data, record, and an announcement by itself.
inline constexpr std::uint32_t kStripeEnd = 3;

class SendQueuePair final : public QueuePair {
 public:
  SendQueuePair(const TransferPolicy& policy, const QueuePairPlace& place)
      : QueuePair(policy, place) {
    DCHECK(!rows_only_);
  }
  // The caller knows that its link sends.
  static SendQueuePair& of(QueuePair& queue_pair) noexcept {
    auto& sender = static_cast<SendQueuePair&>(queue_pair);
    DCHECK(!sender.rows_only_);
    return sender;
  }
  void adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) override;
  void renew() noexcept override;
  void set_window_words(std::uint64_t* words) noexcept {  // written by the peer
    DCHECK(reinterpret_cast<std::uintptr_t>(words) % alignof(std::uint64_t) == 0);
    room_.set_window_words(words);
  }

  // ---- Room. Room taken from the reservation is there, in the send queue and in the window.
  // Returns true if one more announcement may be outstanding.
  bool window_open() noexcept { return room_.window_open(); }
  // Express only. Takes room for one stage_small().
  bool try_take_small() noexcept { return reservation_.take() || reserve_small(); }
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
  // Stages a whole small message, whose room the caller has taken: try_take_small(), or of a bulk
  // one BulkOrder::try_take_uniform(). The caller counts it in its channel's outstanding; no path
  // counts its bytes.
  inline void stage_small(const Small& message) noexcept;
  struct Uniform {
    verbs::LocalSource source;  // not empty
    verbs::RemoteTarget target;
    std::uint32_t imm = 0;
    std::uintptr_t mark = 0;  // a Mark's word
  };
  // Stages a stripe on a bulk one, taken from the reservation of all of them. The caller counts the
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

  // ---- While nothing is staged: posts one work request with a doorbell of its own, after
  // try_take_one(). Returns false if it was refused.
  inline bool post_small(const Small& message) noexcept;

  // ---- A lost path (holding the progress lock).
  // The receiver has taken this many announcements: what they covered is completed; the rest of the
  // stripes is lost, and goes to *lost for other queue pairs. Nothing is outstanding afterwards.
  // The count must be one of which may_have_taken() is true.
  bool may_have_taken(std::uint64_t taken) const noexcept;
  void account_lost(std::uint64_t taken, std::vector<Span>* lost);
  // Posts a write of no bytes, which shows whether anything gets through, and behind it a write of
  // the source's bytes, which shows whether full packets do; without bytes, no second one. Nothing
  // may be outstanding. Returns 0, or the error of a refusal.
  int post_probe(const verbs::LocalSource& source, const verbs::RemoteTarget& target) noexcept;
  // Posts an empty write whose completion shows the path's latency (path_latency.h). Does nothing
  // if there is no room for it. Nothing may be staged.
  void post_timed(const Clock& clock) noexcept;
  bool full_packet_hangs() const noexcept {
    return full_probe_ != 0 && retired() + 1 == full_probe_;
  }

 private:
  [[gnu::noinline]] bool reserve_small() noexcept;
  const PostedPart* part_at(std::uint64_t at) const noexcept;  // null: it is no part
  bool announces_at(std::uint64_t at) const noexcept;
  std::uint64_t open_announcements() const noexcept;
  void retire(std::uint64_t at) noexcept;
  void count_apart(Request& request) noexcept;
  Span lose(std::uint64_t at) noexcept;

  std::uint64_t full_probe_ = 0;  // posted() with the probe of full packets; 0: there is none
};

}  // namespace mesh::engine
