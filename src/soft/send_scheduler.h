#pragma once
// The modelled wire of one NIC's sends: queue pairs take turns by quanta, each within its cap. A
// request becomes visible to its target with the time at which its last byte arrives. Times are
// computed from the link's virtual time, so a late turn costs no bandwidth. Thread: the NIC's turn
// lock. Bound: kScheduleSteps quanta in one turn.

#include "src/soft/nic_core.h"
#include "src/soft/queue_pair.h"
#include "src/soft/queue_pair_table.h"

#include <cstdint>

namespace mesh::soft {

class SendScheduler {
 public:
  SendScheduler(NicCore& core, QueuePairTable& queue_pairs)
      : core_(core), queue_pairs_(queue_pairs) {}

  bool turn(TurnTime& time) noexcept;             // true: something was sent
  std::uint64_t due_ns(TurnTime& time) noexcept;  // UINT64_MAX: there is nothing to send

 private:
  std::uint32_t next_sender(TurnTime& time, std::uint64_t* at_ticks) noexcept;
  std::uint64_t may_start(const SendSlot& slot) const noexcept;
  std::uint64_t sends_at(std::uint32_t index, TurnTime& time) noexcept;
  void send_quantum(QueuePair& qp, std::uint64_t at_ticks) noexcept;

  NicCore& core_;
  QueuePairTable& queue_pairs_;
  std::uint32_t from_ = 0;  // index of the queue pair to begin with
};

}  // namespace mesh::soft
