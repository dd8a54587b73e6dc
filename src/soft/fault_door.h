#pragma once
// Faults while a host runs, told from another process of the same user: one message to the host's
// rendezvous, one answer when the fault has happened. What perf/mesh_fault calls. Thread: any;
// tell_host waits for the answer.

#include <mesh/status.h>

#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mesh::soft {

enum class FaultVerb : std::uint32_t {
  Arm,             // the fault
  Lift,            // those of its kind, NIC and peer host
  LiftAll,         // whatever is armed
  FailQueuePairs,  // of its NIC, now: `queue_pair`, or all
  Look,            // changes nothing
};

struct FaultOrder {
  FaultVerb verb = FaultVerb::Arm;
  Fault fault{};
  int queue_pair = -1;  // FailQueuePairs: the n-th connected one, from 0; -1: all
};

struct FaultAnswer {
  Errc code = Errc::Ok;     // Arm: as FaultPlan::arm(); NotFound: the host has no such NIC
  std::uint32_t count = 0;  // FailQueuePairs: how many it were
  // Of the order's NIC, afterwards; nothing where it names none.
  bool port_up = false;
  std::uint64_t work_requests = 0, bytes = 0;  // posted by this host
};

// NotFound: no process is that host. System: it does not answer, as when it is stopped, or is of
// another version.
Result<FaultAnswer> tell_host(const FabricFile& fabric, const std::string& host,
                              const FaultOrder& order);
inline constexpr int kFaultAnswerMs = 5000;

// The messages, for the rendezvous. False: not well-formed.
bool decode(std::span<const std::byte> bytes, FaultOrder* order);

}  // namespace mesh::soft
