#pragma once
// One NIC of the software fabric. A turn does everything that hardware would do by itself: it puts
// posted requests on the modelled wire, executes what peers' rings hold, and completes what peers
// have answered. Only its own turn touches its tables, its receive queues and the memory registered
// with it. Thread: try_turn, post and poll from any; the rest takes the turn lock and may wait for
// one turn. Bounds: kQpsMax queue pairs; a turn executes at most kTurnRequests requests and about
// kTurnBytes bytes.

#include "src/base/check.h"
#include "src/soft/completion_queue.h"
#include "src/soft/incoming_rings.h"
#include "src/soft/initiator.h"
#include "src/soft/nic_core.h"
#include "src/soft/poster.h"
#include "src/soft/queue_pair.h"
#include "src/soft/queue_pair_table.h"
#include "src/soft/send_scheduler.h"
#include "src/soft/target.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::soft {

// The port of one NIC, up or down and with the LID that the fault plan says, and the event queues
// that hear of a change. Thread: the NIC's turn lock. Bound: one event queue for each open context.
class NicPort {
 public:
  explicit NicPort(NicCore& core) : core_(core) {}

  // The queue stays open until close().
  void open(EventQueue& queue) { queues_.push_back(&queue); }
  void close(EventQueue& queue) { std::erase(queues_, &queue); }

  // Returns true if a turn must watch the port: a fault may change it, or it has to come up again.
  bool needs_watching() const noexcept {
    return core_.faults.armed() || down_ || core_.lid != core_.spec.lid;
  }
  // A change makes an event. Returns true if the card has left for good: its contexts are dead, and
  // hear of nothing any more.
  bool watch(TurnTime& time) noexcept;
  bool gone() const noexcept { return gone_; }  // with its card, as watch() last saw it
  bool slot_empty() const noexcept { return slot_empty_; }
  bool up() const noexcept { return core_.link() != nullptr && !down_; }  // as watch() last saw it
  std::uint64_t due_ns(TurnTime& time) noexcept;  // when the port changes next

 private:
  bool is_down_now(TurnTime& time) noexcept;
  std::uint16_t lid_now(TurnTime& time) noexcept;
  void tell(verbs::DeviceEventKind kind) noexcept;

  NicCore& core_;
  bool down_ = false;  // as the last event said
  bool gone_ = false;
  bool slot_empty_ = false;
  std::vector<EventQueue*> queues_;
};

class Nic {
 public:
  explicit Nic(const NicOptions& options);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  const NicSpec& spec() const noexcept { return core_.spec; }
  const LinkSpec* link() const noexcept { return core_.link(); }
  struct PortState {
    bool up = false;
    bool gone = false;  // with its card
    bool slot_empty = false;
    std::uint16_t lid = 0;  // InfiniBand
  };
  PortState port_state();  // at this moment; takes the turn lock
  int index() const noexcept { return core_.self.nic; }
  // Returns how many cards have been in this slot before the one that is there, or will be.
  std::uint32_t card() const noexcept { return card_.load(std::memory_order_acquire); }

  // Data path.
  bool try_turn() noexcept;  // false: nothing moved, or another thread turns the NIC
  int post_send(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
    DCHECK(qp.nic == this);
    core_.posts.release();
    try_turn();
    return poster_.send(qp, wr, bad);
  }
  int post_receive(QueuePair& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
    core_.posts.release();
    return poster_.receive(qp, wr, bad);
  }
  void arm(CompletionQueue& queue) noexcept { queue.arm(core_.bells); }
  // Charges the host's CPU for completions that were polled.
  void count_completions(std::uint64_t count) noexcept {
    core_.cpu.spend(count * core_.fabric.costs.completion_ns);
  }

  // Control path.
  std::uint32_t add_region(const MemoryTable::Region& region);
  void remove_region(std::uint32_t key);
  QueuePair* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr);  // null with errno
  void destroy_qp(QueuePair* qp);
  bool in_use(const CompletionQueue& cq);
  // State changes, whose attributes are already validated. They return EINVAL if the queue pair's
  // state does not allow the change, which is known only under the lock. connect() needs the ring
  // and where it goes.
  int initialise(QueuePair& qp, int access, std::uint16_t pkey);
  int connect(QueuePair& qp, const Attributes& attributes, Outgoing out);
  int start(QueuePair& qp, const Attributes& attributes);
  int fail(QueuePair& qp);
  void reset(QueuePair& qp);
  void take_offer(const Offer& offer);
  // Looks at all that concerns the peer: its board is known now, or the peer is lost.
  void peer_changed(const Peer& peer);

  // Events. The queue stays open until close_events().
  void open_events(EventQueue& queue);
  void close_events(EventQueue& queue);
  // Fails a connected queue pair (the n-th, counted from 0) or all of them at once. Returns how
  // many failed.
  std::size_t fail_queue_pairs(int only);
  std::uint32_t connected();  // queue pairs
  static constexpr int kAllQueuePairs = -1;

  // Agent and simulator.
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }
  bool has_work();              // something is pending now or will be later
  std::uint64_t next_due_ns();  // 0: now; UINT64_MAX: nothing
  using Totals = QueuePairTable::Totals;
  Totals totals();

 private:
  bool turn_locked() noexcept;
  // Under the turn lock:
  void watch_port(TurnTime& time) noexcept;
  void lose_card() noexcept;
  void cut(QueuePair& qp) noexcept;
  void take_down(QueuePair& qp) noexcept;
  static void set_state(QueuePair& qp, ibv_qp_state state) noexcept;

  NicCore core_;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::uint32_t> card_{0};  // released in lose_card(), acquired in card()
  Poster poster_;
  // All members below are used under the turn lock.
  QueuePairTable queue_pairs_;
  IndexSet outstanding_;  // told by core_.posting; queue pairs that are found idle leave it
  NicPort port_;
  IncomingRings incoming_;
  Initiator initiator_;
  Target target_;
  SendScheduler scheduler_;
  std::uint32_t serve_from_ = 0;  // index of the queue pair to begin with
};

}  // namespace mesh::soft
