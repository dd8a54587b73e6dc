// The control path of a NIC: regions, queue pairs, state changes, offers of rings. Everything here
// holds the turn lock, so when a call returns, no turn still acts on what it took away.

#include "src/base/check.h"
#include "src/soft/nic.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace mesh::soft {

namespace {
// A queue pair number has 24 bits: 12 bits of generation over 12 bits of index.
constexpr std::uint32_t kGenerations = 4096;
static_assert(std::uint64_t{kGenerations} * kQpsMax == 1u << 24);
}  // namespace

std::uint32_t Nic::add_region(const MemoryTable::Region& region) {
  std::lock_guard lock(turn_lock_);
  return regions_.add(region);
}

// Removing a region that a posted request still reads is the user's mistake. The queue pair fails,
// as with hardware, and nothing reads the region afterwards.
void Nic::remove_region(std::uint32_t key) {
  std::lock_guard lock(turn_lock_);
  regions_.remove(key);
  TurnTime time(clock_);
  for (QueuePair* qp : qps_)
    if (qp != nullptr && qp->out.ring != nullptr && uses(*qp, key))
      to_error(*qp, IBV_WC_LOC_PROT_ERR);
}

bool Nic::uses(QueuePair& qp, std::uint32_t key) noexcept {
  DCHECK(turning());
  std::lock_guard lock(qp.sends.lock);
  const std::uint64_t posted = qp.sends.posted.load(std::memory_order_acquire);
  const std::uint64_t executed =
      std::max(qp.sends.completed, qp.out.ring->header().responded.load(std::memory_order_acquire));
  for (std::uint64_t number = qp.sends.completed; number < posted; ++number) {
    const SendSlot& slot = qp.sends.slot(number);
    if (slot.is_inline || (number < executed && slot.opcode != IBV_WR_RDMA_READ)) continue;
    for (std::size_t i = 0; i < slot.sges; ++i)
      if (slot.sge[i].lkey == key && slot.sge[i].bytes != 0) return true;
  }
  return false;
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
  qp->sends.depth = cap.max_send_wr;
  qp->sends.slots.resize(std::bit_ceil(std::max(cap.max_send_wr, 4u)));
  qp->receives.depth = cap.max_recv_wr;
  qp->receives.slots.resize(std::bit_ceil(std::max(cap.max_recv_wr, 4u)));
  qp->verbs.context = pd->context;
  qp->verbs.qp_context = attr->qp_context;
  qp->verbs.pd = pd;
  qp->verbs.send_cq = attr->send_cq;
  qp->verbs.recv_cq = attr->recv_cq;
  qp->verbs.qp_type = IBV_QPT_RC;
  qp->verbs.state = IBV_QPS_RESET;

  std::lock_guard lock(turn_lock_);
  const auto free_slot = std::find(qps_.begin(), qps_.end(), nullptr);
  if (free_slot == qps_.end()) {
    if (qps_.size() >= kQpsMax) {
      errno = ENOMEM;
      return nullptr;
    }
    // Different hosts start at different numbers, so that a mixed-up number is noticed.
    const auto seed = static_cast<std::uint32_t>(self_.host * 37 + self_.nic * 11);
    generations_.push_back(seed % (kGenerations - 1));
    qps_.push_back(nullptr);
    qp->index = static_cast<std::uint32_t>(qps_.size() - 1);
  } else {
    qp->index = static_cast<std::uint32_t>(free_slot - qps_.begin());
  }
  std::uint32_t& generation = generations_[qp->index];
  generation = generation % (kGenerations - 1) + 1;
  qp->verbs.qp_num = generation * kQpsMax + qp->index;
  ++qp->send_cq->users;
  ++qp->receive_cq->users;
  DCHECK(generation != 0 && qp->verbs.qp_num >> 24 == 0 && qps_[qp->index] == nullptr);
  qps_[qp->index] = qp.get();
  return qp.release();
}

void Nic::destroy_qp(QueuePair* qp) {
  std::unique_ptr<QueuePair> owner(qp);
  std::lock_guard lock(turn_lock_);
  take_down(*qp);
  qp->events->forget_qp(qp->verbs.qp_num);
  gone_.add(*qp);
  DCHECK(find(qp->index) == qp && qp->send_cq->users > 0 && qp->receive_cq->users > 0);
  qps_[qp->index] = nullptr;
  --qp->send_cq->users;
  --qp->receive_cq->users;
}

// Takes both rings from the queue pair, and takes every completion that names it out of its queues.
void Nic::take_down(QueuePair& qp) noexcept {
  DCHECK(turning() && qp.nic == this);
  if (qp.out.ring != nullptr) qp.out.ring->close();
  detach(qp);
  backlog_.erase(qp.index);
  completing_.erase(qp.index);
  qp.send_cq->forget(&qp);
  qp.receive_cq->forget(&qp);
  std::erase_if(offers_, [&](const Offer& offer) {
    return offer.to_qp_num == qp.verbs.qp_num || offer.ring->closed();
  });
}

bool Nic::in_use(const CompletionQueue& cq) {
  std::lock_guard lock(turn_lock_);
  return cq.users != 0;
}

void Nic::set_state(QueuePair& qp, ibv_qp_state state) noexcept {
  qp.state.store(state, std::memory_order_seq_cst);
  qp.verbs.state = state;
}

void Nic::initialise(QueuePair& qp, int access) {
  std::lock_guard lock(turn_lock_);
  std::lock_guard send_lock(qp.sends.lock);
  DCHECK(qp.nic == this && qp.out.ring == nullptr && qp.in.ring == nullptr);
  qp.attributes.access = access;
  set_state(qp, IBV_QPS_INIT);
}

void Nic::connect(QueuePair& qp, const Attributes& attributes, Outgoing out) {
  std::lock_guard lock(turn_lock_);
  {
    std::lock_guard send_lock(qp.sends.lock);
    DCHECK(out.ring != nullptr && out.peer != nullptr && out.peer_index < kQpsMax);
    DCHECK(out.ring->slots() == qp.sends.slots.size() && qp.out.ring == nullptr);
    qp.attributes = attributes;
    qp.out = std::move(out);
    set_state(qp, IBV_QPS_RTR);
  }
  for (auto it = offers_.begin(); it != offers_.end(); ++it) {
    if (!fits(qp, *it) || it->ring->closed()) continue;
    attach(qp, *it);
    offers_.erase(it);
    return;
  }
}

bool Nic::fits(const QueuePair& qp, const Offer& offer) noexcept {
  return offer.to_qp_num == qp.verbs.qp_num && offer.from_qp_num == qp.attributes.dest_qp_num &&
         std::memcmp(offer.gid.raw, qp.attributes.dest_gid.raw, sizeof offer.gid.raw) == 0;
}

void Nic::start(QueuePair& qp, const Attributes& attributes) {
  std::lock_guard lock(turn_lock_);
  std::lock_guard send_lock(qp.sends.lock);
  DCHECK(qp.out.ring != nullptr && qp.sends.posted.load(std::memory_order_relaxed) == 0);
  qp.attributes = attributes;
  qp.out.ring->header().rnr_retry.store(attributes.rnr_retry, std::memory_order_relaxed);
  set_state(qp, IBV_QPS_RTS);
}

void Nic::fail(QueuePair& qp) {
  std::lock_guard lock(turn_lock_);
  TurnTime time(clock_);
  if (qp.out.ring != nullptr && qp.state.load(std::memory_order_relaxed) == IBV_QPS_RTS)
    take_responses(qp, time);
  if (qp.state.load(std::memory_order_relaxed) != IBV_QPS_ERR) to_error(qp, IBV_WC_WR_FLUSH_ERR);
}

void Nic::reset(QueuePair& qp) {
  std::lock_guard lock(turn_lock_);
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
  std::lock_guard lock(turn_lock_);
  std::erase_if(offers_,
                [](const Offer& held) { return held.ring->closed() || held.peer->lost(); });
  QueuePair* qp = find_num(offer.to_qp_num);
  const int state = qp == nullptr ? IBV_QPS_ERR : qp->state.load(std::memory_order_relaxed);
  const bool connected = state == IBV_QPS_RTR || state == IBV_QPS_RTS;
  const bool vacant =
      connected && (qp->in.ring == nullptr || qp->in.ring->closed()) && fits(*qp, offer);
  if (vacant) {
    attach(*qp, offer);
    return;
  }
  const bool later = state == IBV_QPS_RESET || state == IBV_QPS_INIT;
  if (later) offers_.push_back(offer);
  offer.ring->set_state(later ? TargetState::Held : TargetState::Dead);
  if (Board* board = offer.peer->board(); board != nullptr)
    board->ring_response(offer.from_nic, offer.from_qp_num % kQpsMax);
}

void Nic::peer_changed(const Peer& peer) {
  std::lock_guard lock(turn_lock_);
  for (QueuePair* qp : qps_) {
    if (qp == nullptr) continue;
    if (qp->out.peer.get() == &peer) {
      completing_.insert(qp->index);
      if (Board* board = peer.board(); board != nullptr)
        board->ring_request(qp->out.peer_nic, qp->out.peer_index);
    }
    if (qp->in.peer.get() == &peer) serving_.insert(qp->index);
  }
}

}  // namespace mesh::soft
