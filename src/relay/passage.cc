#include "src/relay/passage.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mesh::relay {

Status Passage::create(const RailUse& from, const RailUse& to, const RingShape& shape) {
  ring_ = {.slots = shape.slots, .payload_bytes = shape.payload_bytes, .wr_bytes = shape.wr_bytes};
  if (!is_ring(ring_)) {
    LOG_WARN("relay: a ring of {} slots and {} bytes cannot hold work requests of {} bytes",
             shape.slots, shape.payload_bytes, shape.wr_bytes);
    return Errc::InvalidArgument;
  }
  const std::size_t bytes = whole_pages(ring_bytes(ring_));
  memory_ = make_pages(bytes);
  if (memory_ == nullptr) {
    LOG_WARN("relay: no memory of {} bytes for a ring of a chain", bytes);
    return Errc::System;
  }
  in_ = verbs::MrHandle(*from.provider,
                        from.provider->reg_mr(from.pd, memory_.get(), bytes,
                                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  if (in_)
    out_ = verbs::MrHandle(*to.provider, to.provider->reg_mr(to.pd, memory_.get(), bytes, 0));
  if (!out_) {
    const int error = errno;
    LOG_WARN("relay: cannot register a ring of {} bytes for a chain: {}{}", bytes,
             std::strerror(error), verbs::memory_hint(error));
    return Errc::System;
  }
  ring_.address = reinterpret_cast<std::uintptr_t>(memory_.get());
  ring_.rkey = in_->rkey;
  written_bytes_.resize(ring_.slots);
  asked_through_.resize(ring_.slots + 1);
  share_ = to.share;
  return {};
}

Status Passage::set_next_ring(const RingTarget& ring) {
  if (!is_ring(ring) || ring.wr_bytes < ring_.wr_bytes) return Errc::InvalidArgument;
  next_.open(ring);
  return {};
}

std::byte* Passage::slot(std::uint64_t number) const noexcept {
  return memory_.get() + number % ring_.slots * kSlotBytes;
}

bool Passage::arrive(const ibv_wc& completion) noexcept {
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return false;
  if (completion.imm_data != static_cast<std::uint32_t>(arrived_)) return false;
  // More slots than the ring has would need more receives than were posted.
  DCHECK(arrived_ - told_freed_ < ring_.slots);
  written_bytes_[arrived_ % ring_.slots] = completion.byte_len;
  ++arrived_;
  return true;
}

bool Passage::fits(const SendBatch& batch, std::uint32_t bytes) const noexcept {
  if (ends_here()) return batch.has_room(1);
  return next_.fits(bytes) && batch.has_room(RingWriter::kRequestsMax);
}

void Passage::forward(SendBatch& batch, const SlotHeader& header) noexcept {
  std::byte* const place = slot(taken_);
  const bool in_slot = header.payload == kInSlot;
  const std::byte* const payload = in_slot ? place + sizeof header
                                           : slot(0) + std::size_t{ring_.slots} * kSlotBytes +
                                                 std::size_t{header.payload} * kPayloadUnit;
  const verbs::LocalSource source{.address = reinterpret_cast<std::uintptr_t>(payload),
                                  .bytes = header.bytes,
                                  .lkey = out_->lkey};
  if (!ends_here()) {
    return next_.write(batch, {.header = header,
                               .place = place,
                               .place_lkey = out_->lkey,
                               .payload = source,
                               .joined = in_slot});
  }
  ibv_send_wr& wr = batch.stage({.address = header.address, .rkey = header.rkey});
  if (header.kind == static_cast<std::uint8_t>(SlotKind::WriteWithImm)) {
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = header.imm;
  }
  if (header.bytes == 0) return;
  batch.add(source);
  batch.allow_inline();
}

std::uint64_t Passage::under_way(ChainSide& to) noexcept {
  const std::uint64_t left = freed(to);
  return asked_bytes_ - (left == 0 ? 0 : asked_through_[(left - 1) % asked_through_.size()]);
}

bool Passage::may_post(ChainSide& to, std::uint32_t bytes) noexcept {
  if (share_ == nullptr || bytes <= RailShare::kFreeBytes) return true;
  if (!share_->try_post(this, under_way(to), bytes)) return false;
  holds_ = true;
  asked_bytes_ += bytes;
  return true;
}

void Passage::leave() noexcept {
  if (share_ != nullptr) share_->leave(this);
  waits_ = false;
  holds_ = false;
}

Passage::Outcome Passage::carry(ChainSide& to, std::uint32_t* moved) noexcept {
  std::uint64_t bytes = 0;
  std::uint32_t requests = 0;
  waits_ = false;
  if (holds_) holds_ = share_->look(this, under_way(to));
  while (taken_ != arrived_ && requests < kTurnRequests && bytes < kTurnBytes) {
    // Checks a copy, because the neighbour could write the slot again meanwhile.
    SlotHeader header;
    std::memcpy(&header, slot(taken_), sizeof header);
    const SlotArrival arrival{.number = taken_,
                              .written_bytes = written_bytes_[taken_ % ring_.slots]};
    if (!is_slot(header, arrival, ring_)) return Outcome::Forged;
    if (!fits(to.batch, header.bytes)) {
      if (to.batch.empty()) {
        add(ring_full_, 1);
        break;
      }
      if (to.batch.ring() != 0) return Outcome::Refused;
      continue;
    }
    waits_ = !may_post(to, header.bytes);
    if (waits_) break;
    forward(to.batch, header);
    asked_through_[taken_ % asked_through_.size()] = asked_bytes_;
    ++taken_;
    ++requests;
    bytes += header.bytes;
  }
  if (holds_ && !waits_) holds_ = share_->rest(this, under_way(to));
  *moved += requests;
  add(requests_, requests);
  add(bytes_, bytes);
  return to.batch.ring() == 0 ? Outcome::Good : Outcome::Refused;
}

std::uint64_t Passage::freed(ChainSide& to) noexcept {
  return ends_here() ? to.batch.retired() : next_.sent(to.batch);
}

std::uint64_t Passage::done(ChainSide& to) noexcept {
  return ends_here() ? to.batch.retired() : counted_done_;
}

bool Passage::take_counts(ChainSide& to, ibv_wc_status* status) noexcept {
  DCHECK(!ends_here());
  const Counts counts = read_counts(to.counted(), {.free = next_.freed(), .done = counted_done_});
  const auto more = static_cast<std::uint64_t>(ahead(counts.done, counted_done_));
  if (more > next_.written() - counted_done_ || !next_.take_freed(counts.free)) return false;
  counted_done_ += more;
  *status = counts.status == 0 ? IBV_WC_SUCCESS : told_status(counts);
  return true;
}

bool Passage::has_news(ChainSide& to) noexcept {
  return freed(to) != told_freed_ || done(to) != told_done_;
}

bool Passage::rests(ChainSide& to) noexcept {
  return told_freed_ == arrived_ && told_done_ == arrived_ && !has_news(to);
}

Counts Passage::counts(ChainSide& to, std::uint8_t status) noexcept {
  return {.free = static_cast<std::uint32_t>(freed(to)) & kCountMask,
          .done = static_cast<std::uint32_t>(done(to)) & kCountMask,
          .status = status};
}

bool Passage::tell(ChainSide& from, ChainSide& to) noexcept {
  const std::uint64_t free_now = freed(to), done_now = done(to);
  DCHECK(free_now >= told_freed_ && free_now <= taken_ && done_now <= taken_);
  if (!from.post_receives(free_now - told_freed_)) return false;
  told_freed_ = free_now;
  told_done_ = done_now;
  return from.words.write(counts(to, 0)) == 0;
}

}  // namespace mesh::relay
