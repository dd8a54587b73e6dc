#pragma once
// The way of a healthy message, as code that isend, irecv and test become one function of each:
// what they do with the token held costs no call but those of verbs. Everything that is rare lies
// behind a call into the .cc files, and is kept there (gnu::noinline in its declaration): its frame
// would be paid by every message. Thread: loop (token), and NCCL's for submit and try_turn. Include
// it only where the loop is turned.

#include "engine/data/completions.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "engine/data/staging.h"
#include "src/base/check.h"

#include <atomic>
#include <cstdint>

namespace mesh::engine {

// ---- Token. seq_cst: of "mail left" and "token released" at least one side sees the other's.

inline bool ProgressLoop::try_acquire() noexcept {
  std::uint32_t free = 0;  // neither held nor wanted by a Guard
  return token_.compare_exchange_strong(free, kHeld, std::memory_order_seq_cst,
                                        std::memory_order_seq_cst);
}

inline void ProgressLoop::release() noexcept { token_.fetch_sub(kHeld, std::memory_order_seq_cst); }

inline void ProgressLoop::after_release() noexcept {
  if (mailbox_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    answer_mail();
}

// ---- Channels.

// Is the next credit the request's?
inline bool SendChannel::fits(const Request& request, const NearCredit& credit) noexcept {
  return request.tag == credit.tag && request.bytes <= credit.bytes;
}
// It has bytes, and few.
inline bool SendChannel::is_small(const Request& request) const noexcept {
  return request.bytes - 1 < express_bytes_;
}

inline QueuePair::Data SendChannel::whole_message(Request& request,
                                                  const NearCredit& credit) noexcept {
  ++outstanding;
  request.expected = cursor_.imm();
  return {.source = {.address = request.address,
                     .bytes = static_cast<std::uint32_t>(request.bytes),
                     .lkey = request.region->keys(express_rail_).lkey},
          .target = {.address = credit.address, .rkey = credit.rkey},
          .request = &request,
          .imm = cursor_.imm(),
          .ends = Ends::Message,
          .stripe = {}};
}

inline bool SendChannel::next_credit(NearCredit* credit) noexcept {
  return read_near(row(), cursor_.generation(), credit) &&
         (!far_ || read_far_key(row(), cursor_.generation(), express_path_, &credit->rkey));
}

// The only send that is there. False: it is not that simple. Who has just taken the token finds
// nothing staged.
inline bool SendChannel::post_at_once(Request& request) noexcept {
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (odd_ || sequence + 1 != submitted.load(std::memory_order_relaxed)) return false;
  NearCredit credit;
  QueuePair& express = *express_;
  if (!next_credit(&credit) || !fits(request, credit) || !is_small(request) || !express.take_one())
    return false;
  DCHECK(!express.in_staged_list);
  const QueuePair::Data message = whole_message(request, credit);
  cursor_.step();
  accepted.store(sequence + 1, std::memory_order_relaxed);
  return express.post_message(message);
}

// Most messages: the next send's credit is there, and one work request on the express queue pair
// carries it.
inline bool SendChannel::advance(bool in_turn) noexcept {
  if (odd_) [[unlikely]]
    return advance_oddly(in_turn);
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  const std::uint64_t stop =
      limit - sequence > kMessagesPerVisit ? sequence + kMessagesPerVisit : limit;
  while (sequence != stop) {
    NearCredit credit;
    if (!next_credit(&credit)) {
      loop.counters.credit_stalls.add(1);
      return true;
    }
    Request& next = request(sequence);
    if (!fits(next, credit)) [[unlikely]]
      return advance_oddly(in_turn);
    if (is_small(next) && express_->has_room_for_message()) [[likely]] {
      express_->stage_message(whole_message(next, credit));
    } else if (!post_large(next, {.address = credit.address, .rkey = credit.rkey})) {
      return advance_oddly(in_turn);
    }
    cursor_.step();
    accepted.store(++sequence, std::memory_order_relaxed);
  }
  return sequence != limit;
}

inline void RecvChannel::write_credit(Request& request, std::uint32_t imm,
                                      std::uint64_t* words) noexcept {
  request.expected = imm;
  request.generation = cursor_.generation();
  const std::uint32_t rkey = request.region == nullptr ? 0 : request.region->keys(first_rail_).rkey;
  encode_near(words,
              {.first = request.address, .second = request.bytes, .third = join(request.tag, rkey)},
              cursor_.generation());
  if (path_count_ > 1) [[unlikely]]
    write_far_keys(request, words);
}

// The only receive that is there. False: it is not that simple.
inline bool RecvChannel::post_at_once(Request& request) noexcept {
  // The channel may have failed since NCCL's thread looked; who fails it has accepted all there was
  // and will not come again.
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) [[unlikely]]
    return false;
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (sequence + 1 != submitted.load(std::memory_order_relaxed) || !express_->take_one())
    return false;
  DCHECK(!express_->in_staged_list);
  accepted.store(sequence + 1, std::memory_order_relaxed);
  QueuePair& express = *express_;
  std::uint64_t* const words =
      express.row_to({.address = cursor_.address(), .rkey = credits_rkey_});
  write_credit(request, cursor_.imm(), words);
  cursor_.step();
  return express.post_row();
}

inline bool RecvChannel::advance() noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) [[unlikely]]
    return fail_new(limit);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  while (sequence != limit) {
    if (!express_->has_room_for_row()) [[unlikely]] {
      loop.counters.queue_stalls.add(1);
      return true;
    }
    sequence = give_credits(sequence, limit);
    accepted.store(sequence, std::memory_order_relaxed);
  }
  return false;
}

// Rows that follow each other in the ring go in one write: as many as fit into it and into the
// ring's rest.
inline std::uint64_t RecvChannel::give_credits(std::uint64_t sequence,
                                               std::uint64_t limit) noexcept {
  std::uint64_t rows = limit - sequence;
  if (rows > rows_per_write_) rows = rows_per_write_;
  if (rows > cursor_.slots_left()) rows = cursor_.slots_left();
  const std::uint32_t row_bytes = cursor_.row_bytes();
  std::uint64_t* words = express_->stage_row(static_cast<std::uint32_t>(rows) * row_bytes,
                                             {.address = cursor_.address(), .rkey = credits_rkey_});
  std::uint32_t imm = cursor_.imm();
  for (const std::uint64_t end = sequence + rows; sequence != end; ++sequence) {
    write_credit(request(sequence), imm, words);
    imm += RingCursor::kImmStep;
    words += row_bytes / sizeof(std::uint64_t);
  }
  cursor_.skip(static_cast<std::uint32_t>(rows));
  return sequence;
}

// ---- Turns.

inline bool advance_now(SendChannel& channel) noexcept { return channel.advance(false); }
inline bool advance_now(RecvChannel& channel) noexcept { return channel.advance(); }

inline void ProgressLoop::visit(Channel& channel) noexcept {
  const bool again = channel.side == Side::Send ? advance_now(static_cast<SendChannel&>(channel))
                                                : advance_now(static_cast<RecvChannel&>(channel));
  if (again) activate(channel);
}

template <typename Kind>
[[gnu::flatten, gnu::noinline]] void ProgressLoop::visit_and_ring(Kind& channel) noexcept {
  if (advance_now(channel)) activate(channel);
  ring_staged();
}

template <typename Kind>
inline void ProgressLoop::submit(Kind& channel, Request& request) noexcept {
  if (try_acquire()) [[likely]] {
    if (!channel.post_at_once(request)) visit_and_ring<Kind>(channel);
    release();
  } else {
    mailbox_.fetch_or(std::uint64_t{1} << channel.mail_bit, std::memory_order_seq_cst);
  }
  after_release();
}

inline void ProgressLoop::poll_once(Channel* first) noexcept {
  ++turns_;
  // Completions first: they make room in queues and windows for all that follows. One queue is what
  // most hosts have: no loop then.
  if (sources_.size() == 1) [[likely]] {
    const std::uint32_t taken = sources_.front().lane->poll(sources_.front().queue);
    events_ += taken;
    if (taken == kPollBatch) [[unlikely]]
      poll_on(sources_.front());
  } else {
    for (const Source& source : sources_) poll_on(source);
  }
  if (has_work_ || (first != nullptr && first->has_new())) work(first);
}

inline bool ProgressLoop::try_turn(Channel* first) noexcept {
  if (!try_acquire()) return false;
  poll_once(first);
  release();
  after_release();
  return true;
}

}  // namespace mesh::engine
