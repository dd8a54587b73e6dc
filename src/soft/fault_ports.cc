// The answers of a fault plan to ports: whether they are down, why, and until when.
#include "src/base/check.h"
#include "src/soft/fault_plan.h"

#include <algorithm>

namespace mesh::soft {

int FaultPlan::lid_changes(const std::string& nic, std::uint64_t now_ns) {
  const Lock lock(table_);
  const std::span<Armed> all = faults();
  const auto count = std::count_if(all.begin(), all.end(), [&](Armed& armed) {
    return armed.fault.kind == FaultKind::LidChange && strikes(armed, nic, now_ns);
  });
  return static_cast<int>(count);
}

bool FaultPlan::port_down(const std::string& nic, std::uint64_t now_ns) {
  return any_strikes(FaultKind::PortDown, nic, now_ns) || card_left(nic, now_ns);
}

bool FaultPlan::card_left(const std::string& nic, std::uint64_t now_ns) {
  return any_strikes(FaultKind::CardLeft, nic, now_ns) || slot_empty(nic, now_ns);
}

bool FaultPlan::slot_empty(const std::string& nic, std::uint64_t now_ns) {
  return any_strikes(FaultKind::CardReplaced, nic, now_ns);
}

std::uint64_t FaultPlan::next_port_change_ns(const std::string& nic, std::uint64_t now_ns) {
  std::uint64_t next_ns = UINT64_MAX;
  const Lock lock(table_);
  for (Armed& armed : faults()) {
    const Fault& fault = armed.fault;
    const bool of_port = fault.kind == FaultKind::LidChange || takes_port_down(fault.kind);
    if (!of_port || (!fault.nic.empty() && fault.nic != nic)) continue;
    static_cast<void>(in_time(armed, now_ns));  // its time begins here, unless it has begun
    DCHECK(armed.armed_at_ns != kAtFirstUse);
    const std::uint64_t begin_ns = armed.armed_at_ns + fault.after_ns;
    const bool ends = fault.duration_ns != 0 && armed.began_at_ns != kNotBegun;
    const std::uint64_t end_ns = ends ? armed.began_at_ns + fault.duration_ns : UINT64_MAX;
    for (const std::uint64_t change_ns : {begin_ns, end_ns})
      if (change_ns > now_ns) next_ns = std::min(next_ns, change_ns);
  }
  return next_ns;
}

}  // namespace mesh::soft
