#pragma once
// The way of a healthy message, as code that isend, irecv and test become one function of each: what they do with the token
// held costs no call but those of verbs. Everything that is rare lies behind a call into the .cc files, and is kept there
// (gnu::noinline in its declaration): its frame would be paid by every message.
// Thread: loop (token), and NCCL's for submit and try_turn. Include it only where the loop is turned.

#include "engine/peer_link.h"
#include "engine/progress_loop.h"
#include "engine/registration.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace mesh::engine {

// ---- Token. seq_cst: of "mail left" and "token released" at least one side sees the other's.

inline bool ProgressLoop::try_acquire() noexcept {
  std::uint32_t free = 0;  // neither held nor wanted by a Guard
  return token_.compare_exchange_strong(free, kHeld, std::memory_order_seq_cst, std::memory_order_seq_cst);
}

inline void ProgressLoop::release() noexcept { token_.fetch_sub(kHeld, std::memory_order_seq_cst); }

inline void ProgressLoop::after_release() noexcept {
  if (mailbox_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    answer_mail();
}

// ---- Doorbells.

inline void ProgressLoop::add_staged(QueuePair& queue_pair) noexcept {
  has_work_ = true;
  queue_pair.in_staged_list = true;
  queue_pair.next_staged = staged_;
  staged_ = &queue_pair;
}

inline QueuePair::Posted& QueuePair::note() noexcept {
  if (!in_staged_list) loop_.add_staged(*this);
  return ring_[posted_++ & ring_mask_];
}

// Inlined where the caller knows what the data ends.
[[gnu::always_inline]] inline void QueuePair::stage(const Data& data, bool announced, bool is_long) noexcept {
  if (chain_.full()) [[unlikely]]
    ring_full();
  ibv_send_wr& wr = chain_.write(data.source, data.target, inline_bytes_);
  if (announced) {
    verbs::WrChain::announce(wr, data.imm);
    ++announced_;
  }
  if (is_long) spans_[posted_ & ring_mask_] = data.stripe;
  const std::uint32_t counted = data.source.bytes & counted_;
  note() = {.request = data.request, .counted_bytes = counted, .ends = data.ends};
  place_.path->bulk_posted += counted;
  bytes_posted_ += data.source.bytes;
  chain_has_data_ = true;
}

inline void QueuePair::stage_data(const Data& data) noexcept {
  stage(data, data.ends != kEndsNothing, data.ends == kEndsLongStripe);
}
inline void QueuePair::stage_announced(const Data& data) noexcept { stage(data, true, false); }

inline std::uint64_t* QueuePair::stage_row(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept {
  if (chain_.full()) [[unlikely]]
    ring_full();
  chain_.write_row(bytes, target);
  note().request = nullptr;
  return chain_.last_row();
}

inline bool QueuePair::post_message(const Data& data) noexcept {
  ibv_send_wr& wr = message_.wr();
  message_.gather() = {.addr = data.source.address, .length = data.source.bytes, .lkey = data.source.lkey};
  wr.send_flags = data.source.bytes <= inline_bytes_ ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = data.target.address;
  wr.wr.rdma.rkey = data.target.rkey;
  wr.imm_data = __builtin_bswap32(data.imm);  // network order on the wire
  ring_[posted_++ & ring_mask_] = {.request = data.request, .counted_bytes = 0, .ends = kEndsMessage};
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
  ++announced_;
  bytes_posted_ += data.source.bytes;
  ++doorbells_;
  const int error = message_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline bool QueuePair::post_row(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept {
  ibv_send_wr& wr = row_.wr();
  row_.gather().length = bytes;
  wr.wr.rdma.remote_addr = target.address;
  wr.wr.rdma.rkey = target.rkey;
  wr.send_flags = IBV_SEND_INLINE;
  ring_[posted_++ & ring_mask_].request = nullptr;
  if (posted_ - signaled_ >= row_interval_) [[unlikely]] {
    wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    signaled_ = posted_;
  }
  ++doorbells_;
  const int error = row_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline void QueuePair::ring() noexcept {
  if (refused_) [[unlikely]] {  // the link is about to fail; whatever was staged goes with it
    chain_.clear();
    return;
  }
  // Nobody waits for a row: its completion only makes room, so one in a quarter queue is enough.
  if (chain_has_data_ || posted_ - signaled_ >= row_interval_) signal_chain();
  ++doorbells_;
  if (const int error = chain_.post(qp_.get()); error != 0) [[unlikely]]
    refuse(error);
}

// The last one of a doorbell with data is signaled, so that whatever is posted completes without help from later traffic.
inline void QueuePair::signal_chain() noexcept {
  const std::uint32_t staged = chain_.staged();
  for (std::uint32_t i = signal_interval_; i < staged; i += signal_interval_)
    [[unlikely]] chain_.signal(i - 1, id_base_ | static_cast<std::uint32_t>(posted_ - staged + i));
  chain_.signal(staged - 1, id_base_ | static_cast<std::uint32_t>(posted_));
  signaled_ = posted_;
  chain_has_data_ = false;
}

inline void ProgressLoop::ring_staged() noexcept {
  while (staged_ != nullptr) {
    QueuePair& queue_pair = *staged_;
    staged_ = queue_pair.next_staged;
    queue_pair.in_staged_list = false;
    ++events_;
    queue_pair.ring();
  }
  if (has_refused_) [[unlikely]]
    fail_refused();
}

// ---- Completions.

inline void QueuePair::retire_through(std::uint32_t count) noexcept {
  ++completions_;
  std::uint64_t at = retired_;
  const std::uint32_t ended = count - static_cast<std::uint32_t>(at);
  if (ended == 0 || ended > posted_ - at) [[unlikely]]
    return;  // an older one than was seen already
  const std::uint64_t limit = at + ended;
  do {
    const Posted& entry = ring_[at & ring_mask_];
    if (entry.request == nullptr) continue;
    Request& request = *entry.request;
    place_.path->bulk_done += entry.counted_bytes;
    --request.channel->outstanding;
    if (entry.ends == kEndsMessage || ((entry.ends & kEndsStripe) != 0 && --request.open_stripes == 0)) request.complete_send();
  } while (++at != limit);
  retired_ = limit;
  room_end_ = limit + room_;
}

inline void RecvChannel::on_announcement(std::uint32_t imm, std::uint32_t bytes) noexcept {
  Request& slot = requests[slot_of(imm) & slot_mask];
  if (slot.expected != imm || bytes > slot.bytes) [[unlikely]] {
    on_odd_announcement(slot, imm, bytes);
    return;
  }
  count_received(slot, bytes);
  slot.complete(bytes);
}

inline void PeerLink::on_announcement(std::uint32_t imm, std::uint32_t bytes) noexcept {
  const std::uint32_t channel = channel_of(imm);
  RecvChannel* const found = channel < receiver_bound_ ? receivers_[channel] : nullptr;
  if (found == nullptr) [[unlikely]] {
    loop_.counters.late_announcements.add(1);
    return;
  }
  found->on_announcement(imm, bytes);
}

inline void Lane::dispatch(const ibv_wc& completion) noexcept {
  QueuePair* const found = by_place_[completion.wr_id >> 48];  // ids are ours: the place exists
  // Place and life: what is not a receive mark or a count.
  constexpr std::uint64_t kOther = kReceiveBit | 0xffff'ffff;
  if (found == nullptr || ((completion.wr_id ^ found->id_base()) & ~kOther) != 0) [[unlikely]]
    return;
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    found->link().on_error_completion(*found, completion);
    return;
  }
  if ((completion.wr_id & kReceiveBit) == 0) {
    found->retire_through(static_cast<std::uint32_t>(completion.wr_id));
    return;
  }
  found->on_receive();
  found->link().on_announcement(__builtin_bswap32(completion.imm_data), completion.byte_len);
}

inline std::uint32_t Lane::poll(ibv_cq* queue) noexcept {
  std::array<ibv_wc, kPollBatch> completions;
  const int count = ibv_poll_cq(queue, kPollBatch, completions.data());
  if (count < 0) [[unlikely]] {
    on_poll_failed();
    return 0;
  }
  for (int i = 0; i < count; ++i) dispatch(completions[static_cast<std::size_t>(i)]);
  return static_cast<std::uint32_t>(count);
}

// ---- Channels.

// Of the next credit: fits the request, and the express queue pair takes it now.
inline bool SendChannel::is_small(const Request& request, const NearCredit& credit) noexcept {
  return request.tag == credit.tag && request.bytes <= express_bytes_ && request.bytes <= credit.bytes && request.bytes != 0 &&
         express_->has_room(1) && express_->window_open();
}

inline QueuePair::Data SendChannel::whole_message(Request& request, const NearCredit& credit) noexcept {
  ++outstanding;
  request.expected = cursor_.imm();
  return {.source = {.address = request.address,
                     .bytes = static_cast<std::uint32_t>(request.bytes),
                     .lkey = request.region->keys(express_rail_).lkey},
          .target = {.address = credit.address, .rkey = credit.rkey},
          .request = &request,
          .imm = cursor_.imm(),
          .ends = kEndsMessage,
          .stripe = {}};
}

inline bool SendChannel::next_credit(NearCredit* credit) noexcept {
  return read_near(row(), cursor_.generation(), credit) &&
         (express_path_ == 0 || read_far_key(row(), cursor_.generation(), express_path_, &credit->rkey));
}

// The only send that is there. False: it is not that simple.
inline bool SendChannel::post_at_once(Request& request) noexcept {
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (odd_ || sequence + 1 != submitted.load(std::memory_order_relaxed) || express_->in_staged_list) return false;
  NearCredit credit;
  if (!next_credit(&credit) || !is_small(request, credit)) return false;
  accepted.store(sequence + 1, std::memory_order_relaxed);
  const QueuePair::Data message = whole_message(request, credit);
  cursor_.step();
  return express_->post_message(message);
}

// Most messages: the next send's credit is there, and one work request on the express queue pair carries it.
inline bool SendChannel::advance(bool in_turn) noexcept {
  if (odd_) [[unlikely]]
    return advance_oddly(in_turn);
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  const std::uint64_t stop = limit - sequence > kMessagesPerVisit ? sequence + kMessagesPerVisit : limit;
  while (sequence != stop) {
    NearCredit credit;
    if (!next_credit(&credit)) {
      loop.counters.credit_stalls.add(1);
      return true;
    }
    Request& next = request(sequence);
    if (!is_small(next, credit)) [[unlikely]]
      return advance_oddly(in_turn);
    express_->stage_announced(whole_message(next, credit));
    cursor_.step();
    accepted.store(++sequence, std::memory_order_relaxed);
  }
  return sequence != limit;
}

inline void RecvChannel::write_credit(Request& request, std::uint64_t* words) noexcept {
  request.announced = 0;
  request.expected = cursor_.imm();
  request.generation = cursor_.generation();
  const std::uint32_t rkey = request.region == nullptr ? 0 : request.region->keys(first_rail_).rkey;
  encode_near(words, {.first = request.address, .second = request.bytes, .third = join(request.tag, rkey)}, cursor_.generation());
  if (path_count_ > 1) [[unlikely]]
    write_far_keys(request, words);
  cursor_.step();
}

// The only receive that is there. False: it is not that simple.
inline bool RecvChannel::post_at_once(Request& request) noexcept {
  // The channel may have failed since NCCL's thread looked; who fails it has accepted all there was and will not come again.
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) [[unlikely]]
    return false;
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (sequence + 1 != submitted.load(std::memory_order_relaxed) || express_->in_staged_list || !express_->has_room(1)) return false;
  const verbs::RemoteTarget target{.address = credits_address_ + cursor_.offset(), .rkey = credits_rkey_};
  write_credit(request, express_->row_to_post());
  accepted.store(sequence + 1, std::memory_order_relaxed);
  return express_->post_row(cursor_.row_bytes(), target);
}

inline bool RecvChannel::advance() noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) [[unlikely]]
    return fail_new(limit);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  while (sequence != limit) {
    if (!express_->has_room(1)) [[unlikely]] {
      loop.counters.queue_stalls.add(1);
      return true;
    }
    sequence = give_credits(sequence, limit);
    accepted.store(sequence, std::memory_order_relaxed);
  }
  return false;
}

// Rows that follow each other in the ring go in one write: as many as fit into it and into the ring's rest.
inline std::uint64_t RecvChannel::give_credits(std::uint64_t sequence, std::uint64_t limit) noexcept {
  std::uint64_t rows = limit - sequence;
  if (rows > rows_per_write_) rows = rows_per_write_;
  if (rows > cursor_.slots_left()) rows = cursor_.slots_left();
  const std::uint32_t row_bytes = cursor_.row_bytes();
  std::uint64_t* words = express_->stage_row(static_cast<std::uint32_t>(rows) * row_bytes,
                                             {.address = credits_address_ + cursor_.offset(), .rkey = credits_rkey_});
  for (const std::uint64_t end = sequence + rows; sequence != end; ++sequence) {
    write_credit(request(sequence), words);
    words += row_bytes / sizeof(std::uint64_t);
  }
  return sequence;
}

// ---- Turns.

inline void ProgressLoop::visit(Channel& channel) noexcept {
  const bool again =
      channel.side == Side::Send ? static_cast<SendChannel&>(channel).advance(false) : static_cast<RecvChannel&>(channel).advance();
  if (again) activate(channel);
}

template <typename Kind>
inline void ProgressLoop::submit(Kind& channel, Request& request) noexcept {
  if (try_acquire()) [[likely]] {
    if (!channel.post_at_once(request)) visit_and_ring(channel);
    release();
  } else {
    mailbox_.fetch_or(std::uint64_t{1} << channel.mail_bit, std::memory_order_seq_cst);
  }
  after_release();
}

inline void ProgressLoop::poll_once(Channel* first) noexcept {
  ++turns_;
  // Completions first: they make room in queues and windows for all that follows.
  for (const Source& source : sources_) {
    const std::uint32_t taken = source.lane->poll(source.queue);
    events_ += taken;
    if (taken == kPollBatch) [[unlikely]]
      poll_on(source);
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
