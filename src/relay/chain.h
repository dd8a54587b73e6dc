#pragma once
// A middle host's part of one relayed queue pair: two queue pairs, and for each direction a ring in
// memory of its own, which the host before fills and this one empties, either into the far end's
// memory or into the ring of a further middle host. Work requests go on whole and in order. A
// header that names what it may not cuts the chain. Thread: turn() of one thread at a time; close()
// and what answers figures from any; the rest before the first turn. Bounds: those of its passages
// and sides.

#include <mesh/status.h>

#include "src/relay/chain_side.h"
#include "src/relay/passage.h"
#include "src/relay/wire.h"
#include "src/verbs/provider.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace mesh::relay {

enum class Side : std::uint8_t { Left, Right };
inline constexpr std::array<Side, 2> kSides = {Side::Left, Side::Right};
constexpr Side other(Side side) noexcept { return side == Side::Left ? Side::Right : Side::Left; }

struct ChainOptions {
  std::array<RailUse, 2> rails;    // by side
  std::array<RingShape, 2> rings;  // by the side that fills them
};

struct ChainCounters {  // by the side that the work comes from
  std::array<std::uint64_t, 2> work_requests{}, bytes{};
  std::array<std::uint64_t, 2> ring_full{};  // turns with work that the next hop had no room for
  std::uint64_t refused = 0;                 // slots that were none
};

enum class ChainState : std::uint8_t {
  Carrying,
  Failing,  // a last count is on its way to the neighbours
  Gone,     // nothing more happens; it may be removed
};

class Chain {
 public:
  // InvalidArgument: sizes. System: the device or memory refused; one line says what.
  static Result<std::unique_ptr<Chain>> create(const ChainOptions& options);
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // ---- Set-up: tell the neighbours ring() and qp_num, learn theirs, bring both queue pairs up
  // (INIT, fill_receive_queue, RTR, RTS), then let it turn.
  ibv_qp* qp(Side side) const noexcept { return sides_[at(side)].qp(); }
  // Where the neighbour of that side writes.
  const RingTarget& ring(Side side) const noexcept { return passages_[at(side)].ring(); }
  // Where the neighbour of that side counts, if it is a middle host.
  CountsTarget counts(Side side) const noexcept { return sides_[at(side)].counts(); }
  // In state INIT. System: refused.
  Status fill_receive_queue(Side side) noexcept;
  // Where the counts of what comes from that side go: to its neighbour.
  void set_counts(Side side, const CountsTarget& counts) noexcept {
    sides_[at(side)].words.set_target(counts);
  }
  // The neighbour of that side is another middle host, whose ring this is. Without, it is the end.
  // InvalidArgument: a ring that is none, or too small for the longest work request.
  Status set_next_ring(Side side, const RingTarget& ring) {
    return passages_[at(other(side))].set_next_ring(ring);
  }

  // ---- Carrying. How many work requests, completions and counts it moved. Never blocks.
  std::uint32_t turn() noexcept;

  // It waits for a rail that other chains have, and must be asked again soon.
  bool waits() const noexcept { return passages_[0].waits() || passages_[1].waits(); }

  // The neighbours are told the status, which is no success, with what was done, and nothing more
  // is carried. The turns that follow do it; state() says when.
  void close(ibv_wc_status status) noexcept;
  ChainState state() const noexcept { return state_.load(std::memory_order_acquire); }
  ibv_wc_status status() const noexcept;  // why it carries no more
  ChainCounters counters() const noexcept;

 private:
  Chain() = default;
  static constexpr std::size_t at(Side side) noexcept { return static_cast<std::size_t>(side); }
  bool carrying() const noexcept { return state() == ChainState::Carrying; }
  std::uint32_t poll(Side side) noexcept;
  bool stays_at_rest() noexcept;
  std::uint32_t take(Side side, int found, const ibv_wc* completions) noexcept;
  void on_completion(Side side, const ibv_wc& completion) noexcept;
  void on_error(Side side, const ibv_wc& completion) noexcept;
  void carry(Side from, std::uint32_t* moved) noexcept;
  void tell(Side from, std::uint32_t* moved) noexcept;
  void fail(Side from, ibv_wc_status status) noexcept;
  void fail_both(ibv_wc_status left, ibv_wc_status right) noexcept;

  std::array<ChainSide, 2> sides_;
  std::array<Passage, 2> passages_;  // by the side that their work comes from
  std::array<bool, 2> dead_{};       // the side's completion queue cannot be polled
  bool at_rest_ = false;             // nothing but a completion, a count or close() is news
  std::atomic<ChainState> state_{ChainState::Carrying};  // released in fail_both() and turn()
  std::atomic<std::uint8_t> asked_{0};                   // released in close(), acquired in turn()
  std::atomic<std::uint8_t> status_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace mesh::relay
