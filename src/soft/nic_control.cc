// The control path of a NIC: regions, queue pairs, state changes, offers of rings.
// Everything here holds the turn lock, so when a call returns, no turn still acts on what it took
// away.

#include "src/base/check.h"
#include "src/soft/nic.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

namespace mesh::soft {

std::uint32_t Nic::add_region(const MemoryTable::Region& region) {
  std::lock_guard lock(core_.turn_lock);
  return core_.regions.add(region);
}

// Removing a region that a posted request still reads is the user's mistake. The queue pair fails,
// as with hardware, and nothing reads the region afterwards. Only queue pairs that have posted are
// looked at, as many regions go one after the other.
void Nic::remove_region(std::uint32_t key) {
  std::lock_guard lock(core_.turn_lock);
  core_.device_writes.land();  // before its memory may go
  core_.regions.remove(key);
  TurnTime time(core_.clock);
  core_.posting.take_all(outstanding_);
  for (std::uint32_t index = outstanding_.next(0); index < kQpsMax;
       index = outstanding_.next(index + 1)) {
    QueuePair* const qp = queue_pairs_.find(index);
    if (qp == nullptr || initiator_.is_idle(*qp))
      outstanding_.erase(index);
    else if (qp->out.ring != nullptr && initiator_.uses(*qp, key))
      initiator_.to_error(*qp, IBV_WC_LOC_PROT_ERR);
  }
}

QueuePair* Nic::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  auto qp = std::make_unique<QueuePair>();
  const ibv_qp_cap& cap = attr->cap;
  qp->nic = this;
  qp->send_cq = reinterpret_cast<CompletionQueue*>(attr->send_cq);
  qp->receive_cq = reinterpret_cast<CompletionQueue*>(attr->recv_cq);
  qp->max_sge = cap.max_send_sge;
  qp->max_receive_sge = cap.max_recv_sge;
  qp->max_inline = cap.max_inline_data;
  qp->signal_all = attr->sq_sig_all != 0;
  make_slots(qp->sends, cap.max_send_wr, cap.max_send_sge);
  make_slots(qp->receives, cap.max_recv_wr, cap.max_recv_sge);
  qp->verbs.context = pd->context;
  qp->verbs.qp_context = attr->qp_context;
  qp->verbs.pd = pd;
  qp->verbs.send_cq = attr->send_cq;
  qp->verbs.recv_cq = attr->recv_cq;
  qp->verbs.qp_type = IBV_QPT_RC;
  qp->verbs.state = IBV_QPS_RESET;
  std::lock_guard lock(core_.turn_lock);
  if (!queue_pairs_.add(*qp)) {
    errno = ENOMEM;
    return nullptr;
  }
  ++qp->send_cq->users;
  ++qp->receive_cq->users;
  qp->send_cq->note_user(qp->index);
  qp->receive_cq->note_user(qp->index);
  return qp.release();
}

void Nic::destroy_qp(QueuePair* qp) {
  std::unique_ptr<QueuePair> owner(qp);
  std::lock_guard lock(core_.turn_lock);
  take_down(*qp);
  qp->events->forget_qp(qp->verbs.qp_num);
  DCHECK(qp->send_cq->users > 0 && qp->receive_cq->users > 0);
  queue_pairs_.remove(*qp);
  --qp->send_cq->users;
  --qp->receive_cq->users;
}

// Takes both rings from the queue pair.
void Nic::cut(QueuePair& qp) noexcept {
  DCHECK(core_.turning() && qp.nic == this);
  if (qp.out.ring != nullptr) qp.out.ring->close();
  incoming_.detach(qp);
  core_.backlog.erase(qp.index);
  core_.completing.erase(qp.index);
  incoming_.forget_offers(qp);
}

// Also takes every completion that names the queue pair out of its queues.
void Nic::take_down(QueuePair& qp) noexcept {
  cut(qp);
  qp.send_cq->forget(&qp);
  qp.receive_cq->forget(&qp);
}

bool Nic::in_use(const CompletionQueue& cq) {
  std::lock_guard lock(core_.turn_lock);
  return cq.users != 0;
}

void Nic::set_state(QueuePair& qp, ibv_qp_state state) noexcept {
  qp.state.store(state, std::memory_order_seq_cst);
  qp.verbs.state = state;
}

int Nic::initialise(QueuePair& qp, int access, std::uint16_t pkey) {
  std::lock_guard lock(core_.turn_lock);
  std::lock_guard send_lock(qp.sends.lock);
  const int state = qp.state.load(std::memory_order_relaxed);
  if (state != IBV_QPS_RESET && state != IBV_QPS_INIT) return EINVAL;
  DCHECK(qp.nic == this && qp.out.ring == nullptr && qp.in.ring == nullptr);
  qp.attributes.access = access;
  qp.attributes.pkey = pkey;
  set_state(qp, IBV_QPS_INIT);
  return 0;
}

int Nic::connect(QueuePair& qp, const Attributes& attributes, Outgoing out) {
  std::lock_guard lock(core_.turn_lock);
  {
    std::lock_guard send_lock(qp.sends.lock);
    if (qp.state.load(std::memory_order_relaxed) != IBV_QPS_INIT) return EINVAL;
    DCHECK(out.ring != nullptr && out.peer != nullptr && out.peer_index < kQpsMax);
    DCHECK(out.ring->slots() == qp.sends.slots.size() && qp.out.ring == nullptr);
    qp.attributes = attributes;
    qp.attributes.own_lid = core_.lid;
    qp.out = std::move(out);
    set_state(qp, IBV_QPS_RTR);
  }
  incoming_.find_offer(qp);
  return 0;
}

int Nic::start(QueuePair& qp, const Attributes& attributes) {
  std::lock_guard lock(core_.turn_lock);
  std::lock_guard send_lock(qp.sends.lock);
  if (qp.state.load(std::memory_order_relaxed) != IBV_QPS_RTR) return EINVAL;
  DCHECK(qp.out.ring != nullptr && qp.sends.posted.load(std::memory_order_relaxed) == 0);
  qp.attributes = attributes;
  qp.out.ring->header().rnr_retry.store(attributes.rnr_retry, std::memory_order_relaxed);
  set_state(qp, IBV_QPS_RTS);
  return 0;
}

int Nic::fail(QueuePair& qp) {
  std::lock_guard lock(core_.turn_lock);
  const int state = qp.state.load(std::memory_order_relaxed);
  if (state == IBV_QPS_RESET) return EINVAL;
  TurnTime time(core_.clock);
  if (qp.out.ring != nullptr && state == IBV_QPS_RTS && !core_.mute(time))
    initiator_.take_responses(qp, time);
  if (qp.state.load(std::memory_order_relaxed) != IBV_QPS_ERR)
    initiator_.to_error(qp, IBV_WC_WR_FLUSH_ERR);
  return 0;
}

// The last writes of a port land long before anybody learns that it is down.
void Nic::watch_port(TurnTime& time) noexcept {
  if (port_.watch(time)) lose_card();
  if (!port_.up()) core_.device_writes.land();
}

// The card is gone, and with it all that its contexts have made. What it has written is in memory,
// or on its way there: its users may still read completions. What is written to it meets nobody.
void Nic::lose_card() noexcept {
  DCHECK(core_.turning());
  card_.fetch_add(1, std::memory_order_release);
  core_.device_writes.land();
  for (QueuePair* qp : queue_pairs_.slots()) {
    if (qp == nullptr) continue;
    std::lock_guard send_lock(qp->sends.lock);
    std::lock_guard receive_lock(qp->receives.lock);
    set_state(*qp, IBV_QPS_RESET);
    cut(*qp);
    qp->out = Outgoing{};
  }
  core_.regions.clear();
}

void Nic::reset(QueuePair& qp) {
  std::lock_guard lock(core_.turn_lock);
  std::lock_guard send_lock(qp.sends.lock);
  std::lock_guard receive_lock(qp.receives.lock);
  set_state(qp, IBV_QPS_RESET);
  take_down(qp);
  SendQueue& sends = qp.sends;
  sends.poisoned = false;
  sends.posted.store(0, std::memory_order_relaxed);
  sends.freed.store(0, std::memory_order_relaxed);
  sends.completed = sends.read_done = sends.streamed = sends.streamed_bytes = 0;
  qp.receives.posted.store(0, std::memory_order_relaxed);
  qp.receives.freed.store(0, std::memory_order_relaxed);
  qp.receives.taken = 0;
  qp.attributes = Attributes{};
  qp.out = Outgoing{};
  qp.pace = Pace{};
  qp.retry_deadline_ns = 0;
}

void Nic::take_offer(const Offer& offer) {
  std::lock_guard lock(core_.turn_lock);
  incoming_.take_offer(offer, queue_pairs_.find_num(offer.to_qp_num));
}

void Nic::peer_changed(const Peer& peer) {
  std::lock_guard lock(core_.turn_lock);
  for (QueuePair* qp : queue_pairs_.slots()) {
    if (qp == nullptr) continue;
    if (qp->out.peer.get() == &peer) {
      core_.completing.insert(qp->index);
      if (Board* board = peer.board(); board != nullptr)
        board->ring_request(qp->out.peer_nic, qp->out.peer_index);
    }
    if (qp->in.peer.get() == &peer) core_.serving.insert(qp->index);
  }
}

}  // namespace mesh::soft
