#pragma once
// The rings that peers offer to one NIC. Each is attached to the queue pair that it is for, or held
// until that queue pair can receive. Thread: the NIC's turn lock. Bound: a held offer leaves when
// its queue pair does, when its ring is closed or when its peer is lost.

#include <infiniband/verbs.h>

#include "src/soft/nic_core.h"
#include "src/soft/queue_pair.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::soft {

// An offer of a ring, which holds the requests that a peer's queue pair has for one of ours.
struct Offer {
  std::shared_ptr<Ring> ring;
  std::shared_ptr<Peer> peer;  // the peer that offers
  ibv_gid gid{};               // of the offering NIC
  int from_nic = 0, to_nic = 0;
  std::uint32_t from_qp_num = 0, to_qp_num = 0;
  pid_t pid = 0;         // 0: this process
  bool streams = false;  // sources come through the ring's stream
  // InfiniBand: the offering queue pair's partition key, and the LID that it sends to. LID 0 means
  // any port, because packets with a global header are routed by GID.
  std::uint16_t pkey = 0, to_lid = 0;
  std::uint8_t gid_type = 0;  // of the offering queue pair, as in Attributes
};

class IncomingRings {
 public:
  explicit IncomingRings(NicCore& core) : core_(core) {}

  // Takes an offer for `qp`. If it is null, this NIC has no queue pair of that number, and the
  // offer is refused.
  void take_offer(const Offer& offer, QueuePair* qp);
  // Attaches the ring that was held for the queue pair, if there is one.
  void find_offer(QueuePair& qp);
  void forget_offers(const QueuePair& qp) noexcept;
  // Takes the peer's ring from the queue pair and tells the peer. Writes that were delayed on
  // purpose (LateWrites) land first.
  void detach(QueuePair& qp) noexcept;

 private:
  void attach(QueuePair& qp, const Offer& offer);

  NicCore& core_;
  std::vector<Offer> offers_;  // for queue pairs that cannot receive yet
};

}  // namespace mesh::soft
