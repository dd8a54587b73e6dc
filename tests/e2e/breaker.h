#pragma once
// Breaks the software fabric under a running job, from within one of its ranks: what
// perf/mesh_fault does by hand. Thread: one owner at a time.

#include "src/soft/fault_door.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mesh::e2e {

// Ways to lose what a NIC of host a carries.
enum class Blow : std::uint8_t {
  PulledCable,   // both ports are down, and say so
  SilentPort,    // a's port is dead without its peer being told, as behind a switch
  QueuePair,     // one fails at once
  Adapter,       // all of the NIC do
  NextWrite,     // the next work request runs out of retries
  RefusedWrite,  // the next work request is not taken
  Card,          // a's card is gone, and its peer's port is down
};
inline constexpr int kBlows = 7;
const char* name_of(Blow blow);

class Breaker {
 public:
  Breaker();  // of the fabric that this process' environment names; fails the scenario where there
              // is none

  const std::vector<soft::NicSpec>& nics() const { return fabric_.hosts.front().nics; }
  void strike(Blow blow, const std::string& nic, std::uint64_t random);
  void pull(const std::string& nic);
  void plug(const std::string& nic);            // and nothing else is armed any more
  std::uint64_t bytes(const std::string& nic);  // posted by host a
  void delay_writes(const std::string& nic,
                    std::uint64_t delay_ns);   // those that host a posts from now on
  void delay_no_more(const std::string& nic);  // those that are posted already stay late

 private:
  void take_card(const std::string& nic);
  void fail_one_queue_pair(const soft::Fault& fault, std::uint64_t random);
  soft::FaultAnswer tell(std::size_t host, const soft::FaultOrder& order);
  void tell_both(const std::string& nic, soft::FaultVerb verb, soft::FaultKind kind);

  soft::FabricFile fabric_;
};

}  // namespace mesh::e2e
