#pragma once
// One NIC as initiator: it takes the responses of targets, completes work requests, watches paths
// that do not answer, and flushes queue pairs that fail. Thread: the NIC's turn lock. Bound: the
// depth of the queue pair's queues for each call.

#include <infiniband/verbs.h>

#include "src/soft/incoming_rings.h"
#include "src/soft/nic_core.h"
#include "src/soft/queue_pair.h"

#include <cstdint>

namespace mesh::soft {

class Initiator {
 public:
  Initiator(NicCore& core, IncomingRings& incoming) : core_(core), incoming_(incoming) {}

  bool complete(QueuePair& qp, TurnTime& time) noexcept;  // one turn's work; true: it moved
  std::uint64_t due_ns(QueuePair& qp, TurnTime& time) noexcept;
  bool take_responses(QueuePair& qp, TurnTime& time) noexcept;
  void to_error(QueuePair& qp, ibv_wc_status first) noexcept;
  // Returns true if nothing is outstanding.
  bool is_idle(QueuePair& qp) noexcept;
  // Returns true if a work request that is not executed yet reads or writes the region of this key.
  bool uses(QueuePair& qp, std::uint32_t key) noexcept;

 private:
  bool drain_read(QueuePair& qp) noexcept;
  bool stream(QueuePair& qp) noexcept;
  bool watch(QueuePair& qp, TurnTime& time) noexcept;
  void complete_send(QueuePair& qp, ibv_wc_status status) noexcept;
  bool flush(QueuePair& qp) noexcept;
  bool cut_off(const QueuePair& qp, TurnTime& time) noexcept;

  NicCore& core_;
  IncomingRings& incoming_;
};

}  // namespace mesh::soft
