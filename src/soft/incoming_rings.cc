#include "src/soft/incoming_rings.h"

#include "src/base/check.h"

#include <cstring>

namespace mesh::soft {

namespace {
// Returns true if the keys are of one partition and at least one is a full member's (top bit set).
bool in_one_partition(std::uint16_t a, std::uint16_t b) {
  constexpr std::uint16_t kFull = 0x8000;
  return ((a ^ b) & ~kFull) == 0 && ((a | b) & kFull) != 0;
}

bool fits(const QueuePair& qp, const Offer& offer) {
  if (!in_one_partition(qp.attributes.pkey, offer.pkey)) return false;
  if (offer.gid_type != qp.attributes.gid_type) return false;
  if (offer.to_lid != 0 && offer.to_lid != qp.attributes.own_lid) return false;
  return offer.to_qp_num == qp.verbs.qp_num && offer.from_qp_num == qp.attributes.dest_qp_num &&
         std::memcmp(offer.gid.raw, qp.attributes.dest_gid.raw, sizeof offer.gid.raw) == 0;
}
}  // namespace

void IncomingRings::take_offer(const Offer& offer, QueuePair* qp) {
  DCHECK(core_.turning() && (qp == nullptr || qp->verbs.qp_num == offer.to_qp_num));
  std::erase_if(offers_,
                [](const Offer& held) { return held.ring->closed() || held.peer->lost(); });
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

void IncomingRings::find_offer(QueuePair& qp) {
  DCHECK(core_.turning() && qp.in.ring == nullptr);
  for (auto it = offers_.begin(); it != offers_.end(); ++it) {
    if (!fits(qp, *it) || it->ring->closed()) continue;
    attach(qp, *it);
    offers_.erase(it);
    return;
  }
}

void IncomingRings::forget_offers(const QueuePair& qp) noexcept {
  DCHECK(core_.turning());
  std::erase_if(offers_, [&](const Offer& offer) {
    return offer.to_qp_num == qp.verbs.qp_num || offer.ring->closed();
  });
}

void IncomingRings::attach(QueuePair& qp, const Offer& offer) {
  DCHECK(core_.turning() && fits(qp, offer));
  if (qp.in.late != nullptr) qp.in.late->land_all(core_.regions);
  qp.in = Incoming{};
  qp.in.ring = offer.ring;
  qp.in.peer = offer.peer;
  qp.in.peer_nic = offer.from_nic;
  qp.in.peer_index = offer.from_qp_num % kQpsMax;
  qp.in.pid = offer.pid;
  offer.ring->header().streams.store(offer.streams ? 1 : 0, std::memory_order_relaxed);
  offer.ring->set_state(TargetState::Attached);
  core_.serving.insert(qp.index);
  if (Board* board = offer.peer->board(); board != nullptr)
    board->ring_response(offer.from_nic, qp.in.peer_index);
}

void IncomingRings::detach(QueuePair& qp) noexcept {
  DCHECK(core_.turning());
  core_.serving.erase(qp.index);
  if (qp.in.ring == nullptr) return;
  if (qp.in.late != nullptr) qp.in.late->land_all(core_.regions);
  qp.in.ring->set_state(TargetState::Dead);
  if (Board* board = qp.in.peer->board(); board != nullptr)
    board->ring_response(qp.in.peer_nic, qp.in.peer_index);
  qp.in = Incoming{};
}

}  // namespace mesh::soft
