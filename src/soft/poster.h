#pragma once
// How a NIC takes work requests from its user: it checks them, remembers them, publishes them to
// the target and rings the bell. Nothing completes here. Thread: any; each call holds the send or
// receive lock of its queue pair and never the turn lock. Bound: the depth of the queue.

#include <infiniband/verbs.h>

#include "src/soft/nic_core.h"
#include "src/soft/queue_pair.h"

namespace mesh::soft {

class Poster {
 public:
  explicit Poster(NicCore& core) : core_(core) {}

  int send(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
  int receive(QueuePair& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept;

 private:
  struct Posting;
  void spend_on(const ibv_send_wr* wr) noexcept;
  int stage(QueuePair& qp, const ibv_send_wr& wr, Posting& posting) noexcept;
  void check_sources(QueuePair& qp, const ibv_send_wr& wr, SendSlot& slot, RingSge* seen) noexcept;
  void publish(QueuePair& qp, Posting& posting) noexcept;

  NicCore& core_;
};

}  // namespace mesh::soft
