#pragma once
// Breaks the software fabric under a running job, from within one of its ranks: what
// perf/mesh_fault does by hand. Thread: one owner at a time.

#include "src/soft/fault_door.h"
#include "tests/prelude.h"

#include <stop_token>

namespace mesh::e2e {

// Ways to lose what a NIC of host a carries.
enum class Blow : std::uint8_t {
  PulledCable,   // both ports are down, and say so
  SilentPort,    // a's port is dead without its peer being told, as behind a switch
  QueuePair,     // one queue pair fails at once
  Adapter,       // all queue pairs of the NIC fail at once
  NextWrite,     // the next work request runs out of retries
  RefusedWrite,  // the next work request is not taken
  Card,          // a's card is gone, and its peer's port is down
  Replaced,      // so, and another card comes into its place
};
inline constexpr int kBlows = 8;
const char* name_of(Blow blow);

class Breaker {
 public:
  // Opens the fabric that this process' environment names; fails the scenario if there is none.
  Breaker();

  const std::vector<soft::NicSpec>& nics() const { return fabric_.hosts.front().nics; }
  void strike(Blow blow, const std::string& nic, std::uint64_t random);
  // Nothing passes between that host and host a's NIC until find_peer(), and no port tells.
  void lose_peer(const std::string& nic, const std::string& host);
  void find_peer(const std::string& nic, const std::string& host);
  void pull(const std::string& nic);
  // The n-th of the fabric's cables, whose hosts all run; n may be larger than their number.
  void pull(std::size_t cable) { tell_ends(cable, soft::FaultVerb::Arm); }
  void plug(std::size_t cable) { tell_ends(cable, soft::FaultVerb::Lift); }
  void plug(const std::string& nic);            // plugs it in, and lifts its other faults
  std::uint64_t bytes(const std::string& nic);  // posted by host a
  std::uint64_t bytes();                        // on all its NICs
  // Waits until host a has posted `more` bytes more, or a stop is asked for. Fails the scenario if
  // no data flows.
  void wait_for_bytes(std::uint64_t more, const std::stop_token& stop = {});
  // Looks at host a `turns` times, each after a short sleep. Nothing depends on how long that
  // takes.
  void look_on(std::uint64_t turns);
  // Delays the writes that host a posts from now on.
  void delay_writes(const std::string& nic, std::uint64_t delay_ns);
  void delay_no_more(const std::string& nic);  // writes that are posted already stay late

 private:
  void take_card(const std::string& nic, soft::FaultKind kind);
  void fail_one_queue_pair(const soft::Fault& fault, std::uint64_t random);
  soft::FaultAnswer tell(std::size_t host, const soft::FaultOrder& order);
  void tell_ends(std::size_t cable, soft::FaultVerb verb);
  void tell_both(const std::string& nic, soft::FaultVerb verb, soft::FaultKind kind);

  soft::FabricFile fabric_;
};

// Strikes a blow on a thread of its own, once host a has posted so many bytes more.
class LaterBlow {
 public:
  struct Order {
    Blow blow = Blow::PulledCable;
    std::string nic;
    std::uint64_t after_bytes = 0, random = 0;
  };
  LaterBlow(Breaker& breaker, const Order& order);
  void finish();  // strikes now if it has not; fails the scenario where it could not

 private:
  std::string failure_;
  std::jthread thread_;  // the last member: it uses failure_
};

}  // namespace mesh::e2e
