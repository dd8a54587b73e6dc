#pragma once
// The faults that are to happen on one host of the software fabric. Tests arm them, the "faults" of
// a fabric file arm them for other processes, and another process can arm them while the host runs
// (fault_door.h). The processes of a host share one table of them. A plan with nothing armed costs
// the data path one load. Thread: any. Bound: kFaultsMax that are not over.

#include <infiniband/verbs.h>
#include <mesh/status.h>

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace mesh::soft {

inline constexpr std::size_t kFaultsMax = 64;
inline constexpr std::uint64_t kFaultDelayMaxNs = 5'000'000'000;

enum class FaultKind : std::uint8_t {
  // A queue pair fails: its work request completes with `status`, and the rest is flushed.
  QpError,
  // Nothing goes to or comes from peer_host any more. Senders run into their retries.
  PeerLost,
  // Work requests take delay_ns longer.
  WriteDelay,
  // Each work request takes a random time of up to delay_ns longer. So queue pairs overtake one
  // another, but none overtakes itself.
  Reorder,
  // Plain writes to this host overtake one another within a queue pair, up to the next write with
  // immediate, as adaptive routing lets them: some are held for up to delay_ns, as if a packet had
  // been lost, and, if the fault repeats, a stretch of those that have overtaken a held write land
  // a second time. Into regions registered for relaxed ordering some small ones land up to delay_ns
  // after they were answered, but before the next write with immediate.
  OutOfOrder,
  // The port is silent and says so, by an event and in query_port. Senders run into their retries
  // if it lasts.
  PortDown,
  // post_send does not take a work request.
  PostRefused,
  // Packets with more than `mtu` bytes of payload vanish, and smaller ones arrive: a black hole.
  // Senders run into their retries.
  Mtu,
  // The subnet manager gives an InfiniBand port another LID. Queue pairs that were connected before
  // hear nothing any more.
  LidChange,
  // The card is gone from its slot, or its firmware has died: an event says that the device has
  // failed, query_port answers with EIO, and the port is silent. Senders run into their retries.
  CardLeft,
  // The card's sender hangs without a word: work requests are taken and none completes, neither
  // with success nor with an error, and a queue pair that is stopped flushes nothing. What peers
  // write to the card arrives, is announced and answered. When the fault ends, the card goes on
  // with what is posted.
  Mute,
  // The card is gone from its slot, as with CardLeft, and when the fault ends another one is there.
  // While it lasts, the device is in no list and cannot be opened. Whoever had it open has lost it
  // for ever: every call on that context answers EIO, its queue pairs complete nothing more, and no
  // key of its regions is known. A context that is opened afterwards works.
  CardReplaced,
};
inline constexpr FaultKind kFaultKindLast = FaultKind::CardReplaced;
constexpr std::uint32_t bit_of(FaultKind kind) noexcept {
  return 1u << static_cast<std::uint32_t>(kind);
}
constexpr bool takes_port_down(FaultKind kind) noexcept {
  return kind == FaultKind::PortDown || kind == FaultKind::CardLeft ||
         kind == FaultKind::CardReplaced;
}

// A name of a fabric file, which has 32 letters at most, in a form that processes can share. A
// longer text is cut, and is no name of a file.
inline constexpr std::size_t kNameRoom = 40;
class Name {
 public:
  Name() = default;
  Name(const std::string& text) { text.copy(text_.data(), text_.size() - 1); }
  Name(const char* text) : Name(std::string(text)) {}
  operator std::string() const { return {text_.data(), ::strnlen(text_.data(), text_.size())}; }
  bool empty() const noexcept { return text_[0] == '\0'; }
  friend bool operator==(const Name&, const Name&) = default;

 private:
  std::array<char, kNameRoom> text_{};
};

struct Fault {
  FaultKind kind = FaultKind::QpError;
  // In a file: the host on which the fault is armed; empty: every host. arm() ignores it.
  Name host{};
  Name nic{};        // empty: every NIC of the host
  Name peer_host{};  // PeerLost: the host that is lost
  // PortDown in a file: a pulled cable, whose other end goes down too. arm() ignores it.
  bool both_ends = false;
  // The fault spares this number of posted work requests of the chosen NICs ...
  std::uint64_t after_work_requests = 0;
  // ... and then strikes this number. 0: all of them, but one of QpError and PostRefused.
  std::uint64_t work_requests = 0;
  std::uint64_t after_ns = 0;  // counts work requests, and begins, this long after it was armed
  // Ends this long after it began; 0: never. With after_work_requests it begins when the NIC first
  // looks at it after that number, so that no time passes before it strikes.
  std::uint64_t duration_ns = 0;
  // WriteDelay, Reorder, OutOfOrder: up to kFaultDelayMaxNs.
  std::uint64_t delay_ns = 0;
  std::uint64_t seed = 1;                       // Reorder, OutOfOrder
  bool repeats = true;                          // OutOfOrder
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;  // QpError
  std::uint32_t mtu = 0;                        // Mtu: above 0
};

// The armed faults. Zeroed memory becomes one by its constructor, and all processes of a host map
// it. The mutex outlives a process that ends while it holds it.
struct FaultTable {
  static constexpr std::uint64_t kNotBegun = UINT64_MAX;
  struct Armed {
    Fault fault;
    std::uint64_t armed_at_ns = 0;
    std::uint64_t seen = 0;  // work requests of the chosen NICs since it was armed
    std::uint64_t began_at_ns = kNotBegun;
  };
  FaultTable();
  FaultTable(const FaultTable&) = delete;
  FaultTable& operator=(const FaultTable&) = delete;

  std::atomic<std::uint32_t> kinds{0};  // the kinds that are armed, each a bit; released, acquired
  pthread_mutex_t mutex;                // of the rest
  std::size_t count = 0;
  std::array<Armed, kFaultsMax> faults;
};

class FaultPlan {
 public:
  FaultPlan() : own_(std::make_unique<FaultTable>()), table_(*own_) {}
  explicit FaultPlan(FaultTable& table) : table_(table) {}  // which outlives the plan

  // Arms a fault and forgets those that are over. Returns InvalidArgument if the delay exceeds
  // kFaultDelayMaxNs, PeerLost names no peer_host, or Mtu no mtu, and Exhausted if kFaultsMax
  // faults are armed.
  Status arm(const Fault& fault, std::uint64_t now_ns);
  // Arms a fault whose time begins when a NIC first looks at it.
  Status arm(const Fault& fault) { return arm(fault, kAtFirstUse); }
  void disarm_all();
  // Ends at once all faults whose kind, NIC and peer host are those of `fault`.
  void lift(const Fault& fault);
  // Sets a call that is made after every change by this plan, without a lock of ours. Set it before
  // others know the plan.
  void when_changed(std::function<void()> call) { when_changed_ = std::move(call); }

  bool armed() const noexcept { return table_.kinds.load(std::memory_order_acquire) != 0; }

  // The NIC asks the following only while armed() is true.
  struct PostVerdict {
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint64_t delay_ns = 0;
    bool refused = false;
    bool vanishes = false;  // never arrives, and is tried again until its time is up
  };
  struct Posted {
    std::uint32_t qp_num = 0;
    std::uint32_t packet_bytes = 0;  // payload of its largest packet
  };
  PostVerdict on_post(const std::string& nic, const Posted& posted, std::uint64_t now_ns);
  bool cut_off(const std::string& nic, const std::string& peer_host, std::uint64_t now_ns);
  bool port_down(const std::string& nic, std::uint64_t now_ns);  // also if its card is gone
  bool card_left(const std::string& nic, std::uint64_t now_ns);  // also if another will be there
  bool slot_empty(const std::string& nic, std::uint64_t now_ns);
  bool mute(const std::string& nic, std::uint64_t now_ns);
  // Decides about the write with this number on a queue pair. hold_ns: how long it is held.
  struct Disorder {
    bool out_of_order = false;  // such a fault is armed
    bool overtakes = false;     // it lands before one that is held
    bool alone = false;         // if it is held: all others overtake it
    std::uint64_t hold_ns = 0;
    std::uint64_t repeats = 0;  // if it is held: so many of the writes behind it land again
    std::uint64_t late_ns = 0;  // in memory for relaxed ordering: how long after its answer
  };
  struct WriteNumber {
    std::uint32_t qp_num = 0;
    std::uint64_t number = 0;
  };
  Disorder disorder_of(const std::string& nic, const WriteNumber& write, std::uint64_t now_ns);
  // Returns how often the port's LID has changed.
  int lid_changes(const std::string& nic, std::uint64_t now_ns);
  // Returns when time alone takes the port down or up, or changes its LID next; UINT64_MAX: never.
  std::uint64_t next_port_change_ns(const std::string& nic, std::uint64_t now_ns);

 private:
  static constexpr std::uint64_t kAtFirstUse = UINT64_MAX, kNotBegun = FaultTable::kNotBegun;
  using Armed = FaultTable::Armed;
  class Lock;
  static bool is_over(const Armed& armed, std::uint64_t now_ns) noexcept;
  static bool in_time(Armed& armed, std::uint64_t now_ns);
  static bool begins(Armed& armed, std::uint64_t seen, std::uint64_t now_ns);
  static bool strikes(Armed& armed, const std::string& nic, std::uint64_t now_ns);
  static bool silences(Armed& armed, const std::string& nic, std::uint64_t now_ns);
  bool any_strikes(FaultKind kind, const std::string& nic, std::uint64_t now_ns);
  std::span<Armed> faults() noexcept;  // holding the lock, as the next
  void keep(std::size_t count) noexcept;
  void told();

  std::unique_ptr<FaultTable> own_;
  FaultTable& table_;
  std::function<void()> when_changed_;
};

// Holds the table's mutex. A process that ended while it held the mutex may have left a fault with
// one work request too few.
class FaultPlan::Lock {
 public:
  explicit Lock(FaultTable& table);
  ~Lock() { ::pthread_mutex_unlock(&table_.mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  FaultTable& table_;
};

}  // namespace mesh::soft
