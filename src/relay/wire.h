#pragma once
// The formats between the hosts of a chain: where a ring lies and where its counts are written
// (frames carry both), the header of a slot, and the word of counts. Seen along the data, the
// previous host writes a slot, and the next host the counts; whoever reads them checks them.
// Thread: any (values). Bounds: those named here.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mesh::relay {

static_assert(std::endian::native == std::endian::little, "headers are written as host words");

inline constexpr std::uint32_t kSlotBytes = 256;
inline constexpr std::uint32_t kPayloadUnit = 64;      // the payload ring is shared out in these
inline constexpr std::uint32_t kRingSlotsMax = 16384;  // the deepest send queue of any device
inline constexpr std::uint32_t kPayloadBytesMax = 64u << 20;

// The memory that the previous host writes: `slots` slots, and the payload ring right behind them.
struct RingTarget {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t slots = 0;
  std::uint32_t payload_bytes = 0;  // 0: every payload lies in its slot
  std::uint32_t wr_bytes = 0;       // the longest work request
  friend bool operator==(const RingTarget&, const RingTarget&) = default;
};
static_assert(sizeof(RingTarget) == 24 && std::is_trivially_copyable_v<RingTarget>);

// The memory where the next host writes the counts of a ring: kCountWords + 1 words.
struct CountsTarget {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t reserved = 0;
  friend bool operator==(const CountsTarget&, const CountsTarget&) = default;
};
static_assert(sizeof(CountsTarget) == 16 && std::is_trivially_copyable_v<CountsTarget>);

enum class SlotKind : std::uint8_t { Write = 1, WriteWithImm = 2 };
inline constexpr std::uint8_t kSlotVersion = 1;
inline constexpr std::uint32_t kInSlot = UINT32_MAX;  // the payload lies behind the header

// One work request. Its slot is announced with the low bits of its number as immediate.
struct SlotHeader {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;
  std::uint32_t imm = 0;      // as verbs carry it
  std::uint32_t payload = 0;  // unit of the payload ring, or kInSlot
  std::uint32_t number = 0;   // of the slot, counted from 0 without end
  std::uint8_t version = 0;
  std::uint8_t kind = 0;       // SlotKind
  std::uint16_t reserved = 0;  // zero
};
static_assert(sizeof(SlotHeader) == 32 && std::is_trivially_copyable_v<SlotHeader>);
static_assert(offsetof(SlotHeader, number) == 24 && offsetof(SlotHeader, version) == 28);

inline constexpr std::uint32_t kSlotPayloadBytes = kSlotBytes - sizeof(SlotHeader);

// Returns true if a ring that a frame names can be one: sizes within bounds, and a payload ring
// that holds two of the longest work request unless all lie in slots.
constexpr bool is_ring(const RingTarget& ring) noexcept {
  if (ring.slots == 0 || ring.slots > kRingSlotsMax || ring.address % kPayloadUnit != 0)
    return false;
  if (ring.payload_bytes % kPayloadUnit != 0 || ring.payload_bytes > kPayloadBytesMax) return false;
  return ring.wr_bytes <= kSlotPayloadBytes || ring.wr_bytes <= ring.payload_bytes / 2;
}
constexpr std::uint64_t ring_bytes(const RingTarget& ring) noexcept {
  return std::uint64_t{ring.slots} * kSlotBytes + ring.payload_bytes;
}

// The facts that the ring's owner knows about a slot.
struct SlotArrival {
  std::uint64_t number = 0;         // the slot's, counted from 0
  std::uint32_t written_bytes = 0;  // as its completion says
};
// Returns true if a neighbour's slot is valid: its payload lies within the slot as it was written,
// or within the payload ring, and the work request is no longer than the longest. The address and
// the key are for the far end's device to judge.
constexpr bool is_slot(const SlotHeader& header, const SlotArrival& arrival,
                       const RingTarget& ring) noexcept {
  const bool is_kind = header.kind == static_cast<std::uint8_t>(SlotKind::Write) ||
                       header.kind == static_cast<std::uint8_t>(SlotKind::WriteWithImm);
  if (header.version != kSlotVersion || !is_kind || header.reserved != 0) return false;
  if (header.number != static_cast<std::uint32_t>(arrival.number)) return false;
  if (header.bytes > ring.wr_bytes) return false;
  if (header.payload == kInSlot) {
    return header.bytes <= kSlotPayloadBytes &&
           arrival.written_bytes == sizeof header + header.bytes;
  }
  const std::uint64_t begin = std::uint64_t{header.payload} * kPayloadUnit;
  return header.bytes > kSlotPayloadBytes && arrival.written_bytes == sizeof header &&
         begin + header.bytes <= ring.payload_bytes;
}

// ---- Counts: how many slots of the ring are free again and how many work requests are done, by
// their low bits, and the status of the next work request if it failed. Words 0 to kCountWords - 1
// are written in turn, each only when its last write has completed, so no order of arrival hides
// the newest. The word behind them is written once, before the chain goes.
inline constexpr std::uint32_t kCountWords = 4;
inline constexpr std::uint32_t kLastWord = kCountWords;
inline constexpr std::uint32_t kCountBits = 28;
inline constexpr std::uint32_t kCountMask = (1u << kCountBits) - 1;
static_assert(kRingSlotsMax < kCountMask / 2);

struct Counts {
  std::uint32_t free = 0, done = 0;  // low kCountBits
  std::uint8_t status = 0;           // ibv_wc_status of work request `done`; 0: it has none yet
};
constexpr std::uint64_t pack(const Counts& counts) noexcept {
  return std::uint64_t{counts.free & kCountMask} |
         std::uint64_t{counts.done & kCountMask} << kCountBits |
         std::uint64_t{counts.status} << (2 * kCountBits);
}
constexpr Counts unpack(std::uint64_t word) noexcept {
  return {.free = static_cast<std::uint32_t>(word) & kCountMask,
          .done = static_cast<std::uint32_t>(word >> kCountBits) & kCountMask,
          .status = static_cast<std::uint8_t>(word >> (2 * kCountBits))};
}
// Returns how far a count, by its low bits, is ahead of a known one; below 0 if it is older.
constexpr std::int32_t ahead(std::uint32_t count, std::uint64_t known) noexcept {
  const std::uint32_t distance = (count - static_cast<std::uint32_t>(known)) & kCountMask;
  return distance <= kCountMask / 2
             ? static_cast<std::int32_t>(distance)
             : static_cast<std::int32_t>(distance) - static_cast<std::int32_t>(kCountMask) - 1;
}

}  // namespace mesh::relay
