#pragma once
// The software fabric as a verbs provider: one host of a fabric file in this process. Several may
// live in one process (they are then joined by memory), or each in a process of its own (joined by
// memfd and process_vm_readv). With a manual clock only hosts of this process on the same clock
// meet: no sockets, and many fabrics side by side. Thread: any, as Provider.

#include <mesh/status.h>

#include "src/base/clock.h"
#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <memory>
#include <string>

namespace mesh::soft {

enum class CopyMode : std::uint8_t { Auto, Cma, Cells };
enum class Agent : std::uint8_t {
  Thread,
  None
};  // None: only poll_cq, post_send and turn() move the NICs

struct SoftOptions {
  FabricFile fabric;  // validated
  std::string host;   // empty: the first host of the file whose name can be claimed
  CopyMode copy = CopyMode::Auto;
  Agent agent = Agent::Thread;
  Clock clock;  // wall, or manual for simulations
};

// Since the provider was opened; posted by this host, but rnr_events happened at its receive
// queues.
struct SoftCounters {
  std::uint64_t work_requests = 0, bytes = 0, rnr_events = 0, doorbells = 0;
};

class SoftProvider : public verbs::Provider {
 public:
  // NotFound: the host is not in the file. Exhausted: its name is claimed by another process.
  static Result<std::unique_ptr<SoftProvider>> open(SoftOptions options);

  // One turn of every NIC of this host at the clock's time. True: something moved. Never blocks, no
  // system call when all peers are in this process.
  virtual bool turn() = 0;

  // Earliest time at which a turn could move something, for a manual clock; 0: now; UINT64_MAX:
  // nothing pending.
  virtual std::uint64_t next_due_ns() const = 0;

  // With a manual clock calls take no time: whoever moves it asks after each what the host's CPU
  // has spent since it was last asked (FabricFile::costs, and what it has itself added), and lets
  // the host act again when that has gone by. Thread: any.
  virtual void spend_cpu_ns(std::uint64_t ns) = 0;
  virtual std::uint64_t take_cpu_ns() = 0;

  // Faults to come. Thread: any.
  virtual FaultPlan& faults() = 0;

  // A fault of this moment: a connected queue pair of the NIC (the n-th, counted from 0) or, with
  // -1, all of them fail as if the device could no longer serve them: flushed, and an event tells.
  // Empty: of every NIC. How many it were. Thread: any.
  virtual std::size_t fail_queue_pairs(const std::string& nic, int only) = 0;

  // Of one NIC by name; all zero for a name that is not there.
  virtual SoftCounters counters(const std::string& nic) const = 0;
};

}  // namespace mesh::soft
