#pragma once
// Faults to come on one host of the software fabric. Armed by tests, by the fabric file's "faults"
// for other processes, and from another process while the host runs (fault_door.h). Thread: any. A
// plan with nothing armed costs the data path one relaxed load. Bound: kFaultsMax armed at once.

#include <infiniband/verbs.h>
#include <mesh/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kFaultsMax = 64;
inline constexpr std::uint64_t kFaultDelayMaxNs = 5'000'000'000;

enum class FaultKind : std::uint8_t {
  QpError,      // a queue pair fails: its work request completes with `status`, the rest is flushed
  PeerLost,     // nothing goes to or comes from peer_host any more; senders run into their retries
  WriteDelay,   // work requests take delay_ns longer
  Reorder,      // each takes a random time up to delay_ns longer: queue pairs overtake one another,
                // none overtakes itself
  PortDown,     // the port is silent and says so (an event, query_port); senders run into their
                // retries if it lasts
  PostRefused,  // post_send does not take a work request
};

struct Fault {
  FaultKind kind = FaultKind::QpError;
  std::string
      host{};  // in a file: the host on which it is armed, empty: every host. Ignored by arm()
  std::string nic{};        // empty: every NIC of the host
  std::string peer_host{};  // PeerLost: who is lost
  bool both_ends =
      false;  // PortDown, in a file: a pulled cable, whose other end goes down too. As host
  std::uint64_t after_work_requests =
      0;  // leaves that many posted work requests of the chosen NICs alone
  std::uint64_t work_requests = 0;  // then strikes that many; 0: all (QpError, PostRefused: 1)
  std::uint64_t after_ns = 0;       // not before this long after it was armed
  std::uint64_t duration_ns = 0;    // and no longer than this; 0: for ever
  std::uint64_t delay_ns = 0;       // WriteDelay, Reorder: up to kFaultDelayMaxNs
  std::uint64_t seed = 1;           // Reorder
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;  // QpError
};

class FaultPlan {
 public:
  // InvalidArgument: a delay over kFaultDelayMaxNs, or PeerLost without peer_host. Exhausted:
  // kFaultsMax are armed.
  Status arm(const Fault& fault, std::uint64_t now_ns);
  Status arm(const Fault& fault) {
    return arm(fault, kAtFirstUse);
  }  // its time starts when a NIC first looks at it
  void disarm_all();
  // Those of the same kind, NIC and peer host end now.
  void lift(const Fault& fault);
  // Called after every change, without a lock of ours. Set before others know the plan.
  void when_changed(std::function<void()> call) { when_changed_ = std::move(call); }

  bool armed() const noexcept { return armed_.load(std::memory_order_acquire); }

  // The NIC's questions; only asked while armed() is true.
  struct PostVerdict {
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint64_t delay_ns = 0;
    bool refused = false;
  };
  PostVerdict on_post(const std::string& nic, std::uint32_t qp_num, std::uint64_t now_ns);
  bool cut_off(const std::string& nic, const std::string& peer_host, std::uint64_t now_ns);
  bool port_down(const std::string& nic, std::uint64_t now_ns);
  // When time alone takes the port down or up next; UINT64_MAX: never.
  std::uint64_t next_port_change_ns(const std::string& nic, std::uint64_t now_ns);

 private:
  static constexpr std::uint64_t kAtFirstUse = UINT64_MAX;
  struct Armed {
    Fault fault;
    std::uint64_t armed_at_ns = 0;
    std::uint64_t seen = 0;  // work requests of the chosen NICs since then
  };
  static bool in_time(Armed& armed, std::uint64_t now_ns);
  static bool silences(Armed& armed, const std::string& nic, std::uint64_t now_ns);

  std::atomic<bool> armed_{false};  // released in arm(), acquired in armed()
  std::mutex mutex_;
  std::vector<Armed> faults_;
  std::function<void()> when_changed_;
};

}  // namespace mesh::soft
