#include "src/relay/chain.h"

#include "src/base/check.h"

namespace mesh::relay {

namespace {

constexpr int kPollEntries = 32;

// Returns the poster's status: an answer of the far end as it is, anything else as a lost path.
ibv_wc_status as_posters(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR: return status;
    default: return IBV_WC_RETRY_EXC_ERR;
  }
}

}  // namespace

Result<std::unique_ptr<Chain>> Chain::create(const ChainOptions& options) {
  std::unique_ptr<Chain> chain(new Chain);
  for (const Side side : kSides) {
    const RingShape &in = options.rings[at(side)], &out = options.rings[at(other(side))];
    const Status ring = chain->passages_[at(side)].create(options.rails[at(side)],
                                                          options.rails[at(other(side))], in);
    if (!ring.ok()) return ring;
    const Status made = chain->sides_[at(side)].create(
        options.rails[at(side)],
        {.receives = in.slots, .sends = RingWriter::kRequestsMax * out.slots});
    if (!made.ok()) return made;
  }
  return chain;
}

Status Chain::fill_receive_queue(Side side) noexcept {
  const bool posted = sides_[at(side)].post_receives(ring(side).slots);
  return posted ? Status{} : Status{Errc::System};
}

// Returns true if there is no news. Most turns find none, so this is a few instructions.
bool Chain::stays_at_rest() noexcept {
  if (asked_.load(std::memory_order_acquire) != IBV_WC_SUCCESS) return false;
  for (const Side side : kSides) {
    ibv_wc completion;
    const int found = ibv_poll_cq(sides_[at(side)].cq(), 1, &completion);
    if (found == 0) [[likely]]
      continue;
    take(side, found, &completion);
    return false;
  }
  return !passages_[0].hears(sides_[1]) && !passages_[1].hears(sides_[0]);
}

std::uint32_t Chain::turn() noexcept {
  std::uint32_t moved = 0;
  if (at_rest_) [[likely]] {
    if (stays_at_rest()) return 0;
    at_rest_ = false;
    ++moved;
  }
  if (state() == ChainState::Gone) return 0;
  const auto asked = static_cast<ibv_wc_status>(asked_.load(std::memory_order_acquire));
  if (asked != IBV_WC_SUCCESS && carrying()) fail_both(asked, asked);
  for (const Side side : kSides) moved += poll(side);
  for (const Side side : kSides) carry(side, &moved);
  for (const Side side : kSides) tell(side, &moved);
  at_rest_ =
      moved == 0 && carrying() && passages_[0].rests(sides_[1]) && passages_[1].rests(sides_[0]);
  if (state() == ChainState::Failing) {
    bool written = true;
    for (const Side side : kSides)
      written &= dead_[at(side)] || sides_[at(side)].words.last_is_written();
    if (written) state_.store(ChainState::Gone, std::memory_order_release);
  }
  return moved;
}

// A chain that is gone polls no more, and its completions must not ring again and again.
bool Chain::arm() noexcept {
  if (state() == ChainState::Gone) return true;
  bool armed = true;
  for (const Side side : kSides) {
    Bell* const bell = this->bell(side);
    if (bell != nullptr) bell->take();
    armed &= dead_[at(side)] || (bell != nullptr && sides_[at(side)].arm());
  }
  return armed;
}

std::uint32_t Chain::poll(Side side) noexcept {
  std::array<ibv_wc, kPollEntries> completions;
  const int found = ibv_poll_cq(sides_[at(side)].cq(), kPollEntries, completions.data());
  return take(side, found, completions.data());
}

// Handles what a poll has found; below 0 the completion queue is dead.
std::uint32_t Chain::take(Side side, int found, const ibv_wc* completions) noexcept {
  if (found < 0) {
    dead_[at(side)] = true;
    fail(side, IBV_WC_RETRY_EXC_ERR);
    return 0;
  }
  for (int i = 0; i < found; ++i) on_completion(side, completions[i]);
  return static_cast<std::uint32_t>(found);
}

void Chain::on_completion(Side side, const ibv_wc& completion) noexcept {
  ChainSide& here = sides_[at(side)];
  const auto work = static_cast<ChainWork>(completion.wr_id >> 32);
  const auto count = static_cast<std::uint32_t>(completion.wr_id);
  if (work == ChainWork::Count) here.words.on_written(count);
  if (completion.status != IBV_WC_SUCCESS) return on_error(side, completion);
  if (work == ChainWork::Forward) static_cast<void>(here.batch.retire_through(count));
  if (work == ChainWork::Receive && carrying() && !passages_[at(side)].arrive(completion)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    fail(side, IBV_WC_REM_INV_REQ_ERR);
  }
}

// Handles an error of the queue pair to that side's neighbour.
void Chain::on_error(Side side, const ibv_wc& completion) noexcept {
  if (!carrying()) return;
  const bool forwarded = static_cast<ChainWork>(completion.wr_id >> 32) == ChainWork::Forward;
  if (forwarded) {
    static_cast<void>(
        sides_[at(side)].batch.retire_before(static_cast<std::uint32_t>(completion.wr_id)));
  }
  const bool by_end = forwarded && passages_[at(other(side))].ends_here();
  fail(other(side), by_end ? as_posters(completion.status) : IBV_WC_RETRY_EXC_ERR);
}

void Chain::carry(Side from, std::uint32_t* moved) noexcept {
  if (!carrying()) return;
  ChainSide& to = sides_[at(other(from))];
  Passage& passage = passages_[at(from)];
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (!passage.ends_here() && !passage.take_counts(to, &status)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return fail(from, IBV_WC_RETRY_EXC_ERR);
  }
  if (status != IBV_WC_SUCCESS) return fail(from, status);
  switch (passage.carry(to, moved)) {
    case Passage::Outcome::Good: return;
    case Passage::Outcome::Refused: return fail(from, IBV_WC_RETRY_EXC_ERR);
    case Passage::Outcome::Forged: break;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  fail(from, IBV_WC_REM_INV_REQ_ERR);
}

void Chain::tell(Side from, std::uint32_t* moved) noexcept {
  if (!carrying()) return;
  ChainSide &behind = sides_[at(from)], &ahead = sides_[at(other(from))];
  Passage& passage = passages_[at(from)];
  if (!behind.words.ready() || !passage.has_news(ahead)) return;
  ++*moved;
  if (!passage.tell(behind, ahead)) fail(from, IBV_WC_RETRY_EXC_ERR);
}

// Fails the work from that side with the status; for the opposite direction the path is just lost.
void Chain::fail(Side from, ibv_wc_status status) noexcept {
  const bool left = from == Side::Left;
  fail_both(left ? status : IBV_WC_RETRY_EXC_ERR, left ? IBV_WC_RETRY_EXC_ERR : status);
}

void Chain::fail_both(ibv_wc_status left, ibv_wc_status right) noexcept {
  DCHECK(left != IBV_WC_SUCCESS && right != IBV_WC_SUCCESS);
  if (!carrying()) return;
  const std::array<ibv_wc_status, 2> told = {left, right};
  for (const Side side : kSides) {
    passages_[at(side)].leave();
    const Counts last = passages_[at(side)].counts(sides_[at(other(side))],
                                                   static_cast<std::uint8_t>(told[at(side)]));
    // If it is refused, the neighbour finds out by itself.
    static_cast<void>(sides_[at(side)].words.write_last(last));
  }
  status_.store(static_cast<std::uint8_t>(left == IBV_WC_RETRY_EXC_ERR ? right : left),
                std::memory_order_relaxed);
  state_.store(ChainState::Failing, std::memory_order_release);
}

void Chain::close(ibv_wc_status status) noexcept {
  DCHECK(status != IBV_WC_SUCCESS);
  asked_.store(static_cast<std::uint8_t>(status), std::memory_order_release);
}

ibv_wc_status Chain::status() const noexcept {
  return static_cast<ibv_wc_status>(status_.load(std::memory_order_relaxed));
}

ChainCounters Chain::counters() const noexcept {
  ChainCounters counters;
  for (const Side side : kSides) {
    const Passage& passage = passages_[at(side)];
    counters.work_requests[at(side)] = passage.work_requests();
    counters.bytes[at(side)] = passage.bytes();
    counters.ring_full[at(side)] = passage.ring_full();
  }
  counters.refused = refused_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace mesh::relay
