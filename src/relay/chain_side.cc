#include "src/relay/chain_side.h"

#include "src/base/log.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace mesh::relay {

void RailShare::release() noexcept {
  last_ = holder_;
  holder_ = nullptr;
}

bool RailShare::may_take(const void* who) noexcept {
  if (holder_ != nullptr) {
    others_wait_ = true;
    return ++asked_ >= kPatience;
  }
  // Refuses once: the others have their turn before the last holder asks again.
  if (last_ != who || !others_wait_) return true;
  others_wait_ = false;
  return false;
}

bool RailShare::try_post(const void* who, std::uint64_t under_way, std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ != who) {
    if (under_way >= kUnderWayBytes || !may_take(who)) return false;
    holder_ = who;
    others_wait_ = false;
    spent_ = 0;
  }
  if (spent_ >= kQuantumBytes) {
    if (others_wait_) return false;
    spent_ = 0;
  }
  if (under_way >= kUnderWayBytes) return false;
  spent_ += bytes;
  under_way_ = under_way + bytes;
  asked_ = 0;
  return true;
}

bool RailShare::look(const void* who, std::uint64_t under_way) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ != who) return false;
  if (under_way < under_way_) asked_ = 0;
  under_way_ = under_way;
  if (others_wait_ && spent_ >= kQuantumBytes && under_way <= kHandOverBytes) release();
  return holder_ == who;
}

bool RailShare::rest(const void* who, std::uint64_t under_way) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ == who && under_way <= kHandOverBytes) release();
  return holder_ == who;
}

void RailShare::leave(const void* who) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ == who) release();
}

namespace {

constexpr std::uint32_t kReceiveBatch = 32;
// Inline bytes to ask for: a small payload, a word of counts, or none.
constexpr std::uint32_t kChainInlineTries[] = {128, sizeof(std::uint64_t), 0};

Status refused(const char* what, int error) noexcept {
  LOG_WARN("relay: no {} for a chain: {}{}", what, std::strerror(error), verbs::memory_hint(error));
  return Errc::System;
}

}  // namespace

ibv_cq* ChainSide::make_completion_queue(std::uint32_t entries) const {
  const auto count = static_cast<int>(entries);
  return rail_.has_bell() ? rail_.provider->create_reporting_cq(rail_.bell->channel(), count)
                          : rail_.provider->create_cq(rail_.context, count);
}

bool ChainSide::make_queue_pair(const Depths& depths, std::uint32_t* inline_bytes) {
  for (const std::uint32_t tried : kChainInlineTries) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = depths.sends + CountWriter::kRequestsMax,
                .max_recv_wr = depths.receives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = tried};
    qp_ = verbs::QpHandle(*rail_.provider, rail_.provider->create_qp(rail_.pd, &attr));
    if (!qp_) continue;
    *inline_bytes = attr.cap.max_inline_data;
    return true;
  }
  return false;
}

// Makes the side. If the device grants fewer sends than wanted, work that is to go on waits for
// room.
Status ChainSide::create(const RailUse& rail, const Depths& wanted) {
  rail_ = rail;
  verbs::Provider& provider = *rail.provider;
  ibv_device_attr device{};
  if (const int error = provider.query_device(rail.context, &device); error != 0)
    return refused("answer of the device", error);
  memory_ = make_pages(sizeof(Page));
  if (memory_ == nullptr) {
    LOG_WARN("relay: no memory of {} bytes for a chain", sizeof(Page));
    return Errc::System;
  }
  mr_ =
      verbs::MrHandle(provider, provider.reg_mr(rail.pd, memory_.get(), whole_pages(sizeof(Page)),
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  if (!mr_) return refused("region", errno);
  const std::uint32_t limit = static_cast<std::uint32_t>(std::max(device.max_qp_wr, 0));
  const std::uint32_t sends_most = std::max(limit, 2 * CountWriter::kRequestsMax);
  const Depths depths{.receives = wanted.receives,
                      .sends = std::min(wanted.sends, sends_most - CountWriter::kRequestsMax)};
  const std::uint32_t entries = depths.sends + CountWriter::kRequestsMax + depths.receives;
  cq_ = verbs::CqHandle(provider, make_completion_queue(entries));
  if (!cq_) return refused("completion queue", errno);
  std::uint32_t inline_bytes = 0;
  if (!make_queue_pair(depths, &inline_bytes)) return refused("queue pair", errno);
  batch.open({.qp = qp_.get(),
              .depth = depths.sends,
              .inline_bytes = inline_bytes,
              .id_base = chain_id(ChainWork::Forward)});
  words.open({.qp = qp_.get(),
              .source = &page().source,
              .lkey = mr_->lkey,
              .inline_bytes = inline_bytes,
              .id_base = chain_id(ChainWork::Count)});
  receives_.resize(std::min(depths.receives, kReceiveBatch));
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    receives_[i].wr_id = chain_id(ChainWork::Receive);
    receives_[i].next = i + 1 < receives_.size() ? &receives_[i + 1] : nullptr;
  }
  return {};
}

bool ChainSide::post_receives(std::uint64_t count) noexcept {
  while (count != 0) {
    const std::uint64_t some = std::min<std::uint64_t>(count, receives_.size());
    ibv_recv_wr& tail = receives_[some - 1];
    ibv_recv_wr* const link = tail.next;
    tail.next = nullptr;
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(qp_.get(), receives_.data(), &bad);
    tail.next = link;
    if (error != 0) return false;
    count -= some;
  }
  return true;
}

CountsTarget ChainSide::counts() const noexcept {
  return {.address = reinterpret_cast<std::uintptr_t>(&page().counted), .rkey = mr_->rkey};
}

}  // namespace mesh::relay
