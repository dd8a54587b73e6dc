#include "engine/data/receive_queue.h"

namespace mesh::engine {

ReceiveQueue::ReceiveQueue(std::uint32_t depth) : depth_(depth), quarter_(depth / kWindowShares) {
  DCHECK(depth_ % kWindowShares == 0 && depth_ >= kWindowShares);
}

void ReceiveQueue::begin(std::uint64_t id) noexcept {
  DCHECK(posted_ == 0);
  return_at_ = quarter();
  to_return_ = static_cast<std::int64_t>(return_at_) - 1;
  for (ibv_recv_wr& receive : quarter_) {
    receive = {};
    receive.wr_id = id;
    receive.next = &receive + 1;
  }
  quarter_.back().next = nullptr;
}

Status ReceiveQueue::post_quarter(ibv_qp* qp) noexcept {
  DCHECK(posted_ - taken() - flushed_ + quarter() <= depth_);
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_recv(qp, quarter_.data(), &bad) != 0) return Errc::Transport;
  posted_ += quarter();
  return {};
}

Status ReceiveQueue::fill(ibv_qp* qp) noexcept {
  DCHECK(posted_ == 0);
  for (std::uint32_t i = 0; i < kWindowShares; ++i) {
    if (const Status status = post_quarter(qp); !status.ok()) return status;
  }
  return {};
}

Status ReceiveQueue::return_quarter(ibv_qp* qp) noexcept {
  const Status status = post_quarter(qp);
  if (status.ok()) set_return_at(posted_ - depth_ + quarter());
  return status;
}

void ReceiveQueue::end() noexcept { set_return_at(taken() + INT64_MAX); }

void ReceiveQueue::renew() noexcept {
  posted_ = flushed_ = return_at_ = 0;
  to_return_ = -1;
}

}  // namespace mesh::engine
