#include "src/relay/slot_check.h"

namespace mesh::relay {

namespace {
bool is_kind(std::uint8_t kind) noexcept {
  return kind == static_cast<std::uint8_t>(SlotKind::Write) ||
         kind == static_cast<std::uint8_t>(SlotKind::WriteWithImm);
}
}  // namespace

bool is_slot(const SlotHeader& header, const SlotArrival& arrival,
             const RingTarget& ring) noexcept {
  if (header.version != kSlotVersion || !is_kind(header.kind) || header.reserved != 0) return false;
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

}  // namespace mesh::relay
