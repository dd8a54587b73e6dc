#include "src/soft/null_fabric.h"

#include "src/base/check.h"
#include "src/soft/copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace mesh::soft {

namespace {

constexpr std::uint32_t kNumberBits = 24;  // bits of a queue pair number
constexpr std::uint32_t kIndexMask = kNullQpsMax - 1;

// Returns a base that differs between processes, so that a queue pair of another process, which
// this fabric cannot reach, is not taken for one of ours.
std::uint32_t number_base() {
  const std::uint32_t mixed = static_cast<std::uint32_t>(::getpid()) * 0x9e3779b1u;
  return mixed & ((1u << kNumberBits) - 1) & ~kIndexMask;
}

}  // namespace

NullFabric::NullFabric(std::uint32_t delivery_polls)
    : delivery_polls_(delivery_polls), base_(number_base()) {}

int NullFabric::post_send(NullQp& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  const std::lock_guard lock(lock_);
  int error = qp.state == IBV_QPS_RTS || qp.state == IBV_QPS_ERR ? 0 : EINVAL;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    error = stage(qp, *wr);
    if (error != 0) break;
  }
  if (error != 0) *bad = wr;
  ++counters_.doorbells;
  if (qp.posted != qp.delivered) wait_for_delivery(qp);
  if (delivery_polls_ == 0) deliver();
  return error;
}

int NullFabric::stage(NullQp& qp, const ibv_send_wr& wr) noexcept {
  DCHECK(lock_.held_here() && qp.fabric == this);
  const bool announces = wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const bool reads = wr.opcode == IBV_WR_RDMA_READ;
  if (!announces && !reads && wr.opcode != IBV_WR_RDMA_WRITE) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.max_sge) return EINVAL;
  if (qp.posted - qp.freed >= qp.sends.size()) return ENOMEM;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (bytes > UINT32_MAX || (is_inline && (reads || bytes > qp.max_inline))) return EINVAL;

  NullRequest& request = qp.sends[qp.sends_in++ & (qp.sends.size() - 1)];
  request.wr_id = wr.wr_id;
  request.due = polls_ + delivery_polls_;
  request.address = wr.wr.rdma.remote_addr;
  request.rkey = wr.wr.rdma.rkey;
  request.bytes = static_cast<std::uint32_t>(bytes);
  request.imm = wr.imm_data;
  request.announces = announces;
  request.opcode = reads ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
  request.signaled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.is_row = is_inline && !announces && bytes <= kNullRowBytes;
  std::byte* to = request.row.data();
  for (int i = 0; request.is_row && i < wr.num_sge; ++i) {
    std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(wr.sg_list[i].addr)),
                wr.sg_list[i].length);
    to += wr.sg_list[i].length;
  }
  ++qp.posted;
  ++counters_.work_requests;
  return 0;
}

int NullFabric::post_receive(NullQp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  const std::lock_guard lock(lock_);
  int error = qp.state == IBV_QPS_RESET ? EINVAL : 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > qp.max_receive_sge)
      error = EINVAL;
    if (qp.receives_posted - qp.receives_freed >= qp.receives.size()) error = ENOMEM;
    if (error != 0) break;
    qp.receives[qp.receives_posted++ & (qp.receives.size() - 1)] = wr->wr_id;
    ++counters_.receives_posted;
  }
  if (error != 0) *bad = wr;
  if (qp.state == IBV_QPS_ERR) to_error(qp);
  return error;
}

int NullFabric::poll(NullCq& cq, int count, ibv_wc* wc) noexcept {
  const std::lock_guard lock(lock_);
  ++polls_;
  if (pending_first_ != nullptr) deliver();
  if (cq.overflown) return -1;
  int taken = 0;
  while (cq.out != cq.in && taken < count) {
    const NullCompletion& completion = cq.entries[cq.out++ & (cq.entries.size() - 1)];
    if (completion.qp == nullptr) continue;
    if (completion.is_receive) {
      ++completion.qp->receives_freed;
      ++counters_.receive_completions;
    } else {
      completion.qp->freed = completion.end;
      ++counters_.send_completions;
    }
    wc[taken++] = completion.wc;
  }
  if (cq.out == cq.in) cq.out = cq.in = 0;
  return taken;
}

void NullFabric::wait_for_delivery(NullQp& qp) noexcept {
  if (qp.pending) return;
  qp.pending = true;
  qp.next_pending = nullptr;
  NullQp** last = &pending_first_;
  while (*last != nullptr) last = &(*last)->next_pending;
  *last = &qp;
}

void NullFabric::deliver() noexcept {
  DCHECK(lock_.held_here());
  NullQp* first = pending_first_;
  pending_first_ = nullptr;
  NullQp** kept = &pending_first_;
  while (first != nullptr) {
    NullQp& qp = *first;
    first = qp.next_pending;
    while (qp.sends_out != qp.sends_in) {
      if (!deliver_one(qp, qp.sends[qp.sends_out & (qp.sends.size() - 1)])) break;
      ++qp.sends_out;
    }
    qp.pending = qp.sends_out != qp.sends_in;
    qp.next_pending = nullptr;
    if (qp.pending) {
      *kept = &qp;
      kept = &qp.next_pending;
    } else {
      qp.sends_out = qp.sends_in = 0;
    }
  }
}

bool NullFabric::deliver_one(NullQp& qp, NullRequest& request) noexcept {
  if (qp.state == IBV_QPS_ERR) {
    finish(qp, request, IBV_WC_WR_FLUSH_ERR);
    return true;
  }
  if (request.due > polls_) return false;
  NullQp* const peer = find(qp.dest_qp_num);
  if (peer == nullptr || peer->state == IBV_QPS_RESET || peer->state == IBV_QPS_ERR) {
    finish(qp, request, IBV_WC_RETRY_EXC_ERR);  // nobody answers
    return true;
  }
  if (peer->state == IBV_QPS_INIT) return false;
  if (request.announces && peer->receives_taken == peer->receives_posted) {
    if (!qp.rnr_seen) ++counters_.rnr_events;
    qp.rnr_seen = true;
    return false;
  }
  if (request.is_row && request.bytes != 0) {
    if (!regions_.allows({request.rkey, request.address, request.bytes, peer->verbs.pd,
                          IBV_ACCESS_REMOTE_WRITE})) {
      to_error(*peer);
      finish(qp, request, IBV_WC_REM_ACCESS_ERR);
      return true;
    }
    dma_store(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(request.address)),
              request.row.data(), request.bytes);
  }
  if (request.announces) take_receive(*peer, &request, IBV_WC_SUCCESS);
  qp.rnr_seen = false;
  finish(qp, request, IBV_WC_SUCCESS);
  return true;
}

void NullFabric::finish(NullQp& qp, const NullRequest& request, ibv_wc_status status) noexcept {
  DCHECK(qp.delivered < qp.posted && qp.freed <= qp.delivered);
  ++qp.delivered;
  if (request.signaled || status != IBV_WC_SUCCESS) {
    NullCompletion completion;
    completion.wc.wr_id = request.wr_id;
    completion.wc.status = status;
    completion.wc.opcode = request.opcode;
    completion.wc.qp_num = qp.verbs.qp_num;
    completion.qp = &qp;
    completion.end = qp.delivered;
    push(*qp.send_cq, completion);
  }
  if (status != IBV_WC_SUCCESS) to_error(qp);
}

void NullFabric::take_receive(NullQp& qp, const NullRequest* request,
                              ibv_wc_status status) noexcept {
  DCHECK(lock_.held_here() && qp.receives_taken < qp.receives_posted);
  NullCompletion completion;
  completion.wc.wr_id = qp.receives[qp.receives_taken++ & (qp.receives.size() - 1)];
  completion.wc.status = status;
  completion.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.wc.qp_num = qp.verbs.qp_num;
  if (request != nullptr) {
    completion.wc.byte_len = request->bytes;
    completion.wc.imm_data = request->imm;
    completion.wc.wc_flags = IBV_WC_WITH_IMM;
    ++counters_.announcements;
  }
  completion.qp = &qp;
  completion.is_receive = true;
  push(*qp.receive_cq, completion);
}

// Puts the queue pair into ERR. Receives are flushed here, sends at the next delivery.
void NullFabric::to_error(NullQp& qp) noexcept {
  qp.state = IBV_QPS_ERR;
  qp.verbs.state = IBV_QPS_ERR;
  while (qp.receives_taken != qp.receives_posted) take_receive(qp, nullptr, IBV_WC_WR_FLUSH_ERR);
}

void NullFabric::push(NullCq& cq, const NullCompletion& completion) noexcept {
  if (cq.in - cq.out == cq.entries.size()) {
    cq.overflown = true;
    return;
  }
  cq.entries[cq.in++ & (cq.entries.size() - 1)] = completion;
}

void NullFabric::forget(NullCq& cq, const NullQp& qp) noexcept {
  for (std::uint32_t at = cq.out; at != cq.in; ++at) {
    NullCompletion& completion = cq.entries[at & (cq.entries.size() - 1)];
    if (completion.qp == &qp) completion.qp = nullptr;
  }
}

NullQp* NullFabric::find(std::uint32_t qp_num) noexcept {
  const std::uint32_t index = qp_num & kIndexMask;
  return (qp_num & ~kIndexMask) == base_ && index < qps_.size() ? qps_[index] : nullptr;
}

bool NullFabric::has(std::uint32_t qp_num) {
  const std::lock_guard lock(lock_);
  return find(qp_num) != nullptr;
}

bool NullFabric::add(NullQp& qp) {
  const std::lock_guard lock(lock_);
  auto place = std::find(qps_.begin(), qps_.end(), nullptr);
  if (place == qps_.end()) {
    if (qps_.size() == kNullQpsMax) return false;
    place = qps_.insert(qps_.end(), nullptr);
  }
  *place = &qp;
  qp.verbs.qp_num = base_ | static_cast<std::uint32_t>(place - qps_.begin());
  ++qp.send_cq->users;
  ++qp.receive_cq->users;
  counters_.queue_pairs = std::max(counters_.queue_pairs, ++qp_count_);
  return true;
}

void NullFabric::remove(NullQp& qp) {
  const std::lock_guard lock(lock_);
  DCHECK(find(qp.verbs.qp_num) == &qp && qp_count_ > 0);
  DCHECK(qp.send_cq->users > 0 && qp.receive_cq->users > 0);
  qps_[qp.verbs.qp_num & kIndexMask] = nullptr;
  for (NullQp** at = &pending_first_; *at != nullptr; at = &(*at)->next_pending) {
    if (*at != &qp) continue;
    *at = qp.next_pending;
    break;
  }
  forget(*qp.send_cq, qp);
  forget(*qp.receive_cq, qp);
  --qp.send_cq->users;
  --qp.receive_cq->users;
  --qp_count_;
}

void NullFabric::set_state(NullQp& qp, ibv_qp_state state) {
  const std::lock_guard lock(lock_);
  if (state == IBV_QPS_ERR) {
    to_error(qp);
    return;
  }
  qp.state = qp.verbs.state = state;
  if (state != IBV_QPS_RESET) return;
  forget(*qp.send_cq, qp);
  forget(*qp.receive_cq, qp);
  qp.sends_in = qp.sends_out = 0;
  qp.posted = qp.delivered = qp.freed = 0;
  qp.receives_posted = qp.receives_taken = qp.receives_freed = 0;
}

std::uint32_t NullFabric::add_region(const MemoryTable::Region& region) {
  const std::lock_guard lock(lock_);
  const std::uint32_t key = regions_.add(region);
  if (key == 0) return 0;
  registered_ += region.bytes;
  counters_.registered_bytes = std::max(counters_.registered_bytes, registered_);
  return key;
}

void NullFabric::remove_region(std::uint32_t key, std::uint64_t bytes) {
  const std::lock_guard lock(lock_);
  regions_.remove(key);
  registered_ -= bytes;
}

NullCounters NullFabric::counters() {
  const std::lock_guard lock(lock_);
  NullCounters counters = counters_;
  counters.polls = polls_;
  return counters;
}

int null_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  auto& ours = *reinterpret_cast<NullQp*>(qp);
  return ours.fabric->post_send(ours, wr, bad);
}

int null_post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  auto& ours = *reinterpret_cast<NullQp*>(qp);
  return ours.fabric->post_receive(ours, wr, bad);
}

int null_poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  auto& ours = *reinterpret_cast<NullCq*>(cq);
  return ours.fabric->poll(ours, count, wc);
}

}  // namespace mesh::soft
