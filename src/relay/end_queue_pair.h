#pragma once
// A relayed queue pair at one end: what is posted waits in a software queue, goes into the next
// host's ring as there is room, and completes when the counts say that the far end has it. Work
// requests stay whole: they are never split and never merged. Thread: under its completion queue's
// lock, unless a function says otherwise. Bound: the depths that it was made with.

#include "src/base/pages.h"
#include "src/relay/count_words.h"
#include "src/relay/ring_writer.h"
#include "src/relay/wire.h"
#include "src/verbs/handle.h"
#include "src/verbs/provider.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::relay {

class EndCompletionQueue;

// The id of a real work request: index 16 | mark 1 | life 15 | count 32.
inline constexpr std::uint64_t kMarkBit = std::uint64_t{1} << 47;
constexpr std::uint64_t end_id(std::uint32_t index, std::uint32_t life) noexcept {
  return std::uint64_t{index} << 48 | std::uint64_t{life & 0x7fff} << 32;
}

class Stopper;

class EndQueuePair {
 public:
  struct Parts {
    verbs::Provider* provider = nullptr;
    Stopper* stopper = nullptr;
    EndCompletionQueue* sends = nullptr;
    EndCompletionQueue* receives = nullptr;
    Pages memory;
    verbs::MrHandle mr;
    verbs::QpHandle real;
    ibv_qp_cap granted{};            // to the real queue pair
    std::uint32_t depth = 0;         // of the software queue
    std::uint32_t real_depth = 0;    // of the real send queue
    std::uint32_t real_inline = 0;   // granted to the real queue pair
    std::uint32_t inline_bytes = 0;  // granted to the user
    bool signal_all = false;
  };
  explicit EndQueuePair(Parts parts);
  EndQueuePair(const EndQueuePair&) = delete;
  EndQueuePair& operator=(const EndQueuePair&) = delete;

  // Returns the bytes that the memory of Parts must have.
  static std::size_t memory_bytes(std::uint32_t depth) noexcept {
    return sizeof(CountLine) + std::size_t{depth} * kSlotBytes;
  }

  ibv_qp verbs{};  // the first member, so that the user's pointer is ours

  // ---- Set-up. The completion queue gives the index and the first life, which no queue pair with
  // that index has had: each life has an id of its own.
  void set_index(std::uint32_t index, std::uint32_t life) noexcept {
    index_ = index;
    life_ = life;
  }
  bool set_ring(const RingTarget& ring);  // false: there was one
  bool has_ring() const noexcept { return writer_.is_open(); }
  CountsTarget counts() const noexcept;
  void reset() noexcept;  // the real queue pair is in RESET: nothing is outstanding any more

  // ---- Calls of the user.
  int post(ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
  int poll(int count, ibv_wc* wc) noexcept;  // takes completions of settled work requests
  void turn() noexcept;  // takes the counts, and moves on the work that has room
  // Returns true if nothing is under way, and the next host has not said that it goes.
  bool rests() noexcept {
    return posted_ == done_ && !flushed_.load(std::memory_order_relaxed) && !line().has_last();
  }
  bool has_answers() const noexcept { return told_ != done_ || failed(); }  // poll() finds some

  // ---- Reports of the real queue pair.
  void on_completion(const ibv_wc& completion) noexcept;  // of one of its sends
  // Fails all outstanding work, the oldest with this status, and has the real queue pair put into
  // ERR if it is not.
  void fail(ibv_wc_status status) noexcept;
  void note_stopped() noexcept { stopped_ = true; }  // the real queue pair is in ERR
  // Notes that a receive was flushed, so the real queue pair is in ERR. From any thread.
  void note_flushed() noexcept { flushed_.store(true, std::memory_order_release); }

  // As EndDevice::stuck(). The caller holds the lock of the sends.
  bool stuck(std::uint64_t now_ns) noexcept;

  // ---- For a watcher, from any thread.
  std::uint64_t outstanding() const noexcept;
  std::uint64_t moved() const noexcept { return moved_.load(std::memory_order_relaxed); }
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  std::uint32_t index() const noexcept { return index_; }
  std::uint32_t life() const noexcept { return life_; }  // reset() begins the next one
  std::uint32_t reserved() const noexcept { return parts_.real_depth; }
  const Parts& parts() const noexcept { return parts_; }

 private:
  struct QueuedRequest {
    std::uint64_t wr_id = 0;
    SlotHeader header;
    verbs::LocalSource payload;
    bool joined = false;  // the payload was copied behind the place of the header
    bool signaled = false;
  };
  QueuedRequest& at(std::uint64_t number) noexcept { return entries_[number % entries_.size()]; }
  std::byte* place(std::uint64_t number) const noexcept;
  CountLine& line() const noexcept { return *reinterpret_cast<CountLine*>(parts_.memory.get()); }
  int check(const ibv_send_wr& wr) const noexcept;
  void take(const ibv_send_wr& wr) noexcept;
  void move_on() noexcept;
  void take_counts() noexcept;
  void mark_end() noexcept;
  void stop_real() noexcept;
  void ring() noexcept;
  void publish() noexcept;
  void open_batch() noexcept;

  Parts parts_;
  std::uint32_t index_ = 0, life_ = 0;
  SendBatch batch_;
  RingWriter writer_;
  CountLook look_;
  std::vector<QueuedRequest> entries_;
  // Running counts: freed <= told <= done <= given <= posted.
  std::uint64_t posted_ = 0;               // taken from the user
  std::uint64_t given_ = 0;                // written into the ring
  std::uint64_t done_ = 0;                 // the far end has them
  std::uint64_t told_ = 0;                 // completed to the user, or silently
  std::uint64_t freed_ = 0;                // not needed any more: a later completion was polled
  ibv_wc_status status_ = IBV_WC_SUCCESS;  // of work request `done_`, once failed
  bool stopped_ = false;                   // the real queue pair is in ERR
  bool quiet_ = false;  // failed, and the real queue pair touches no memory any more

  std::atomic<bool> flushed_{false};  // released in note_flushed(), acquired in turn()
  std::atomic<bool> failed_{false};   // these three are for watchers alone: relaxed
  std::atomic<std::uint64_t> moved_{0}, outstanding_{0};
  struct Watch {
    bool waited = false;  // something was outstanding
    std::uint64_t moved = 0;
    std::uint64_t since_ns = 0;  // since when something waits and nothing has moved
  };
  Watch watch_;  // the watcher's
};

// Real work requests beyond the two for each of the user's: a few that wait to be polled, and the
// mark that EndQueuePair posts behind all others when it fails.
inline constexpr std::uint32_t kSpareRequests = 8;

struct EndQueues {
  EndCompletionQueue* sends = nullptr;
  EndCompletionQueue* receives = nullptr;
};

// Makes a relayed queue pair of an end: memory for its headers and counts, a real queue pair whose
// send queue has room for the work requests that the user's become, and a place in the completion
// queues. Returns null with errno on failure. Afterwards attr->cap has what was granted; the caller
// sets the context.
struct EndMaker {
  verbs::Provider& real;
  Stopper* stopper = nullptr;
};
std::unique_ptr<EndQueuePair> make_end(const EndMaker& by, ibv_pd* pd, const EndQueues& queues,
                                       ibv_qp_init_attr* attr);

}  // namespace mesh::relay
