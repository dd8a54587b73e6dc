#pragma once
// The software fabric as a verbs provider: one process of a host of a fabric file. Up to 16
// processes are one host, each with its own queue pairs and memory; the ports, their rates and the
// faults are the host's. Several hosts may live in one process, joined by memory, or in processes
// of their own, joined by memfd and process_vm_readv. On a manual clock only hosts of this process
// on the same clock meet: they need no sockets, and many fabrics may live side by side. Thread:
// any, as Provider. Bound: the fabric file's.

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
  None,  // only poll_cq, post_send and turn() move the NICs
};

struct SoftOptions {
  FabricFile fabric;  // validated
  std::string host;   // empty: the first host of the file that no process is
  CopyMode copy = CopyMode::Auto;
  Agent agent = Agent::Thread;
  Clock clock;  // the wall clock, or a manual one for simulations
};

// Counted since the provider was opened. The work is what this process posted; rnr_events happened
// at its receive queues.
struct SoftCounters {
  std::uint64_t work_requests = 0, bytes = 0, rnr_events = 0, doorbells = 0;
};

class SoftProvider : public verbs::Provider {
 public:
  // Opens the host. Returns NotFound if it is not in the file, and Exhausted if it has no place for
  // another process.
  static Result<std::unique_ptr<SoftProvider>> open(SoftOptions options);

  // Makes one turn of every NIC of this host at the clock's time. Returns true if something moved.
  // It never blocks, and makes no system call when all peers are in this process.
  virtual bool turn() = 0;

  // Returns the earliest time at which a turn could move something, for a manual clock: 0 for now,
  // UINT64_MAX if nothing is pending.
  virtual std::uint64_t next_due_ns() const = 0;

  // On a manual clock calls take no time. After each call the owner of the clock takes what the
  // host's CPU has spent since (FabricFile::costs and what was added here), and lets the host act
  // again when that time has passed. Thread: any.
  virtual void spend_cpu_ns(std::uint64_t ns) = 0;
  virtual std::uint64_t take_cpu_ns() = 0;

  // Returns the faults that are to happen on the host. Processes other than this one hear of a
  // change when they next look; tell_host() makes them look. Thread: any.
  virtual FaultPlan& faults() = 0;

  // Fails a connected queue pair of the NIC (the n-th, counted from 0), or all with -1, as if the
  // device could no longer serve it: it is flushed, and an event tells. An empty name means every
  // NIC. Returns how many failed. Thread: any.
  virtual std::size_t fail_queue_pairs(const std::string& nic, int only) = 0;

  // Swaps plugs as FabricFile::swap_plugs() does. Every host of the fabric must be told, and no
  // other thread may use one meanwhile. Rates stay with the ports, and connected queue pairs as
  // they are: take the ports down first, as a pulled cable does.
  virtual void swap_plugs(const NicRef& one, const NicRef& other) = 0;

  // Returns the counters of one NIC; all zero for an unknown name.
  virtual SoftCounters counters(const std::string& nic) const = 0;
};

}  // namespace mesh::soft
