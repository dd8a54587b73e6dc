#pragma once
// A loop's share of one rail: protection domain, completion queues, and the table that turns a
// completion's wr_id into its queue pair. Queue pairs join a completion queue with room for all
// they can flush, so none can overflow. Thread: poll() from the loop's holder; create() from any;
// other set-up with control mutex and progress lock. Bound: kQueuePairsMax queue pairs.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/call_watch.h"
#include "engine/data/device_gate.h"
#include "engine/data/device_work.h"
#include "engine/data/patient_call.h"
#include "engine/data/queue_pair.h"
#include "src/base/pages.h"
#include "src/relay/end_device.h"
#include "src/verbs/discovery.h"
#include "src/verbs/handle.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class ProgressLoop;

inline constexpr std::uint32_t kPollBatch = 16;         // completions taken per verbs call
inline constexpr std::uint32_t kQueuePairsMax = 65536;  // the wr_id's index has 16 bits
inline constexpr std::uint32_t kProbeBytesMax = 4096;   // the largest MTU of a path

// Whether the poll that brought a completion has brought others behind it.
enum class Behind : std::uint8_t { Nothing, Others };

class DeviceContext final : private relay::Stopper {
 public:
  DeviceContext(verbs::Provider& provider, verbs::Rail& rail, std::uint32_t index)
      : provider_(provider), rail_(rail), index_(index) {}

  // A protection domain on the device that is in the rail's place.
  struct Domain {
    std::shared_ptr<const verbs::Card> card;
    int error = ENOMEM;  // if the card has no domain
    bool card_left = false;
  };
  Domain make_domain();  // any thread; waits for the device
  // Takes the domain; before anything else is made here another may be taken, because the card was
  // replaced. System: the device refused it. If the card has left, it is as if the card left later.
  Status open(Domain domain);
  Status open() { return open(make_domain()); }
  // The device is late with its domain: it is as if the card had left, in this communicator only,
  // until come_back().
  void open_late() noexcept {
    late_ = true;
    leave();
  }
  bool is_late() const noexcept { return late_; }  // control mutex

  // Makes a queue pair in RESET on a completion queue with room and gives it an id. Any thread,
  // several at a time, without the control mutex and without the progress lock, which it takes
  // before and after for the queue pair's place here, never while the device works.
  struct Order {
    const TransferPolicy* policy = nullptr;
    ProgressLoop* loop = nullptr;
    bool relayed = false;  // of a path over other hosts
    QueueDepths depths{};  // create() sets them
  };
  Status create(QueuePair& queue_pair, Order order);
  // stop(), destroy() and deregister() are done before they return or, after wait_in_background(),
  // on threads that wait for the device. The path counts what is not done yet (DeviceDebts), and
  // the end of the last wakes the control thread.

  // Moves a queue pair that has left RESET to ERR.
  void stop(QueuePair& queue_pair) noexcept;
  // Drops what the queue pair has outstanding, and destroys it. Its room is free afterwards.
  void destroy(QueuePair& queue_pair) noexcept;
  // Deregisters memory of ours, and lets go of it.
  void deregister(verbs::MrHandle region, std::shared_ptr<void> memory) noexcept;
  // Has a thread make the call. Returns false if the caller must make it.
  bool call_later(const DeviceWork::Call& call) noexcept;
  void wait_in_background(ProgressLoop& loop) noexcept { background_ = &loop; }
  // After it: no thread waits for the device, and each turn_work() does one thing that is waited
  // for. It returns false if there was nothing.
  void work_by_hand() noexcept {
    work_.work_by_hand();
    late_calls.by_hand = true;
  }
  bool has_work() noexcept { return work_.has_work(); }
  bool turn_work() noexcept { return work_.turn(); }
  bool destroys() const noexcept { return destroying() != 0; }
  std::size_t destroying() const noexcept {  // any thread
    return dying_.load(std::memory_order_acquire);
  }
  // The caller does not hold the progress lock.
  void wait_until_destroyed() noexcept { work_.wait_until_done(); }

  // Takes at most kPollBatch completions of one queue, dispatches them and returns their number.
  // (progress_loop_datapath.h)
  std::uint32_t poll(ibv_cq* queue) noexcept;
  // Dispatches all completions that the queues of these queue pairs hold now, however many.
  void drain(std::span<const std::unique_ptr<QueuePair>> queue_pairs) noexcept;

  // Holding the progress lock. If the completion queue is one of ours, it is polled no more, no new
  // queue pair joins it, and the paths that use it are lost.
  void on_queue_failed(const ibv_cq* queue, ProgressLoop& loop) noexcept;

  verbs::MrHandle register_range(void* address, std::size_t bytes, int access);
  verbs::MrHandle register_buffer(const verbs::DmaBufferRange& range, int access);

  // Returns a queue pair in RESET outside the table, for reads of our own memory. Empty: see errno.
  verbs::QpHandle make_loop_back(ibv_cq* queue, std::uint32_t depth);

  // Provides the memory that probes of our new paths read, and that the peers' probes write, as
  // soon as the rail has a path. Its contents mean nothing.
  Status provide_probes();  // any thread; System: no memory, or the device refused it
  bool has_probes() const noexcept { return has_probes_.load(std::memory_order_acquire); }
  verbs::LocalSource probe_source(std::uint32_t bytes) const noexcept;
  verbs::RemoteTarget probe_target() const noexcept;

  // Returns the maker of relayed queue pairs; it exists once one of them has been made.
  relay::EndDevice& relay_end() noexcept { return *relay_end_; }

  ibv_cq* queue_of(const QueuePair& queue_pair) const noexcept;  // it must exist
  // Returns a completion queue outside the loop. Empty: see errno.
  verbs::CqHandle make_queue(int entries);

  // ---- A card that has left, and another one in its place.
  // When the gate is closed nothing is made or registered here: the device answers no more.
  DeviceGate gate;
  LateCalls late_calls;
  CallWatch calls;
  void leave() noexcept {
    gone_.store(true, std::memory_order_release);
    gate.close();
  }
  // On a thread that may wait for the device, after a call of it has failed: leaves the card if its
  // port says that it has left, and wakes the control thread, which takes its paths out of use. The
  // event may be still to come.
  void suspect() noexcept;
  // suspect() if the error says that the card may have left. Sets errno to the error.
  void note_error(int error) noexcept;
  // Any thread. Returns true from then on until come_back(). The gate opens before, when NCCL's
  // memory is on the new card, and no path is opened on it until all of the links' memory is.
  bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }
  // Returns true if the card has left, nobody is about to find out, and no queue pair is left.
  bool is_quiet() const noexcept { return gate.quiet() && queue_pair_count() == 0 && !destroys(); }
  // All that was made on the former card. Destroying it may take the device's time.
  class Remains;
  // Holding the progress lock of a quiet device: takes it all away, and nothing is polled any more.
  Remains take_apart(ProgressLoop& loop) noexcept;
  // Makes anew, on the new card, what must be there before queue pairs, on the thread that alone
  // may come in meanwhile. System: the device refused it; logged.
  Status renew(verbs::OpenDevice::Hold next);
  bool is_of(const verbs::OpenDevice::Hold& device) const noexcept {
    return card_ != nullptr && card_->device == device;
  }
  // The new card may be used.
  void come_back() noexcept {
    late_ = false;
    ++cards_;
    gone_.store(false, std::memory_order_release);
  }
  std::uint32_t cards() const noexcept { return cards_; }  // control mutex: new ones since open()

  verbs::Rail& rail() const noexcept { return rail_; }
  verbs::Provider& provider() const noexcept { return provider_; }
  std::uint32_t index() const noexcept { return index_; }
  const std::string& name() const noexcept { return rail_.info.name; }
  std::size_t completion_queue_count() const noexcept { return queues_.size(); }
  std::size_t queue_pair_count() const noexcept {  // any thread; nothing is published with it
    return queue_pairs_.load(std::memory_order_relaxed);
  }

 private:
  // Two buffers, so that no probe reads what another probe writes.
  struct Probes {
    std::array<std::byte, kProbeBytesMax> source, target;
  };
  Probes& probes() const noexcept { return *reinterpret_cast<Probes*>(probe_pages_.get()); }
  struct Queue {
    verbs::CqHandle cq;
    std::uint32_t entries = 0, reserved = 0;
    bool relayed = false;
    bool failed = false;
  };
  struct TableEntry {
    std::uint32_t life = 0;
    std::uint32_t queue = 0;
    std::uint32_t reserved = 0;
    std::shared_ptr<DeviceDebts> stops_for{}, dies_for{};  // its path's, until the device is done
  };

  // The owner of a completion. A free entry has an id that no completion at it can have.
  struct LiveEntry {
    QueuePair* queue_pair = nullptr;
    std::uint64_t receive_id = 0;  // of its receives; sends have the same entry and life
  };

  // The place of a queue pair that is not made yet.
  struct Reserved {
    std::uint32_t entry = 0;
    ibv_cq* queue = nullptr;
  };
  struct Wanted {
    std::uint32_t entries = 0;
    bool relayed = false;
  };
  Result<Reserved> reserve(const Order& order);
  void give_back(const Reserved& reserved) noexcept;
  Status create_inside(QueuePair& queue_pair, const Order& order);
  bool port_has_left() const noexcept;
  std::shared_ptr<const verbs::Card> card_on(verbs::OpenDevice::Hold device);  // without pd: errno
  Status tell_no_domain(int error) const;
  Status make_probes();
  bool stop_soon(ibv_qp* qp) noexcept override;  // relayed ones, in a turn
  bool has_threads() const noexcept override { return background_ != nullptr; }
  bool ask_stop(QueuePair& queue_pair) noexcept;  // false: the caller must stop it
  // Holding the progress lock. Both return true for the path's last one.
  bool on_stopped(std::uint32_t entry, int error) noexcept;
  static bool uncount_stop(TableEntry& entry) noexcept;
  bool on_destroyed(std::uint32_t entry) noexcept;
  void on_answer(const DeviceWork::Answer& answer) noexcept;  // on a thread of work_
  Result<Queue> make_queue_for(const Wanted& wanted);
  Result<Reserved> take_place(const Wanted& wanted);  // the caller has provided a queue with room
  std::size_t queue_with_room(const Wanted& wanted) const noexcept;  // queues_.size(): none has it
  verbs::Provider& maker(bool relayed);
  verbs::QpHandle make(ibv_cq* queue, const Order& order, InlineBytes* granted);
  std::uint32_t take_entry();
  void drain_queue(Queue& queue) noexcept;
  [[gnu::noinline]] void on_poll_failed() noexcept;  // every path on this rail is lost
  // Returns what RecvChannel::on_message() does; if not null, it is for dispatch_group().
  Request* dispatch(const ibv_wc& completion, Behind behind) noexcept;
  static void finish_posted(QueuePair& queue_pair, const ibv_wc& completion) noexcept;
  // Handles the completion of a path's timed write, or ignores one that outlives its queue pair.
  // Returns null.
  [[gnu::noinline]] Request* dispatch_timed(const ibv_wc& completion) noexcept;
  // Handles a member's completion and those of its group that follow; returns how many follow.
  [[gnu::noinline]] std::uint32_t dispatch_group(Request& slot,
                                                 std::span<const ibv_wc> completions) noexcept;
  // Dispatches two or more completions, and returns how many; below 0: the poll failed.
  [[gnu::noinline]] std::uint32_t dispatch_all(const ibv_wc* completions, int count) noexcept;

  verbs::Provider& provider_;
  verbs::Rail& rail_;
  const std::uint32_t index_;
  std::atomic<bool> gone_{false};
  bool late_ = false;
  std::uint32_t cards_ = 0;
  std::shared_ptr<const verbs::Card> card_;  // held by all that was made on it
  Pages probe_pages_;
  verbs::MrHandle probe_mr_;
  std::mutex probing_;  // of both until has_probes_
  std::atomic<bool> has_probes_{false};
  std::mutex placing_;  // held while a queue pair's place is taken; locked before the progress lock
  std::unique_ptr<relay::EndDevice> relay_end_;  // outlives what it made
  std::vector<Queue> queues_;
  std::vector<LiveEntry> live_;
  std::vector<TableEntry> entries_;
  std::vector<std::uint32_t> free_entries_;
  std::atomic<std::size_t> queue_pairs_{0};
  std::atomic<std::size_t> dying_{0};  // queue pairs, regions and calls of work_, without stops
  ProgressLoop* background_ = nullptr;
  DeviceWork work_{[this](const DeviceWork::Answer& answer) { on_answer(answer); }};
};

// Destroyed in the reverse order of these members.
class DeviceContext::Remains {
 public:
  std::shared_ptr<const verbs::Card> card;
  verbs::MrHandle probe_mr;
  std::unique_ptr<relay::EndDevice> relay_end;
  std::vector<Queue> queues;
};

}  // namespace mesh::engine
