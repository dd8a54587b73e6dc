#pragma once
// One NIC as target: it pulls requests from peers' rings, checks them against the regions of its
// own NIC, copies, completes and answers. Thread: the NIC's turn lock. Bound: the turn's budget.

#include <infiniband/verbs.h>

#include "src/soft/incoming_rings.h"
#include "src/soft/initiator.h"
#include "src/soft/nic_core.h"
#include "src/soft/queue_pair.h"

#include <cstddef>
#include <cstdint>

namespace mesh::soft {

inline constexpr std::uint32_t kTurnRequests = 256;
inline constexpr std::uint64_t kTurnBytes = 1 << 20;

// The work that one turn may still execute.
struct TurnBudget {
  std::uint32_t requests = kTurnRequests;
  std::uint64_t bytes = kTurnBytes;
};

class Target {
 public:
  Target(NicCore& core, IncomingRings& incoming, Initiator& initiator)
      : core_(core), incoming_(incoming), initiator_(initiator) {}

  bool serve(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept;  // true: it moved
  std::uint64_t due_ns(QueuePair& qp, TurnTime& time) noexcept;

 private:
  enum class Verdict : std::uint8_t {
    Done,
    Later,     // the request is not due, or a receive or room is missing: look again
    Fail,      // the initiator's queue pair fails, ours lives
    FailBoth,  // both queue pairs fail, as reliable connected ones do
    Drop,      // there is no answer at all
  };
  struct Outcome {
    Verdict verdict = Verdict::Done;
    ibv_wc_status status = IBV_WC_SUCCESS;  // for the initiator
  };
  Outcome execute(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept;
  Outcome execute_write(QueuePair& qp, RingRequest& request, TurnTime& time,
                        TurnBudget& budget) noexcept;
  // Under FaultKind::OutOfOrder, before a plain write is executed. Now: it is to land now.
  enum class Landing : std::uint8_t { Now, Held, Landed };
  Landing out_of_order(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept;
  void overtake(QueuePair& qp, bool all, TurnTime& time, TurnBudget& budget) noexcept;
  bool lands_late(QueuePair& qp, const RingRequest& request, TurnTime& time) noexcept;
  bool land_late(QueuePair& qp, TurnTime& time) noexcept;  // true: some are still to land
  bool has_expected_psn(const QueuePair& qp, std::uint64_t number) const noexcept;
  bool may_be_read(const QueuePair& qp, const RingRequest& request) const noexcept;
  std::byte* remote_range(const QueuePair& qp, const RingRequest& request,
                          int access) const noexcept;
  Outcome execute_send(QueuePair& qp, RingRequest& request, TurnTime& time,
                       TurnBudget& budget) noexcept;
  Outcome execute_read(QueuePair& qp, RingRequest& request, TurnBudget& budget) noexcept;
  Outcome receiver_ready(QueuePair& qp, TurnTime& time) noexcept;
  Outcome pull(QueuePair& qp, RingRequest& request, std::byte* to, std::size_t* bytes) noexcept;
  void complete_receive(QueuePair& qp, const RingRequest& request, ibv_wc_status status) noexcept;
  void respond(QueuePair& qp, ibv_wc_status status) noexcept;
  std::uint64_t request_due_ns(QueuePair& qp, TurnTime& time) noexcept;
  bool stalled(QueuePair& qp, TurnTime& time) noexcept;

  NicCore& core_;
  IncomingRings& incoming_;
  Initiator& initiator_;
};

}  // namespace mesh::soft
