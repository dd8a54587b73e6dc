#include "src/soft/fault_plan.h"

#include "src/base/log.h"

#include <algorithm>

namespace mesh::soft {

namespace {
// The finaliser of splitmix64: every bit of the input moves every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
}  // namespace

Status FaultPlan::arm(const Fault& fault, std::uint64_t now_ns) {
  if (fault.delay_ns > kFaultDelayMaxNs) {
    LOG_WARN("soft fabric: fault delay {} ns is over {} ns", fault.delay_ns, kFaultDelayMaxNs);
    return Errc::InvalidArgument;
  }
  if (fault.kind == FaultKind::PeerLost && fault.peer_host.empty()) {
    LOG_WARN("soft fabric: fault peer_lost names no peer_host");
    return Errc::InvalidArgument;
  }
  std::lock_guard lock(mutex_);
  if (faults_.size() >= kFaultsMax) return Errc::Exhausted;
  faults_.push_back({fault, now_ns, 0});
  armed_.store(true, std::memory_order_release);
  return Errc::Ok;
}

void FaultPlan::disarm_all() {
  std::lock_guard lock(mutex_);
  faults_.clear();
  armed_.store(false, std::memory_order_release);
}

bool FaultPlan::in_time(Armed& armed, std::uint64_t now_ns) {
  if (armed.armed_at_ns == kAtFirstUse) armed.armed_at_ns = now_ns;
  const Fault& fault = armed.fault;
  const std::uint64_t age_ns = now_ns >= armed.armed_at_ns ? now_ns - armed.armed_at_ns : 0;
  if (age_ns < fault.after_ns) return false;
  return fault.duration_ns == 0 || age_ns - fault.after_ns < fault.duration_ns;
}

FaultPlan::PostVerdict FaultPlan::on_post(const std::string& nic, std::uint32_t qp_num, std::uint64_t now_ns) {
  PostVerdict verdict;
  std::lock_guard lock(mutex_);
  for (Armed& armed : faults_) {
    const Fault& fault = armed.fault;
    if (!fault.nic.empty() && fault.nic != nic) continue;
    if (!in_time(armed, now_ns)) continue;
    const std::uint64_t number = armed.seen++;
    if (number < fault.after_work_requests) continue;
    const std::uint64_t bound =
        fault.kind == FaultKind::QpError ? std::max<std::uint64_t>(fault.work_requests, 1) : fault.work_requests;
    if (bound != 0 && number - fault.after_work_requests >= bound) continue;
    switch (fault.kind) {
      case FaultKind::QpError: verdict.status = fault.status; break;
      case FaultKind::WriteDelay: verdict.delay_ns += fault.delay_ns; break;
      case FaultKind::Reorder: verdict.delay_ns += mix(fault.seed ^ mix(qp_num ^ (number << 24))) % (fault.delay_ns + 1); break;
      case FaultKind::PeerLost:
      case FaultKind::PortDown: break;
    }
  }
  return verdict;
}

bool FaultPlan::cut_off(const std::string& nic, const std::string& peer_host, std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  return std::any_of(faults_.begin(), faults_.end(), [&](Armed& armed) {
    const Fault& fault = armed.fault;
    if (fault.kind != FaultKind::PeerLost && fault.kind != FaultKind::PortDown) return false;
    if (!fault.nic.empty() && fault.nic != nic) return false;
    if (fault.kind == FaultKind::PeerLost && fault.peer_host != peer_host) return false;
    return in_time(armed, now_ns) && armed.seen >= fault.after_work_requests;
  });
}

}  // namespace mesh::soft
