#include "src/soft/fault_plan.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <cerrno>

namespace mesh::soft {

namespace {
// The finaliser of splitmix64: every bit of the input moves every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// How often the writes under OutOfOrder are disturbed.
constexpr std::uint64_t kHeldOneIn = 4, kStaysOneIn = 4, kOnceOneIn = 3, kLateOneIn = 3,
                        kAloneOneIn = 2;
constexpr std::uint64_t kRepeatsMax = 48;

bool is_usable(const Fault& fault) {
  if (fault.delay_ns > kFaultDelayMaxNs) {
    LOG_WARN("soft fabric: fault delay {} ns is over {} ns", fault.delay_ns, kFaultDelayMaxNs);
    return false;
  }
  if (fault.kind == FaultKind::Mtu && fault.mtu == 0) {
    LOG_WARN("soft fabric: fault mtu names no mtu");
    return false;
  }
  const bool names_no_peer = fault.kind == FaultKind::PeerLost && fault.peer_host.empty();
  if (names_no_peer) LOG_WARN("soft fabric: fault peer_lost names no peer_host");
  return !names_no_peer;
}

// Returns true for a kind that ports or turns look for; on_post() only counts work requests for it.
bool is_seen_elsewhere(FaultKind kind) {
  return takes_port_down(kind) || kind == FaultKind::PeerLost || kind == FaultKind::LidChange ||
         kind == FaultKind::Mute;
}
}  // namespace

FaultTable::FaultTable() {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

FaultPlan::Lock::Lock(FaultTable& table) : table_(table) {
  if (::pthread_mutex_lock(&table.mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&table.mutex);
}

std::span<FaultTable::Armed> FaultPlan::faults() noexcept {
  return std::span(table_.faults).first(std::min(table_.count, kFaultsMax));
}

void FaultPlan::keep(std::size_t count) noexcept {
  table_.count = count;
  std::uint32_t kinds = 0;
  for (const Armed& armed : faults()) kinds |= bit_of(armed.fault.kind);
  table_.kinds.store(kinds, std::memory_order_release);
}

void FaultPlan::told() {
  if (when_changed_) when_changed_();
}

// Returns true for a fault that strikes no more. now_ns may be kAtFirstUse.
bool FaultPlan::is_over(const Armed& armed, std::uint64_t now_ns) noexcept {
  const std::uint64_t bound_ns = armed.fault.duration_ns;
  if (now_ns == kAtFirstUse || bound_ns == 0 || armed.began_at_ns == kNotBegun) return false;
  return now_ns >= armed.began_at_ns && now_ns - armed.began_at_ns >= bound_ns;
}

Status FaultPlan::arm(const Fault& fault, std::uint64_t now_ns) {
  if (!is_usable(fault)) return Errc::InvalidArgument;
  {
    const Lock lock(table_);
    const auto end = std::remove_if(faults().begin(), faults().end(), [now_ns](const Armed& armed) {
      return is_over(armed, now_ns);
    });
    keep(static_cast<std::size_t>(end - faults().begin()));
    const std::size_t count = faults().size();
    if (count == kFaultsMax) return Errc::Exhausted;
    table_.faults[count] = {.fault = fault, .armed_at_ns = now_ns};
    keep(count + 1);
  }
  told();
  return Errc::Ok;
}

void FaultPlan::disarm_all() {
  {
    const Lock lock(table_);
    keep(0);
  }
  told();
}

void FaultPlan::lift(const Fault& fault) {
  {
    const Lock lock(table_);
    const auto end = std::remove_if(faults().begin(), faults().end(), [&](const Armed& armed) {
      return armed.fault.kind == fault.kind && armed.fault.nic == fault.nic &&
             armed.fault.peer_host == fault.peer_host;
    });
    keep(static_cast<std::size_t>(end - faults().begin()));
  }
  told();
}

bool FaultPlan::in_time(Armed& armed, std::uint64_t now_ns) {
  if (armed.armed_at_ns == kAtFirstUse) armed.armed_at_ns = now_ns;
  const Fault& fault = armed.fault;
  const std::uint64_t age_ns = now_ns >= armed.armed_at_ns ? now_ns - armed.armed_at_ns : 0;
  if (age_ns < fault.after_ns) return false;
  if (fault.after_work_requests == 0) armed.began_at_ns = armed.armed_at_ns + fault.after_ns;
  if (fault.duration_ns == 0 || armed.began_at_ns == kNotBegun) return true;
  return now_ns < armed.began_at_ns || now_ns - armed.began_at_ns < fault.duration_ns;
}

// Returns true once the fault has spared its work requests. Its duration begins with the first such
// look.
bool FaultPlan::begins(Armed& armed, std::uint64_t seen, std::uint64_t now_ns) {
  if (seen < armed.fault.after_work_requests) return false;
  if (armed.began_at_ns == kNotBegun) armed.began_at_ns = now_ns;
  return true;
}

FaultPlan::PostVerdict FaultPlan::on_post(const std::string& nic, const Posted& posted,
                                          std::uint64_t now_ns) {
  PostVerdict verdict;
  const Lock lock(table_);
  for (Armed& armed : faults()) {
    const Fault& fault = armed.fault;
    if (!fault.nic.empty() && fault.nic != nic) continue;
    if (!in_time(armed, now_ns)) continue;
    const std::uint64_t number = armed.seen++;
    if (is_seen_elsewhere(fault.kind) || !begins(armed, number, now_ns)) continue;
    const bool one = fault.kind == FaultKind::QpError || fault.kind == FaultKind::PostRefused;
    const std::uint64_t bound =
        one ? std::max<std::uint64_t>(fault.work_requests, 1) : fault.work_requests;
    if (bound != 0 && number - fault.after_work_requests >= bound) continue;
    switch (fault.kind) {
      case FaultKind::QpError: verdict.status = fault.status; break;
      case FaultKind::WriteDelay: verdict.delay_ns += fault.delay_ns; break;
      case FaultKind::Reorder:
        verdict.delay_ns +=
            mix(fault.seed ^ mix(posted.qp_num ^ (number << 24))) % (fault.delay_ns + 1);
        break;
      case FaultKind::PostRefused: verdict.refused = true; break;
      case FaultKind::Mtu: verdict.vanishes |= posted.packet_bytes > fault.mtu; break;
      case FaultKind::OutOfOrder:
      case FaultKind::PeerLost:
      case FaultKind::PortDown:
      case FaultKind::CardLeft:
      case FaultKind::LidChange:
      case FaultKind::CardReplaced:
      case FaultKind::Mute: break;
    }
  }
  return verdict;
}

bool FaultPlan::strikes(Armed& armed, const std::string& nic, std::uint64_t now_ns) {
  if (!armed.fault.nic.empty() && armed.fault.nic != nic) return false;
  return in_time(armed, now_ns) && begins(armed, armed.seen, now_ns);
}

FaultPlan::Disorder FaultPlan::disorder_of(const std::string& nic, const WriteNumber& write,
                                           std::uint64_t now_ns) {
  const Lock lock(table_);
  for (Armed& armed : faults()) {
    const Fault& fault = armed.fault;
    if (fault.kind != FaultKind::OutOfOrder || (!fault.nic.empty() && fault.nic != nic)) continue;
    if (!in_time(armed, now_ns)) continue;
    const std::uint64_t chance = mix(fault.seed ^ mix(write.qp_num ^ (write.number << 24)));
    const bool held = chance % kHeldOneIn == 0, late = (chance >> 40) % kLateOneIn == 0;
    const bool repeats = fault.repeats && held && (chance >> 16) % kOnceOneIn != 0;
    return {.out_of_order = true,
            .overtakes = (chance >> 8) % kStaysOneIn != 0,
            .alone = (chance >> 48) % kAloneOneIn == 0,
            .hold_ns = held ? 1 + (chance >> 24) % (fault.delay_ns + 1) : 0,
            .repeats = repeats ? 1 + (chance >> 32) % kRepeatsMax : 0,
            .late_ns = late ? 1 + mix(chance) % (fault.delay_ns + 1) : 0};
  }
  return {};
}

// Returns true for a fault that makes a port or a peer silent now, whatever peer it names.
bool FaultPlan::silences(Armed& armed, const std::string& nic, std::uint64_t now_ns) {
  const FaultKind kind = armed.fault.kind;
  const bool silent = kind == FaultKind::PeerLost || takes_port_down(kind);
  return silent && strikes(armed, nic, now_ns);
}

bool FaultPlan::cut_off(const std::string& nic, const std::string& peer_host,
                        std::uint64_t now_ns) {
  const Lock lock(table_);
  const std::span<Armed> all = faults();
  return std::any_of(all.begin(), all.end(), [&](Armed& armed) {
    if (armed.fault.kind == FaultKind::PeerLost && armed.fault.peer_host != peer_host) return false;
    return silences(armed, nic, now_ns);
  });
}

bool FaultPlan::any_strikes(FaultKind kind, const std::string& nic, std::uint64_t now_ns) {
  if ((table_.kinds.load(std::memory_order_acquire) & bit_of(kind)) == 0) return false;
  const Lock lock(table_);
  const std::span<Armed> all = faults();
  return std::any_of(all.begin(), all.end(), [&](Armed& armed) {
    return armed.fault.kind == kind && strikes(armed, nic, now_ns);
  });
}

bool FaultPlan::mute(const std::string& nic, std::uint64_t now_ns) {
  return any_strikes(FaultKind::Mute, nic, now_ns);
}

}  // namespace mesh::soft
