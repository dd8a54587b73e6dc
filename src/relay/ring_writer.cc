#include "src/relay/ring_writer.h"

#include "src/base/check.h"

#include <cstring>

namespace mesh::relay {

SendBatch::SendBatch() noexcept {
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    elements_[i].wr.sg_list = elements_[i].gather.data();
    elements_[i].wr.next = i + 1 < kCapacity ? &elements_[i + 1].wr : nullptr;
  }
}

void SendBatch::open(const Setup& setup) noexcept {
  DCHECK(static_cast<std::uint32_t>(setup.id_base) == 0);
  setup_ = setup;
  staged_ = 0;
  posted_ = retired_ = 0;
}

ibv_send_wr& SendBatch::stage(const verbs::RemoteTarget& target) noexcept {
  DCHECK(has_room(1));
  ibv_send_wr& wr = elements_[staged_++].wr;
  ++posted_;
  wr.wr_id = setup_.id_base | static_cast<std::uint32_t>(posted_);
  wr.num_sge = 0;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = posted_ % kSignalInterval == 0 ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
  wr.wr.rdma.remote_addr = target.address;
  wr.wr.rdma.rkey = target.rkey;
  return wr;
}

void SendBatch::add(const verbs::LocalSource& source) noexcept {
  DCHECK(staged_ != 0);
  Element& element = elements_[staged_ - 1];
  DCHECK(element.wr.num_sge < static_cast<int>(kElements));
  element.gather[static_cast<std::size_t>(element.wr.num_sge++)] = {
      .addr = source.address, .length = source.bytes, .lkey = source.lkey};
}

void SendBatch::allow_inline() noexcept {
  DCHECK(staged_ != 0);
  Element& element = elements_[staged_ - 1];
  std::uint32_t bytes = 0;
  for (int i = 0; i < element.wr.num_sge; ++i)
    bytes += element.gather[static_cast<std::size_t>(i)].length;
  if (bytes != 0 && bytes <= setup_.inline_bytes) element.wr.send_flags |= IBV_SEND_INLINE;
}

int SendBatch::ring() noexcept {
  if (staged_ == 0) return 0;
  ibv_send_wr& tail = elements_[staged_ - 1].wr;
  ibv_send_wr* const link = tail.next;
  tail.next = nullptr;
  tail.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(setup_.qp, &elements_[0].wr, &bad);
  tail.next = link;
  staged_ = 0;
  return error;
}

bool SendBatch::retire_through(std::uint32_t count) noexcept {
  const std::uint32_t newer = count - static_cast<std::uint32_t>(retired_);
  if (newer > posted_ - staged_ - retired_) return false;
  retired_ += newer;
  return true;
}

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
