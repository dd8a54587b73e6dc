#pragma once
// A middle host's part of one relayed queue pair: two queue pairs, and for each direction a ring in
// memory of its own, which the previous host fills and this host empties, either into the far end's
// memory or into the ring of a further middle host. Work requests go on whole and in order. A slot
// header with a value that it may not have cuts the chain. Thread: turn() of one thread at a time;
// close() and the functions that return figures from any; the rest before the first turn. Bounds:
// those of its passages and sides.

#include <mesh/status.h>

#include "src/relay/chain_side.h"
#include "src/relay/passage.h"
#include "src/relay/wire.h"

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
  std::uint64_t refused = 0;                 // slots and counts that were not valid
};

enum class ChainState : std::uint8_t {
  Carrying,
  Failing,  // a last count is on its way to the neighbours
  Gone,     // nothing more happens; it may be removed
};

class Chain {
 public:
  // Returns InvalidArgument if no ring can have such sizes, and System if the device or memory
  // refused; one line says what.
  static Result<std::unique_ptr<Chain>> create(const ChainOptions& options);
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // ---- Set-up: tell the neighbours ring() and qp_num, learn theirs, bring both queue pairs up
  // (INIT, fill_receive_queue, RTR, RTS), then let it turn.
  ibv_qp* qp(Side side) const noexcept { return sides_[at(side)].qp(); }
  // Returns the ring that the neighbour of that side fills.
  const RingTarget& ring(Side side) const noexcept { return passages_[at(side)].ring(); }
  // Returns where the neighbour of that side writes its counts, if it is a middle host.
  CountsTarget counts(Side side) const noexcept { return sides_[at(side)].counts(); }
  // Posts a receive for each slot, in state INIT. Returns System if they are refused.
  Status fill_receive_queue(Side side) noexcept;
  // Sets where the counts of the work from that side are written: at the neighbour of that side.
  void set_counts(Side side, const CountsTarget& counts) noexcept {
    sides_[at(side)].words.set_target(counts);
  }
  // Sets the ring of that side's neighbour, which is another middle host. Without this, the
  // neighbour is the end. Returns InvalidArgument if the ring cannot be one, or is too small for
  // the longest work request.
  Status set_next_ring(Side side, const RingTarget& ring) {
    return passages_[at(other(side))].set_next_ring(ring);
  }

  // ---- Carrying. Makes one turn. Returns how many work requests, completions and counts it moved.
  // Never blocks.
  std::uint32_t turn() noexcept;

  // Returns the bell of that side's completion queue, or null if it has none that can ring.
  Bell* bell(Side side) const noexcept {
    const RailUse& rail = sides_[at(side)].rail();
    return rail.has_bell() ? rail.bell : nullptr;
  }
  // Has each side's next completion ring its bell. Afterwards the caller turns the chain once more,
  // because completions that are there do not ring. Returns false if a side cannot ring. Thread:
  // that of turn().
  bool arm() noexcept;
  // Returns true if it has nothing under way: only a completion, close(), or the last count of a
  // further middle host brings work.
  bool at_rest() const noexcept { return at_rest_ || state() == ChainState::Gone; }

  // Returns true if it waits for a rail that other chains hold, and must be asked again soon.
  bool waits() const noexcept { return passages_[0].waits() || passages_[1].waits(); }

  // Tells the neighbours the status, which is not success, with what was done, and carries nothing
  // more. The turns that follow do it; state() tells when they have.
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
  bool at_rest_ = false;             // only a completion, a count or close() ends this
  std::atomic<ChainState> state_{ChainState::Carrying};  // released in fail_both() and turn()
  std::atomic<std::uint8_t> asked_{0};                   // released in close(), acquired in turn()
  std::atomic<std::uint8_t> status_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace mesh::relay
