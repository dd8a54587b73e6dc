#pragma once
// Runs one fault in a process of its own: a healthy scenario, the scenario with the fault, a
// comparison of the process with its state before, and a healthy scenario again. Thread: one.
// Bound: kChildSeconds, then the child is killed and that is the finding.

#include "tests/os_faults/door.h"
#include "tests/os_faults/scenario.h"

namespace mesh::testkit {

inline constexpr unsigned kChildSeconds = 500;

// Alone, the engine ends with the scenario; beside another communicator it goes on, and whatever
// the scenario has left in it shows.
enum class Company : std::uint8_t { Alone, Beside };

struct RunOrder {
  door::Fault fault;
  Company company = Company::Alone;
};

struct RunReport {
  std::array<std::uint64_t, door::kKinds> counts{};  // calls of the scenario with the fault
  std::string symbol;     // name of the call that failed; "": it was never reached
  std::string end;        // how the scenario ended, in words
  std::string complaint;  // "": nothing is wrong
  double seconds = 0;     // the scenario with the fault
  std::string log;        // the plugin's lines
};

RunReport run_in_child(const nccl::NewestNet& net, const RunOrder& order);

// Runs the order in this process, for a debugger; the door stops at the fault.
RunReport run_here(const nccl::NewestNet& net, const RunOrder& order);

}  // namespace mesh::testkit
