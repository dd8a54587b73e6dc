#include "src/relay/send_batch.h"

namespace mesh::relay {

SendBatch::SendBatch() noexcept {
  for (std::uint32_t i = 0; i < kCapacity; ++i) {
    elements_[i].wr.sg_list = elements_[i].gather.data();
    elements_[i].wr.next = i + 1 < kCapacity ? &elements_[i + 1].wr : nullptr;
  }
}

void SendBatch::open(const Place& place) noexcept {
  DCHECK(static_cast<std::uint32_t>(place.id_base) == 0);
  place_ = place;
  staged_ = 0;
  posted_ = retired_ = 0;
}

ibv_send_wr& SendBatch::stage(const verbs::RemoteTarget& target) noexcept {
  DCHECK(has_room(1));
  ibv_send_wr& wr = elements_[staged_++].wr;
  ++posted_;
  wr.wr_id = place_.id_base | static_cast<std::uint32_t>(posted_);
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
  if (bytes != 0 && bytes <= place_.inline_bytes) element.wr.send_flags |= IBV_SEND_INLINE;
}

int SendBatch::ring() noexcept {
  if (staged_ == 0) return 0;
  ibv_send_wr& tail = elements_[staged_ - 1].wr;
  ibv_send_wr* const link = tail.next;
  tail.next = nullptr;
  tail.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(place_.qp, &elements_[0].wr, &bad);
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

}  // namespace mesh::relay
