#pragma once
// The heart of a context: one loop, turned by whoever holds its progress lock (NCCL's thread in
// isend, irecv and test, a poller, the control thread, a simulator). No thread on a message's way
// waits for the progress lock: a thread that misses it leaves a bit in the mailbox, which the
// holder looks at after release. Thread: any for submit, try_turn, Guard; the rest by the progress
// lock's holder. What the loop does on a message's way is in progress_loop_datapath.h. Bounds:
// kPollRounds, kPollsPerTurn, kVisitsPerTurn (progress_loop.cc).

#include <mesh/metrics.h>

#include "engine/data/channel.h"
#include "engine/data/channel_list.h"
#include "engine/data/device_context.h"
#include "engine/data/flusher.h"
#include "engine/data/queue_pair.h"
#include "engine/data/recv_queue_pair.h"
#include "src/base/check.h"
#include "src/base/one_at_a_time.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {

class RegistrationTable;
class RecvChannel;
class SendChannel;

inline constexpr std::uint32_t kMailBits = 64;

// Wakes the control thread from inside a turn, for example when a link failed. Must not block.
class ControlWaker {
 public:
  virtual void wake_control() noexcept = 0;
  virtual void guard_ended() noexcept {}  // for a simulator, which plays other threads then

 protected:
  ~ControlWaker() = default;
};

class ProgressLoop {
  // The progress lock comes first, so that taking it needs no address of its own. Bit 0: held.
  // Above: how many Guards wait; nobody but a Guard takes it while one waits.
  static constexpr std::uint32_t kHeld = 1, kGuard = 2;
  alignas(64) std::atomic<std::uint32_t> progress_lock_{0};

 public:
  explicit ProgressLoop(ControlWaker& waker) : waker_(waker) {}

  // ---- NCCL's threads and pollers.
  // After publish(). Posts the request at once, or leaves mail for the holder.
  template <typename Kind>
  void submit(Kind& channel, Request& request) noexcept;
  // submit() for a send of another tag than the channel's first one.
  void submit_tagged(SendChannel& channel) noexcept;
  // Makes a turn if the progress lock is free, and returns false if it is not. For NCCL's thread,
  // which tests a request of the channel `first` (progress_loop_datapath.h).
  bool try_turn(Channel* first) noexcept;
  [[gnu::noinline]] bool try_turn() noexcept;  // out of line; true: something moved

  // ---- Its poller, if it has one.
  // Called before the first channel: if a request waits for its test() to post it, test() must not
  // cease to turn the loop.
  void set_poller(bool has) noexcept { has_poller_ = has; }
  bool has_poller() const noexcept { return has_poller_; }
  // Makes a turn if the progress lock is free. Returns true if something has moved since the last
  // call of this or of look(), here or in another turn.
  bool poller_turn() noexcept;
  // poller_turn() of a poller that dozes. It waits a little for the progress lock, and callers see
  // no turn of the poller.
  bool look() noexcept;
  // The number of poller_turn() calls so far, whether the progress lock was free or not. A caller
  // that sees it unchanged turns the loop itself.
  std::uint32_t poller_turns() const noexcept {
    return poller_turns_.load(std::memory_order_relaxed);
  }

  // Holds the progress lock until the end of the scope, if it was free. Else the caller may leave
  // mail.
  class Attempt {
   public:
    explicit Attempt(ProgressLoop& loop) noexcept : loop_(loop), held_(loop.try_acquire()) {}
    ~Attempt() {
      if (held_) loop_.release();
      loop_.after_release();
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
    bool held() const noexcept { return held_; }

   private:
    ProgressLoop& loop_;
    const bool held_;
  };
  void leave_mail(const Channel& channel) noexcept {
    DCHECK(channel.mail_bit < kMailBits);
    mailbox_.fetch_or(std::uint64_t{1} << channel.mail_bit, std::memory_order_seq_cst);
  }

  // ---- Holds the progress lock from the control path, as soon as its present holder has finished
  // the turn.
  class Guard {
   public:
    explicit Guard(ProgressLoop& loop) noexcept;
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ProgressLoop& loop_;
  };

  // ---- The holder.
  void poll_once(Channel* first) noexcept;  // one turn
  template <typename Kind>
  void visit_and_ring(Kind& channel) noexcept;
  bool held() const noexcept { return holder_.owned_here(); }  // for DCHECK alone
  std::uint64_t turns() const noexcept { return turns_; }
  [[gnu::noinline]] void activate(Channel& channel) noexcept;  // it wants a visit
  void forget(Channel& channel) noexcept;  // takes it off every list; the channel is about to die
  void forget(QueuePair& queue_pair) noexcept;
  void add_staged(QueuePair& queue_pair) noexcept;  // (progress_loop_datapath.h)
  void unstage(QueuePair& queue_pair) noexcept;     // it has nothing staged any more
  [[gnu::noinline]] void add_window_due(RecvQueuePair& queue_pair) noexcept;
  void ring_staged() noexcept;      // and calls answer_refusals()
  void answer_refusals() noexcept;  // quarantines the paths whose posts were refused
  struct Refused {
    QueuePair* queue_pair = nullptr;
    int error = 0;
  };
  void add_refused(const Refused& refused) {
    DCHECK(held());
    DCHECK(refused_.size() < refused_.capacity());  // a turn allocates nothing
    refused_.push_back(refused);
    has_refused_ = true;
  }
  struct Source {
    DeviceContext* device = nullptr;
    ibv_cq* queue = nullptr;
  };
  void add_source(const Source& source) {
    DCHECK(held());
    DCHECK(source.device != nullptr && source.queue != nullptr);
    sources_.push_back(source);
    only_ = sources_.size() == 1 ? source : Source{};
  }                                                // a completion queue to be polled in every turn
  void drop_source(const ibv_cq* queue) noexcept;  // it is polled no more
  void attach(Channel& channel);                   // from now on its submissions are noticed
  void reserve(std::size_t queue_pairs) {
    DCHECK(held());
    for (auto* const list : {&window_due_, &window_later_}) list->reserve(queue_pairs);
    for (auto* const list : {&refused_, &refusing_}) list->reserve(queue_pairs);
    for (auto* const list : {&full_, &still_full_, &wishing_}) list->reserve(queue_pairs);
  }
  // Tells the control thread that some link of ours has failed or lost a path.
  void wake_control() noexcept {
    trouble_.store(true, std::memory_order_release);  // acquired in take_trouble()
    waker_.wake_control();
  }
  // Tells the control thread that this link of ours wants late queue pairs. No other link is looked
  // at: those of a communicator of many hosts wish one after another.
  void add_wishing(PeerLink& link) noexcept {
    DCHECK(held());
    DCHECK(wishing_.size() < wishing_.capacity());  // a turn allocates nothing
    wishing_.push_back(&link);
    has_wishing_.store(true, std::memory_order_relaxed);
    waker_.wake_control();
  }
  // Calls take with each of them and forgets them. Takes the progress lock if there are any.
  template <typename Take>
  void take_wishing(Take&& take);
  void forget_wishing(const PeerLink& link) noexcept { std::erase(wishing_, &link); }
  bool take_trouble() noexcept { return trouble_.exchange(false, std::memory_order_acquire); }

  std::vector<std::unique_ptr<DeviceContext>> devices;
  LoopCounters counters;
  RegistrationTable* registrations = nullptr;  // those of its context
  std::unique_ptr<Flusher> flusher;            // of the device contexts, for device memory

 private:
  bool try_acquire() noexcept;
  void release() noexcept;
  void after_release() noexcept;
  [[gnu::noinline]] void answer_mail() noexcept;
  [[gnu::noinline]] void take_mail() noexcept;
  void visit(Channel& channel) noexcept;
  enum class Visit : std::uint8_t { Over, InVain, Served };
  static Visit visit_in_turn(Channel& channel) noexcept;
  [[gnu::noinline]] void visit_active() noexcept;
  [[gnu::noinline]] void visit_full(ChannelList* served) noexcept;
  static void visit_waiting(ChannelList& waiting, ChannelList* served) noexcept;
  [[gnu::noinline]] void wait_for_visit(Channel& channel) noexcept;
  [[gnu::noinline]] void poll_on(const Source& source) noexcept;
  [[gnu::noinline]] void poll_several(const Channel* first) noexcept;
  [[gnu::noinline]] void work(Channel* first) noexcept;
  [[gnu::noinline]] void fail_refused() noexcept;
  [[gnu::noinline]] void return_windows() noexcept;
  bool turn_of_poller() noexcept;

  bool has_poller_ = false;
  [[no_unique_address]] OwnerThread holder_;
  ControlWaker& waker_;
  // Bit n says that a channel with that mail bit has something new.
  alignas(64) std::atomic<std::uint64_t> mailbox_{0};
  alignas(64) std::array<std::vector<Channel*>, kMailBits> channels_;  // by mail bit
  std::uint32_t next_mail_bit_ = 0;
  ChannelList active_;
  // Links with channels that wait for room on their paths.
  std::vector<PeerLink*> full_, still_full_;
  QueuePair* staged_ = nullptr;
  std::uint64_t turns_ = 0;
  std::uint64_t events_ = 0;       // completions and doorbells: a turn without any was idle
  std::uint64_t poller_seen_ = 0;  // events_ when the poller looked last
  std::atomic<std::uint32_t> poller_turns_{0};  // stored by the poller alone
  bool has_work_ = false;  // a channel is active or a window is due; whoever stages also rings
  bool has_refused_ = false;
  std::vector<Source> sources_;
  std::size_t next_source_ = 0;  // the one polled last, where several take turns
  Source only_;  // the only one, if there is just one, as on most hosts: polling it costs no loop
  std::vector<RecvQueuePair*> window_due_;
  std::vector<RecvQueuePair*> window_later_;
  std::vector<Refused> refused_, refusing_;  // empty in a healthy turn
  std::atomic<bool> trouble_{false};
  std::vector<PeerLink*> wishing_;  // each until it was taken
  std::atomic<bool> has_wishing_{false};
};

template <typename Take>
void ProgressLoop::take_wishing(Take&& take) {
  if (!has_wishing_.load(std::memory_order_relaxed)) return;
  const Guard guard(*this);
  has_wishing_.store(false, std::memory_order_relaxed);
  for (const PeerLink* const link : wishing_) take(*link);
  wishing_.clear();
}

}  // namespace mesh::engine
