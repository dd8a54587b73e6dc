#include "src/relay/ring_writer.h"

#include "src/base/check.h"

#include <cstring>

namespace mesh::relay {

namespace {
constexpr std::uint64_t units_of(std::uint32_t bytes) noexcept {
  return (std::uint64_t{bytes} + kPayloadUnit - 1) / kPayloadUnit;
}
}  // namespace

void RingWriter::open(const RingTarget& ring) {
  DCHECK(is_ring(ring));
  written_slots_.assign(ring.slots, {});
  ring_ = ring;
  written_ = sent_ = freed_ = 0;
  payload_head_ = payload_tail_ = 0;
}

std::uint64_t RingWriter::begin_of(std::uint64_t wanted) const noexcept {
  const std::uint64_t total = units(), offset = payload_head_ % total;
  return offset + wanted <= total ? payload_head_ : payload_head_ + (total - offset);
}

bool RingWriter::fits(std::uint32_t bytes) const noexcept {
  DCHECK(is_open() && bytes <= ring_.wr_bytes);
  if (written_ - freed_ >= ring_.slots) return false;
  if (bytes <= kSlotPayloadBytes) return true;
  const std::uint64_t wanted = units_of(bytes);
  return begin_of(wanted) + wanted - payload_tail_ <= units();
}

void RingWriter::write_payload(SendBatch& batch, const RingItem& item,
                               std::uint64_t begin) noexcept {
  const std::uint64_t unit = begin % units();
  batch.stage(
      {.address = ring_.address + std::uint64_t{ring_.slots} * kSlotBytes + unit * kPayloadUnit,
       .rkey = ring_.rkey});
  batch.add(item.payload);
  payload_head_ = begin + units_of(item.header.bytes);
  DCHECK(payload_head_ - payload_tail_ <= units());
}

void RingWriter::write(SendBatch& batch, const RingItem& item) noexcept {
  DCHECK(fits(item.header.bytes) && batch.has_room(kRequestsMax));
  SlotHeader header = item.header;
  const bool in_slot = header.bytes <= kSlotPayloadBytes;
  header.version = kSlotVersion;
  header.number = static_cast<std::uint32_t>(written_);
  header.payload = kInSlot;
  if (!in_slot) {
    const std::uint64_t begin = begin_of(units_of(header.bytes));
    header.payload = static_cast<std::uint32_t>(begin % units());
    write_payload(batch, item, begin);
  }
  std::memcpy(item.place, &header, sizeof header);
  ibv_send_wr& slot = batch.stage(
      {.address = ring_.address + written_ % ring_.slots * kSlotBytes, .rkey = ring_.rkey});
  slot.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  slot.imm_data = header.number;
  const bool joined = in_slot && item.joined;
  const bool apart = in_slot && !item.joined && header.bytes != 0;
  batch.add({.address = reinterpret_cast<std::uintptr_t>(item.place),
             .bytes = static_cast<std::uint32_t>(sizeof header) + (joined ? header.bytes : 0),
             .lkey = item.place_lkey});
  if (apart) {
    batch.add(item.payload);
  } else {
    batch.allow_inline();
  }
  at(written_++) = {.end = batch.posted(), .payload_end = payload_head_};
}

std::uint64_t RingWriter::sent(const SendBatch& batch) noexcept {
  while (sent_ != written_ && at(sent_).end <= batch.retired()) ++sent_;
  return sent_;
}

bool RingWriter::take_freed(std::uint32_t count) noexcept {
  const std::int32_t more = ahead(count, freed_);
  if (more <= 0) return true;  // an older word
  if (static_cast<std::uint64_t>(more) > written_ - freed_) return false;
  freed_ += static_cast<std::uint64_t>(more);
  payload_tail_ = at(freed_ - 1).payload_end;
  return true;
}

}  // namespace mesh::relay
