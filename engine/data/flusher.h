#pragma once
// Flushes of device memory. A GPU may learn that a message has arrived before its bytes are in the
// GPU's memory; a read of that memory by the same NIC pushes them there. So each rail of a context
// with device memory has a queue pair that is connected to itself, with a completion queue of its
// own, and a flush is one read of one byte on each rail that may have written. A queue pair that
// has failed is made anew, by a thread that waits for the device, and its reads are repeated. A
// card that has left the host owes no read, and neither does a port that is down, where a read of
// another rail that began after the completions has succeeded: such a port writes no more, and some
// devices read their own memory over a port that is up only. Thread: any; a short lock is held for
// a post or a poll, and a mutex for making the first queue pair of a rail. Bounds: kFlushDepth open
// reads on a rail, beyond which they wait; as many open flushes as the callers have requests.

#include <mesh/channel.h>
#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/data/request.h"
#include "src/base/yielding.h"
#include "src/verbs/handle.h"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace mesh::engine {

class DeviceContext;

inline constexpr std::uint32_t kFlushDepth = 256;

// The place that a flush reads, and the channel that it is for; null for the flush of a fence.
struct FlushPlace {
  Channel* channel = nullptr;
  Registration* region = nullptr;
  std::uint64_t address = 0;
};

// A flush: what NCCL holds is its Request, in state Flushing. Rails are bits.
struct Flush : Request {
  std::uint64_t open_rails = 0;  // with an open read
  std::uint64_t owed_rails = 0;  // that still owe a read
  std::uint32_t silent_ms = 0;   // time that give_up_silent() has counted for its open reads
  std::uint8_t failures = 0;     // reads that failed
  bool seen = false;             // by give_up_silent(), which counts from then on
  bool abandoned = false;        // nobody asks about it any more
  bool stood_in = false;         // a rail has read, or reads, for one whose port is down
  std::uint64_t stand_ins = 0;   // without a channel: the rails that may
};

class Flusher {
 public:
  Flusher(std::size_t rails, const Settings& settings) : settings_(settings), rails_(rails) {}

  // Control mutex. Notes the ports: device memory is about to be registered on some of them.
  void note_ports(std::span<const std::unique_ptr<DeviceContext>> devices);
  // A rail gets its queue pair when the first device region needs it. If the device refuses, one
  // line says so, and flushes over that rail fail.
  void provide(DeviceContext& device);

  // Starts the reads; rails are bits. Returns System if there is no memory for one more flush.
  Result<Flush*> start(const FlushPlace& place, std::uint64_t rails) noexcept;
  // Starts the read of a path's rail. stand_ins: rails with the region, as bits, that may read
  // instead if the rail's port is down.
  Result<Flush*> start_before_fence(const FlushPlace& place, std::uint32_t rail,
                                    std::uint64_t stand_ins) noexcept;
  // Returns WouldBlock while the flush is open, else its result, and frees it.
  Errc finish(Flush& flush) noexcept;
  // Gives up a flush about which nobody will ask any more.
  void abandon(Flush& flush) noexcept;
  // Ends the open reads of a rail whose card has left: it writes no more and may complete no read.
  void leave(std::uint32_t rail) noexcept;
  // On the thread that works for the new card of a rail: gives it another completion queue, and the
  // next flush over it makes its queue pair. `former` gets what the former card had.
  struct Former {
    verbs::CqHandle cq;
    verbs::QpHandle qp;
  };
  Status renew_card(DeviceContext& device, Former* former);
  // Control mutex. Adds the time since the last call to all flushes with open reads, and fails
  // those that reach the bound: a card that hangs neither completes a read nor fails it.
  struct Silence {
    std::uint64_t elapsed_ns = 0, bound_ns = 0;
  };
  void give_up_silent(const Silence& silence) noexcept;
  // Notes that the region is about to go: what has failed of its open flushes is not repeated.
  void forget(const Channel& channel, const Registration& region) noexcept;

 private:
  // The attributes that connect a queue pair to itself.
  struct Port {
    ibv_qp_attr init{}, receive{}, send{};
  };
  struct Rail {
    DeviceContext* device = nullptr;
    Port port;
    verbs::CqHandle cq;
    verbs::QpHandle qp;
    std::uint32_t depth = kFlushDepth;  // of its queue pair: the device may have room for less
    std::uint32_t open = 0;
    bool broken = false;
    bool gone = false;     // its card had left when it was last looked for
    bool making = false;   // a thread makes its queue pair anew
    bool refused = false;  // the device has refused one: the next flush fails, a later one tries
  };
  using Hold = std::lock_guard<ShortLock>;

  // ---- Its queue pairs (flusher_set_up.cc, which also gives up silent ones).
  static Port port_of(const DeviceContext& device, const Settings& settings);
  static verbs::QpHandle make(const Rail& rail) noexcept;
  static void drop_completions(const Rail& rail) noexcept;
  static int connect(const Rail& rail, ibv_qp* qp) noexcept;
  std::uint64_t making_rails() const noexcept;
  void renew(std::uint32_t rail) noexcept;
  static void renew_later(void* self, std::uint32_t rail) noexcept;
  static void install(Rail& rail, verbs::QpHandle made) noexcept;

  // ---- Its flushes (flusher.cc).
  void post(std::uint32_t rail, Flush& flush) noexcept;
  void post_all(std::uint64_t rails, Flush& flush) noexcept;
  bool post_read(Rail& rail, Flush& flush) noexcept;
  [[gnu::cold]] void owe(std::uint32_t rail, Flush& flush) noexcept;
  [[gnu::always_inline]] Result<Flush*> begin(Flush* flush, const FlushPlace& place,
                                              std::uint64_t rails) noexcept;
  [[gnu::always_inline]] void read(std::uint32_t rail, Flush& flush) noexcept;
  static bool has_room(const Rail& rail) noexcept {
    return !rail.broken && !rail.making && rail.open != rail.depth;
  }
  static bool has_dead_port(const DeviceContext& device) noexcept;
  static bool may_stand_in(const Rail& rail) noexcept;
  std::uint64_t stand_ins_for(std::uint32_t rail, const Flush& flush) const noexcept;
  [[gnu::cold]] bool waits_for_port(std::uint32_t rail, Flush& flush) noexcept;
  static constexpr std::uint64_t bit_of(std::uint32_t rail) noexcept {
    return std::uint64_t{1} << rail;
  }
  void end_reads(std::uint32_t rail, Errc error) noexcept;
  void poll() noexcept;
  void take(std::uint32_t rail, const ibv_wc& completion) noexcept;
  Flush* take_free() noexcept;
  Flush* make_flush() noexcept;
  void release(Flush& flush) noexcept;

  const Settings& settings_;
  std::mutex providing_;    // held while a device works; never waited for with a lock of others
  std::mutex ports_mutex_;  // of ports_
  std::vector<Port> ports_;
  ShortLock lock_;
  std::vector<Rail> rails_;
  std::deque<Flush> flushes_;
  std::vector<Flush*> free_;
};

}  // namespace mesh::engine
