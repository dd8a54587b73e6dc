#pragma once
// The message path of a send channel: a send meets its credit and is posted as one work request, or
// as stripes of one size. Everything else is behind a call (send_channel.cc). Thread: loop
// (progress lock). Bounds: those of send_channel.h.

#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair_datapath.h"
#include "engine/data/registration.h"
#include "engine/data/send_channel.h"
#include "src/base/check.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace mesh::engine {

// Returns true if the credit has the request's tag and room for its bytes.
inline bool SendChannel::fits(const Request& request, const NearCredit& credit) noexcept {
  return request.tag == credit.tag && request.bytes <= credit.bytes;
}

inline SendQueuePair::Small SendChannel::small_message(Request& request,
                                                       verbs::RemoteTarget target) noexcept {
  DCHECK(request.state.load(std::memory_order_relaxed) == RequestState::Submitted);
  DCHECK(request.channel == this);
  DCHECK(request.bytes != 0 && request.bytes <= wr_bytes_);
  DCHECK(stripes_of(cursor_.imm()) == 1);
  ++outstanding;
  request.expected = cursor_.imm();
  return {.source = {.address = request.address,
                     .bytes = static_cast<std::uint32_t>(request.bytes),
                     .lkey = request.region->keys(express_rail_).lkey},
          .target = target,
          .request = &request,
          .imm = cursor_.imm(),
          .inline_bytes = request.region->inline_bytes};
}

inline bool SendChannel::next_credit(NearCredit* credit) noexcept {
  return read_near(cts_entry(), cursor_.generation(), credit) &&
         (!far_ || read_far_key(cts_entry(), cursor_.generation(), express_place_, &credit->rkey));
}

// Posts the send at once if no other send waits. Returns false, for advance() to follow, on the
// slow path, without its credit or reserved room, if not small, or if the post was refused. The
// caller has just taken the progress lock, so nothing is staged.
inline bool SendChannel::post_at_once(Request& request) noexcept {
  DCHECK(loop.held());
  DCHECK(slow_path_ || !needs_slow_path());
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (slow_path_ || sequence + 1 != submitted.load(std::memory_order_relaxed)) return false;
  NearCredit credit;
  SendQueuePair& express = *express_;
  if (!next_credit(&credit) || !fits(request, credit)) return false;
  const verbs::RemoteTarget target{.address = credit.address, .rkey = credit.rkey};
  if (!is_near(request)) [[unlikely]]
    return request.bytes - 1 < express_bytes_ && post_middle(request, target);
  if (!express.try_take_one()) return false;
  DCHECK(!express.in_staged_list);
  const SendQueuePair::Small message = small_message(request, target);
  cursor_.step();
  accepted.store(sequence + 1, std::memory_order_relaxed);
  return express.post_small(message);
}

// Takes room for a uniform message. Returns true if all of it has room: then it must be staged.
inline bool SendChannel::try_take_uniform(std::uint64_t bytes) noexcept {
  const Path& path = link.paths()[0];
  const bool fits =
      path.inflight_bytes() + bytes <= path.inflight_bytes_max && path.byte_waiter == nullptr;
  return (fits || path.inflight_bytes() == 0) && link.paths().bulk().try_take_uniform();
}

inline void SendChannel::stage_uniform(Request& request, const UniformMessage& message) noexcept {
  const StripePlan& plan = message.plan;
  Path& path = link.paths()[0];
  const auto step = static_cast<std::uint32_t>(plan.stripe_bytes);
  SendQueuePair::Uniform stripe{.source = {.address = request.address,
                                           .bytes = step,
                                           .lkey = request.region->keys(path.rail).lkey},
                                .target = message.target,
                                .imm = request.imm(),
                                .mark = Mark::of(request, Mark::kUniform).word};
  DCHECK(plan.count != 0 && plan.count == request.cut.open);
  DCHECK(plan.total_bytes == request.bytes);
  DCHECK(plan.uniform(wr_bytes_));
  DCHECK(plan.count <= link.paths().bulk().count());
  DCHECK(stripes_of(request.imm()) == plan.count);
  request.cut.stripe_bytes = step;
  request.cut.uniform = true;
  path.bulk_posted += plan.total_bytes;
  ++outstanding;
  SendQueuePair* const* next = link.paths().bulk().from(message.first_bulk);
  SendQueuePair* const* const end = next + plan.count;
  do {
    (*next)->stage_uniform(stripe);
    stripe.source.address += step;
    stripe.target.address += step;
    stripe.mark += Mark::kNumberStep;
  } while (++next != end);
  if (plan.last_bytes != plan.stripe_bytes)
    next[-1]->shorten_last(static_cast<std::uint32_t>(plan.last_bytes));
}

// Reads the credit of a message for which the receiver waits; it writes the credit again after
// every fence. The entry may be older still: one of the slot's former life that a lost path carried
// late. The message is of the cursor's round or of the round before.
inline bool SendChannel::read_kept_credit(std::uint32_t imm, Credit* credit) const noexcept {
  std::uint64_t* const words =
      reinterpret_cast<std::uint64_t*>(credits_ + std::size_t{slot_of(imm)} * cursor_.cts_bytes());
  const bool of_this_round = ((cursor_.generation() ^ imm) & kGenerationMask) == 0;
  return read_credit(words, key_count_, cursor_.generation() - (of_this_round ? 0 : 1), credit);
}

// As stage_uniform(), but an empty write announces each stripe, behind its data, and a record tells
// the bytes.
inline void SendChannel::stage_apart(Request& request, const UniformMessage& message) noexcept {
  const StripePlan& plan = message.plan;
  Path& path = link.paths()[0];
  request.cut = {.stripe_bytes = static_cast<std::uint32_t>(plan.stripe_bytes),
                 .stripes = static_cast<std::uint8_t>(plan.count),
                 .open = static_cast<std::uint8_t>(plan.count),
                 .uniform = true};
  request.generation = cursor_.generation();
  request.expected = cursor_.imm() - (1u << kStripesShift);  // a record tells how many
  path.bulk_posted += plan.total_bytes;
  may_wait_for_bytes_ = false;
  ++outstanding;
  const std::uint32_t lkey = request.region->keys(path.rail).lkey;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    const StripeSpan span = plan.span(i);
    SendQueuePair& queue_pair = link.paths().bulk().at(message.first_bulk + i);
    const SendQueuePair::Uniform stripe{
        .source = {.address = request.address + span.offset,
                   .bytes = static_cast<std::uint32_t>(span.bytes),
                   .lkey = lkey},
        .target = {.address = message.target.address + span.offset, .rkey = message.target.rkey},
        .imm = request.imm(),
        .mark = Mark::of(request, Mark::kUniform | i * Mark::kNumberStep).word};
    queue_pair.stage_apart(stripe);
    if (i == 0) stage_record(queue_pair, request);
    queue_pair.stage_announcement(stripe);
  }
}

// Posts the next credit's message with its data apart. Returns false if nothing was posted.
inline bool SendChannel::post_apart(Request& request) noexcept {
  if (request.bytes <= apart_above_ || request.bytes > credit_.bytes) return false;
  if (way_of(request.bytes) != Way::Apart) return false;
  const StripePlan& plan = usual_plan_;
  if (!bytes_fit(link.paths()[0], plan.total_bytes)) return false;
  SendQueuePair* const* const first = link.paths().bulk().from(link.paths().bulk().next_first());
  const auto has_room = [](SendQueuePair* queue_pair) { return queue_pair->has_apart_room(); };
  if (!std::all_of(first, first + plan.count, has_room)) return false;
  stage_apart(request, {.plan = plan,
                        .first_bulk = link.paths().bulk().next(plan.count),
                        .target = {.address = credit_.address, .rkey = credit_.rkeys[0]}});
  may_wait_for_bytes_ = false;
  return true;
}

// Stages a message over several paths. Every stripe is counted by itself, so that each path knows
// what it has carried. The bulk queue pairs lie so that the paths take turns.
inline void SendChannel::stage_shared(Request& request, const UniformMessage& message,
                                      const Credit& credit) noexcept {
  const StripePlan& plan = message.plan;
  const auto step = static_cast<std::uint32_t>(plan.stripe_bytes);
  SendQueuePair::Uniform stripe{.source = {.address = request.address, .bytes = step},
                                .target = {.address = credit.address},
                                .imm = request.imm(),
                                .mark = Mark::of(request, Mark::kFirstShared).word};
  request.cut.stripe_bytes = step;
  outstanding += plan.count;
  SendQueuePair* const* next = link.paths().bulk().from(message.first_bulk);
  for (std::uint32_t left = plan.count; left != 0; --left, ++next) {
    Path& path = (*next)->path();
    DCHECK(path.health.state == PathState::Up);
    stripe.source.lkey = request.region->keys(path.rail).lkey;
    stripe.target.rkey = credit.rkeys[path.key_place];
    if (left == 1 && plan.last_bytes != step) return stage_rest(**next, request, stripe);
    path.bulk_posted += step;
    (*next)->stage_uniform(stripe);
    stripe.source.address += step;
    stripe.target.address += step;
    stripe.mark += Mark::kNumberStep;
  }
}

// Stages the last stripe, which has less than the others.
inline void SendChannel::stage_rest(SendQueuePair& queue_pair, const Request& request,
                                    SendQueuePair::Uniform stripe) noexcept {
  const std::uint64_t offset = stripe.source.address - request.address;
  stripe.source.bytes = static_cast<std::uint32_t>(request.bytes - offset);
  stripe.mark = Mark::of(request, 0).word;
  queue_pair.path().bulk_posted += stripe.source.bytes;
  queue_pair.stage_rest(stripe, {.offset = offset, .bytes = stripe.source.bytes});
}

// try_take_uniform() comes last, because what it reserves must be posted.
inline bool SendChannel::post_shared(Request& request, const Credit& credit) noexcept {
  if (way_of(request.bytes) != Way::Shared || request.bytes > credit.bytes) return false;
  const StripePlan& plan = usual_plan_;
  if (!link.paths().shares().alike(request.bytes) || !link.paths().bulk().try_take_uniform())
    return false;
  request.cut.open = static_cast<std::uint8_t>(plan.count);
  request.cut.uniform = false;
  request.expected = cursor_.imm() + plan.imm_more();
  stage_shared(request,
               {.plan = plan, .first_bulk = link.paths().bulk().next(plan.count), .target = {}},
               credit);
  may_wait_for_bytes_ = false;
  return true;
}

// The usual case: the next send's credit is there, and one express work request carries the
// message.
inline bool SendChannel::advance(bool in_turn) noexcept {
  DCHECK(loop.held());
  DCHECK(slow_path_ || !needs_slow_path());
  if (slow_path_) [[unlikely]]
    return advance_slow_path(in_turn);
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  const std::uint64_t stop =
      limit - sequence > kMessagesPerVisit ? sequence + kMessagesPerVisit : limit;
  express_->make_chain_room(kMessagesPerVisit);
  while (sequence != stop) {
    NearCredit credit;
    if (!next_credit(&credit)) {
      loop.counters.credit_stalls.add(1);
      return true;
    }
    Request& next = request(sequence);
    if (!fits(next, credit)) [[unlikely]]
      return advance_slow_path(in_turn);
    const verbs::RemoteTarget target{.address = credit.address, .rkey = credit.rkey};
    if (is_near(next) && express_->try_take_small()) [[likely]] {
      express_->stage_small(small_message(next, target));
    } else if (!post_large(next, target)) {
      return advance_slow_path(in_turn);
    }
    cursor_.step();
    accepted.store(++sequence, std::memory_order_relaxed);
  }
  return sequence != limit;
}

}  // namespace mesh::engine
