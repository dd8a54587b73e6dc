#pragma once
// Another process of the same user can cause faults on a running host: it sends one message to each
// process that is the host, and gets one answer from each when the fault has happened there.
// perf/mesh_fault does so. Thread: any; tell_host waits for the answers. Bound: one message each
// way and process.

#include <mesh/status.h>

#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mesh::soft {

enum class FaultVerb : std::uint32_t {
  Arm,             // arms the fault
  Lift,            // ends all faults of its kind, NIC and peer host
  LiftAll,         // ends all faults
  FailQueuePairs,  // fails `queue_pair` of the fault's NIC, or all, at once
  Look,            // changes nothing
};

struct FaultOrder {
  FaultVerb verb = FaultVerb::Arm;
  Fault fault{};
  int queue_pair = -1;  // FailQueuePairs: the n-th connected one, from 0; -1: all
};

struct FaultAnswer {
  Errc code = Errc::Ok;     // Arm: as FaultPlan::arm(); NotFound: the host has no such NIC
  std::uint32_t count = 0;  // FailQueuePairs: how many failed
  // The state of the order's NIC afterwards. Zero if the order names no NIC.
  std::uint32_t connected = 0;  // queue pairs of one process, before they failed
  bool port_up = false;
  std::uint64_t work_requests = 0, bytes = 0;  // posted by all processes that are the host now
};

// Sends an order to the host. Returns NotFound if no process is that host, and System if one does
// not answer within kAnswerMs, because it is stopped or of another version.
Result<FaultAnswer> tell_host(const FabricFile& fabric, const std::string& host,
                              const FaultOrder& order);

// Reads a message for the rendezvous. Returns false if it is not well-formed.
bool decode(std::span<const std::byte> bytes, FaultOrder* order);

}  // namespace mesh::soft
