#pragma once
// One direction of a chain in a middle host: a ring that the previous host fills, and its outlet,
// at side `to`, into the memory of the end or into the ring of a further middle host. Thread: the
// chain's. Bounds: the ring's slots and bytes; kTurnRequests and kTurnBytes a turn.

#include <mesh/status.h>

#include "src/base/pages.h"
#include "src/relay/chain_side.h"
#include "src/relay/ring_writer.h"
#include "src/relay/wire.h"
#include "src/verbs/handle.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace mesh::relay {

inline constexpr std::uint32_t kTurnRequests = 32;
inline constexpr std::uint64_t kTurnBytes = 1u << 20;

// The work that the neighbour of a side may have under way.
struct RingShape {
  std::uint32_t slots = 0;          // its send queue's depth
  std::uint32_t payload_bytes = 0;  // 0: it sends only what fits a slot
  std::uint32_t wr_bytes = 0;       // its longest work request
};

class Passage {
 public:
  Passage() = default;
  ~Passage() { leave(); }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  // Makes the ring's memory, and registers it with the rail over which it is filled and the rail
  // over which it is emptied. Returns InvalidArgument if no ring can have the shape, and System if
  // memory or a device refused; one line says what.
  Status create(const RailUse& from, const RailUse& to, const RingShape& shape);

  const RingTarget& ring() const noexcept { return ring_; }
  Status set_next_ring(const RingTarget& ring);

  // Notes a slot that the neighbour has filled. Returns false if it was not the next one.
  bool arrive(const ibv_wc& completion) noexcept;
  enum class Outcome : std::uint8_t { Good, Forged, Refused };  // a bad slot; by our own queue pair
  // Moves on the slots that have arrived, as far as there is room, and adds their number to *moved.
  Outcome carry(ChainSide& to, std::uint32_t* moved) noexcept;

  // Returns true if all that has arrived is done, and the neighbour knows it.
  bool rests(ChainSide& to) noexcept;
  // Returns true if, while it rests, a further middle host has counted something, such as its end.
  bool hears(ChainSide& to) noexcept { return !ends_here() && look_.finds_news(to.counted()); }
  // Returns true if it could go on, but others hold the rail. How long they may is counted in
  // turns.
  bool waits() const noexcept { return waits_; }
  // Gives up the rail, because nothing more is carried: others need not wait for this passage.
  void leave() noexcept;

  // ---- Counts. Takes those of a further middle host. Returns false if they cannot be right.
  bool take_counts(ChainSide& to, ibv_wc_status* status) noexcept;
  // Returns true if the neighbour does not know the newest counts.
  bool has_news(ChainSide& to) noexcept;
  // Tells the neighbour the counts; before, posts receives for the slots that are given back.
  // Returns false if a post is refused.
  bool tell(ChainSide& from, ChainSide& to) noexcept;
  Counts counts(ChainSide& to, std::uint8_t status) noexcept;
  bool ends_here() const noexcept { return !next_.is_open(); }  // the next host is the end

  // Figures, from any thread.
  std::uint64_t work_requests() const noexcept { return load(requests_); }
  std::uint64_t bytes() const noexcept { return load(bytes_); }
  std::uint64_t ring_full() const noexcept { return load(ring_full_); }

 private:
  using Figure = std::atomic<std::uint64_t>;  // relaxed: nothing else depends on it
  static std::uint64_t load(const Figure& figure) noexcept {
    return figure.load(std::memory_order_relaxed);
  }
  static void add(Figure& figure, std::uint64_t more) noexcept {
    figure.store(load(figure) + more, std::memory_order_relaxed);
  }
  std::byte* slot(std::uint64_t number) const noexcept;
  std::uint64_t under_way(ChainSide& to) noexcept;  // bytes that had to ask for the rail
  bool may_post(ChainSide& to, std::uint32_t bytes) noexcept;
  bool fits(const SendBatch& batch, std::uint32_t bytes) const noexcept;
  void forward(SendBatch& batch, const SlotHeader& header) noexcept;
  std::uint64_t freed(ChainSide& to) noexcept;
  std::uint64_t done(ChainSide& to) noexcept;

  RingTarget ring_;
  Pages memory_;
  verbs::MrHandle in_, out_;
  RingWriter next_;                           // closed: the next host is the end
  std::vector<std::uint32_t> written_bytes_;  // of each slot, as its completion said
  CountLook look_;
  RailShare* share_ = nullptr;                // of the rail over which it is emptied
  bool holds_ = false;                        // that rail, as far as we know
  bool waits_ = false;                        // for the rail
  std::uint64_t asked_bytes_ = 0;             // posted with the rail's leave
  std::vector<std::uint64_t> asked_through_;  // asked_bytes_ behind each slot; one more
  // Running counts of slots: told <= freed <= taken <= arrived.
  std::uint64_t arrived_ = 0, taken_ = 0;
  std::uint64_t counted_done_ = 0;  // by a further middle host
  std::uint64_t told_freed_ = 0, told_done_ = 0;
  Figure requests_{0}, bytes_{0}, ring_full_{0};
};

}  // namespace mesh::relay
