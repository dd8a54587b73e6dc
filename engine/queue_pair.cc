#include "engine/queue_pair.h"

#include "engine/channel_base.h"
#include "engine/peer_link.h"
#include "engine/progress_loop.h"
#include "src/base/check.h"

#include <atomic>
#include <cerrno>

namespace mesh::engine {

namespace {
// A quarter: the peer always has three quarters to go on with while the news travels.
constexpr std::uint32_t kWindowShares = 4;
}  // namespace

QueuePair::QueuePair(const TransferPolicy& policy, const QueuePairPlace& place)
    : place_(place),
      sq_depth_(policy.sq_depth),
      rq_depth_(policy.rq_depth),
      signal_interval_(policy.signal_interval),
      ring_(policy.sq_depth),
      receives_(policy.rq_depth / kWindowShares) {}

void QueuePair::adopt(verbs::QpHandle qp, std::uint64_t id_base, std::uint32_t inline_bytes) {
  qp_ = std::move(qp);
  id_base_ = id_base;
  inline_bytes_ = inline_bytes;
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    receives_[i] = {};
    receives_[i].wr_id = id_base_ | kReceiveBit;
    receives_[i].next = i + 1 < receives_.size() ? &receives_[i + 1] : nullptr;
  }
}

bool QueuePair::window_open() noexcept {
  if (announced_ - returned_ < rq_depth_) return true;
  // acquire: pairs with the NIC's release of the word; the count only moves forward, an older one landing late is ignored.
  const std::uint64_t word = load_word(*window_word_, std::memory_order_acquire);
  if (static_cast<std::int64_t>(word - returned_) > 0) returned_ = word;
  return announced_ - returned_ < rq_depth_;
}

void QueuePair::note(ibv_send_wr& wr, const Posted& entry) noexcept {
  ring_[posted_ & (sq_depth_ - 1)] = entry;
  ++posted_;
  ++since_signal_;
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
  if (!in_staged_list) place_.link->loop().add_staged(*this);
}

void QueuePair::stage_data(const Data& data) noexcept {
  if (chain_.full()) ring();
  ibv_send_wr& wr = chain_.write(data.source, data.target, inline_bytes_);
  if (data.ends_stripe) {
    verbs::WrChain::announce(wr, data.imm);
    ++announced_;
  }
  note(wr, {.request = data.request, .bytes = data.source.bytes, .ends_stripe = data.ends_stripe});
  ++data.request->channel->outstanding;
  place_.path->inflight_bytes += data.source.bytes;
  place_.path->counters.bytes_sent.add(data.source.bytes);
  chain_has_data_ = true;
  if (since_signal_ >= signal_interval_) {
    verbs::WrChain::signal(wr);
    since_signal_ = 0;
  }
}

void QueuePair::stage_row(const void* row, std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept {
  if (chain_.full()) ring();
  note(chain_.write_row(row, bytes, target), {});
  // Nobody waits for a row: its completion only makes room, so one in a quarter queue is enough.
  if (since_signal_ >= sq_depth_ / kWindowShares) {
    verbs::WrChain::signal(chain_.last());
    since_signal_ = 0;
  }
}

void QueuePair::ring() noexcept {
  if (chain_.staged() == 0) return;
  if (refused_) {  // the link is about to fail; whatever was staged goes with it
    chain_.clear();
    return;
  }
  if (chain_has_data_) {
    // The last one of a doorbell is signaled, so that whatever is posted completes without help from later traffic.
    verbs::WrChain::signal(chain_.last());
    since_signal_ = 0;
    chain_has_data_ = false;
  }
  place_.path->counters.work_requests.add(chain_.staged());
  place_.path->counters.doorbells.add(1);
  if (const int error = chain_.post(qp_.get()); error != 0) refuse(error);
}

// Staging may be in the middle of a channel's work: the failure waits for the end of the turn.
void QueuePair::refuse(int error) noexcept {
  refused_ = true;
  place_.link->loop().add_refused({.queue_pair = this, .error = error});
}

void QueuePair::retire_through(std::uint32_t count) noexcept {
  while (static_cast<std::uint32_t>(retired_) != count && retired_ != posted_) {
    const Posted entry = ring_[retired_ & (sq_depth_ - 1)];
    ++retired_;
    if (entry.request == nullptr) continue;
    place_.path->inflight_bytes -= entry.bytes;
    Request& request = *entry.request;
    --request.channel->outstanding;
    if (!entry.ends_stripe || --request.open_stripes != 0) continue;
    request.error == Errc::Ok ? request.complete(request.bytes) : request.fail(request.error);
  }
}

void QueuePair::drop_outstanding() noexcept {
  while (retired_ != posted_) {
    const Posted entry = ring_[retired_++ & (sq_depth_ - 1)];
    if (entry.request != nullptr) --entry.request->channel->outstanding;
  }
}

Status QueuePair::post_receives(std::uint32_t count) noexcept {
  receives_[count - 1].next = nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_.get(), receives_.data(), &bad);
  receives_[count - 1].next = count < receives_.size() ? &receives_[count] : nullptr;
  if (error == 0) reposted_ += count;
  return error == 0 ? Status{} : Status{Errc::Transport};
}

Status QueuePair::fill_receive_queue() noexcept {
  for (std::uint32_t i = 0; i < kWindowShares; ++i) {
    if (const Status status = post_receives(rq_depth_ / kWindowShares); !status.ok()) return status;
  }
  return {};
}

void QueuePair::on_receive() noexcept {
  ++consumed_;
  const std::uint32_t quarter = rq_depth_ / kWindowShares;
  if (consumed_ + rq_depth_ - reposted_ >= quarter) place_.link->loop().add_window_due(*this);
}

bool QueuePair::return_window() noexcept {
  const std::uint32_t quarter = rq_depth_ / kWindowShares;
  while (consumed_ + rq_depth_ - reposted_ >= quarter) {
    if (!has_room(1)) return false;
    if (!post_receives(quarter).ok()) {
      refuse(ENOMEM);
      return true;
    }
    // What the peer may count on: receives posted beyond the first filling.
    const std::uint64_t returned = reposted_ - rq_depth_;
    stage_row(&returned, sizeof returned, peer_window_);
  }
  return true;
}

}  // namespace mesh::engine
