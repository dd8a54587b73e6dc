// Plain writes that land out of order within a queue pair, as FaultKind::OutOfOrder wants it. A
// write with immediate keeps its place: it is executed when all before it have landed, and nothing
// that was posted after it goes first. Responses go back in order, so a write that has landed early
// completes no sooner than those that it has overtaken.
#include "src/base/check.h"
#include "src/soft/target.h"

#include <algorithm>
#include <new>

namespace mesh::soft {

namespace {
constexpr std::uint64_t kAheadMax = 60;  // fewer than the bits of Incoming::landed_early
}  // namespace

bool Target::has_expected_psn(const QueuePair& qp, std::uint64_t number) const noexcept {
  const std::uint32_t expected = qp.attributes.rq_psn + static_cast<std::uint32_t>(number);
  return qp.in.ring->request(number).psn == (expected & 0xffffff);
}

// Decides how the next request, which is a plain write, lands.
Target::Landing Target::out_of_order(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept {
  DCHECK(core_.turning());
  Incoming& in = qp.in;
  const FaultPlan::Disorder disorder = core_.faults.disorder_of(
      core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = in.next}, time.now_ns());
  const std::uint64_t bit = std::uint64_t{1} << (in.next % 64);
  if ((in.landed_early & bit) != 0) {
    in.landed_early &= ~bit;
    in.held_decided = in.next + 1;  // if it lands again, it lands now
    return in.next < in.repeats_until ? Landing::Now : Landing::Landed;
  }
  if (in.held_decided != in.next + 1) {
    in.held_decided = in.next + 1;
    in.held_until_ns = disorder.hold_ns == 0 ? 0 : time.now_ns() + disorder.hold_ns;
    in.repeats_until = std::max(in.repeats_until, in.next + 1 + disorder.repeats);
  }
  if (in.held_until_ns <= time.now_ns()) return Landing::Now;
  overtake(qp, disorder.alone, time, budget);
  return Landing::Held;
}

// Returns true if the write is kept to land late, in memory for relaxed ordering. A write that has
// landed early once, or waits for its turn, does not get here.
bool Target::lands_late(QueuePair& qp, const RingRequest& request, TurnTime& time) noexcept {
  DCHECK(core_.turning());
  Incoming& in = qp.in;
  if (request.is_inline == 0 || request.bytes > kLateBytesMax || request.bytes == 0) return false;
  const std::uint64_t late_ns =
      core_.faults
          .disorder_of(core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = in.next},
                       time.now_ns())
          .late_ns;
  const MemoryTable::Use use{.key = request.rkey,
                             .address = request.remote_address,
                             .bytes = request.bytes,
                             .pd = qp.verbs.pd,
                             .access = static_cast<int>(IBV_ACCESS_REMOTE_WRITE) |
                                       static_cast<int>(IBV_ACCESS_RELAXED_ORDERING)};
  if (late_ns == 0 || !core_.regions.allows(use)) return false;
  if (in.late == nullptr) in.late.reset(new (std::nothrow) LateWrites);
  return in.late != nullptr && in.late->add(use, request.inline_bytes, time.now_ns() + late_ns);
}

bool Target::land_late(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning());
  LateWrites& late = *qp.in.late;
  if (!late.empty()) late.land(core_.regions, time.now_ns());
  return !late.empty();
}

// Lands requests behind the next one, which is held: each lands whole, or not yet.
void Target::overtake(QueuePair& qp, bool all, TurnTime& time, TurnBudget& budget) noexcept {
  Incoming& in = qp.in;
  DCHECK(in.done_bytes == 0);
  const std::uint64_t tail = in.ring->header().tail.load(std::memory_order_acquire);
  const bool streams = in.ring->header().streams.load(std::memory_order_relaxed) != 0;
  for (std::uint64_t number = in.next + 1; number < tail && number <= in.next + kAheadMax;
       ++number) {
    RingRequest& request = in.ring->request(number);
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    if (request.opcode != IBV_WR_RDMA_WRITE || !has_expected_psn(qp, number)) return;
    if (request.ready_at_ns > time.now_ns()) return;  // nothing behind it is there either
    if (streams && request.is_inline == 0) return;    // its bytes come in order
    if ((in.landed_early & bit) != 0 || request.bytes > budget.bytes) continue;
    const FaultPlan::Disorder disorder = core_.faults.disorder_of(
        core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = number}, time.now_ns());
    if (!all && !disorder.overtakes) continue;
    const Outcome outcome = execute_write(qp, request, time, budget);
    in.done_bytes = 0;
    if (outcome.step != Step::Done) return;  // its error shows when its turn comes
    in.landed_early |= bit;
  }
}

}  // namespace mesh::soft
