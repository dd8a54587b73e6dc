#pragma once
// One NIC of the software fabric. A turn does everything that hardware would do by itself: it puts
// posted requests on the modelled wire, executes what peers' rings hold, and completes what peers
// have answered. Only its own turn touches its tables, its receive queues and the memory registered
// with it. Thread: try_turn, post and poll from any; the rest takes the turn lock and may wait for
// one turn. Bounds: kQpsMax queue pairs; a turn executes at most kTurnRequests requests and about
// kTurnBytes bytes.

#include <infiniband/verbs.h>
#include <mesh/status.h>

#include "src/base/check.h"
#include "src/soft/event_queue.h"
#include "src/soft/nic_core.h"
#include "src/soft/nic_port.h"
#include "src/soft/poster.h"
#include "src/soft/queue_pair.h"
#include "src/soft/queue_pair_table.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::soft {

inline constexpr std::uint32_t kTurnRequests = 256;
inline constexpr std::uint64_t kTurnBytes = 1 << 20;

// Offers a ring: it holds the requests that a peer's queue pair has for one of ours.
struct Offer {
  std::shared_ptr<Ring> ring;
  std::shared_ptr<Peer> peer;  // the peer that offers
  ibv_gid gid{};               // of the offering NIC
  int from_nic = 0, to_nic = 0;
  std::uint32_t from_qp_num = 0, to_qp_num = 0;
  pid_t pid = 0;         // 0: this process
  bool streams = false;  // sources come through the ring's stream
};

class Nic {
 public:
  explicit Nic(const NicOptions& options);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  const NicSpec& spec() const noexcept { return core_.spec; }
  const LinkSpec* link() const noexcept { return core_.link; }
  bool port_up();  // at this moment; takes the turn lock
  int index() const noexcept { return core_.self.nic; }

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
  // State changes that are already validated. connect() needs the ring and where it goes.
  void initialise(QueuePair& qp, int access);
  void connect(QueuePair& qp, const Attributes& attributes, Outgoing out);
  void start(QueuePair& qp, const Attributes& attributes);
  void fail(QueuePair& qp);
  void reset(QueuePair& qp);
  void take_offer(const Offer& offer);
  // The peer's board is known now, or the peer is lost: looks at everything that concerns it.
  void peer_changed(const Peer& peer);

  // Events. The queue stays open until close_events().
  void open_events(EventQueue& queue);
  void close_events(EventQueue& queue);
  // Fails a connected queue pair (the n-th, counted from 0) or all of them at once. Answers how
  // many failed.
  std::size_t fail_queue_pairs(int only);
  static constexpr int kAllQueuePairs = -1;

  // Agent and simulator.
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }
  bool has_work();              // something is pending now or will be later
  std::uint64_t next_due_ns();  // 0: now; UINT64_MAX: nothing
  using Totals = QueuePairTable::Totals;
  Totals totals();

 private:
  enum class Step : std::uint8_t {
    Done,
    Later,     // it is not due, or a receive or room is missing: look again
    Fail,      // the initiator's queue pair fails, ours lives
    FailBoth,  // both queue pairs fail, as reliable connected ones do
    Drop,      // there is no answer at all
  };
  struct Outcome {
    Step step = Step::Done;
    ibv_wc_status status = IBV_WC_SUCCESS;  // for the initiator
  };
  struct Budget {
    std::uint32_t requests = kTurnRequests;
    std::uint64_t bytes = kTurnBytes;
  };
  bool turn_locked() noexcept;
  std::uint64_t serve_due_ns(QueuePair& qp, TurnTime& time) noexcept;
  std::uint64_t complete_due_ns(QueuePair& qp, TurnTime& time) noexcept;

  // The rest is called under the turn lock. nic_control.cc:
  bool uses(QueuePair& qp, std::uint32_t key) noexcept;
  void take_down(QueuePair& qp) noexcept;
  static void set_state(QueuePair& qp, ibv_qp_state state) noexcept;
  static bool fits(const QueuePair& qp, const Offer& offer) noexcept;

  // nic_target.cc, as target of a peer's requests:
  bool serve(QueuePair& qp, TurnTime& time, Budget& budget) noexcept;
  Outcome execute(QueuePair& qp, TurnTime& time, Budget& budget) noexcept;
  Outcome execute_write(QueuePair& qp, RingRequest& request, TurnTime& time,
                        Budget& budget) noexcept;
  Outcome execute_send(QueuePair& qp, RingRequest& request, TurnTime& time,
                       Budget& budget) noexcept;
  Outcome execute_read(QueuePair& qp, RingRequest& request, Budget& budget) noexcept;
  Outcome receiver_ready(QueuePair& qp, TurnTime& time) noexcept;
  Outcome pull(QueuePair& qp, RingRequest& request, std::byte* to, std::size_t* bytes) noexcept;
  void complete_receive(QueuePair& qp, const RingRequest& request, ibv_wc_status status) noexcept;
  void respond(QueuePair& qp, ibv_wc_status status) noexcept;
  bool stalled(QueuePair& qp, TurnTime& time) noexcept;
  void attach(QueuePair& qp, const Offer& offer);
  void detach(QueuePair& qp) noexcept;

  // nic_initiator.cc, as initiator of our own requests:
  bool complete(QueuePair& qp, TurnTime& time) noexcept;
  bool take_responses(QueuePair& qp, TurnTime& time) noexcept;
  bool drain_read(QueuePair& qp) noexcept;
  bool stream(QueuePair& qp) noexcept;
  bool watch(QueuePair& qp, TurnTime& time) noexcept;
  void complete_send(QueuePair& qp, ibv_wc_status status) noexcept;
  void to_error(QueuePair& qp, ibv_wc_status first) noexcept;
  bool flush(QueuePair& qp) noexcept;
  bool cut_off(const QueuePair& qp, TurnTime& time) noexcept;

  // nic_wire.cc, the modelled wire of our sends:
  bool schedule(TurnTime& time) noexcept;
  std::uint32_t next_sender(TurnTime& time, std::uint64_t* at_ticks) noexcept;
  std::uint64_t may_start(const SendSlot& slot) const noexcept;
  std::uint64_t sends_at(std::uint32_t index, TurnTime& time) noexcept;
  void send_quantum(QueuePair& qp, std::uint64_t at_ticks) noexcept;

  NicCore core_;
  std::atomic<std::uint64_t> turns_{0};
  Poster poster_;
  // All members below are used under the turn lock.
  QueuePairTable queue_pairs_;
  NicPort port_;
  std::uint32_t serve_from_ = 0, schedule_from_ = 0;  // queue pair to begin with
  std::vector<Offer> offers_;                         // for queue pairs that cannot receive yet
};

}  // namespace mesh::soft
