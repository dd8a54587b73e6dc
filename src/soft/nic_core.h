#pragma once
// The state that all parts of one NIC share: its place in the fabric, its wire, its turn lock, the
// regions registered with it and the sets of queue pairs that a turn looks at. Thread: the sets
// under the turn lock; the rest as its own type says. Bound: kQpsMax queue pairs.

#include "src/base/clock.h"
#include "src/soft/board.h"
#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"
#include "src/soft/index_set.h"
#include "src/soft/late_writes.h"
#include "src/soft/memory_table.h"
#include "src/soft/queue_pair.h"
#include "src/soft/spin_lock.h"
#include "src/soft/wire_model.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#if defined(__SANITIZE_THREAD__)
#define MESH_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MESH_RACE_DETECTOR 1
#endif
#endif

namespace mesh::soft {

// An order that a race detector cannot see: a peer in another process saw our post before it wrote
// to us. Posting releases this edge and every turn acquires it. Without a race detector the edge
// does nothing. Thread: any. Bound: none.
class RaceEdge {
 public:
#ifdef MESH_RACE_DETECTOR
  void release() noexcept { word_.fetch_add(1, std::memory_order_acq_rel); }
  void acquire() noexcept { word_.fetch_add(0, std::memory_order_acq_rel); }

 private:
  std::atomic<unsigned> word_{0};
#else
  void release() noexcept {}
  void acquire() noexcept {}
#endif
};

// The time that a host's verbs calls have cost its CPU on a manual clock, where calls themselves
// take no time. The owner of the clock takes the sum after each call, and lets the host act again
// only when that time has passed. What is posted meanwhile is posted that much later. With the wall
// clock nothing is counted. Thread: any. Bound: none; if nobody takes the sum, posts become later
// and later.
class HostCpu {
 public:
  explicit HostCpu(const Clock& clock) : clock_(clock) {}

  void spend(std::uint64_t ns) noexcept {
    if (ns != 0 && clock_.manual()) spent_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  std::uint64_t take() noexcept { return spent_ns_.exchange(0, std::memory_order_relaxed); }
  // Returns the time as the host sees it in the middle of its calls.
  std::uint64_t now_ns() const noexcept {
    return clock_.now_ns() + spent_ns_.load(std::memory_order_relaxed);
  }

 private:
  const Clock clock_;
  std::atomic<std::uint64_t> spent_ns_{0};
};

// The most bytes of one work request, as the ports of soft-RoCE say.
inline constexpr std::uint64_t kWorkRequestBytesMax = std::uint64_t{8} << 20;

inline constexpr std::uint8_t kPort = 1;  // a NIC has one port

// The interval at which a manual clock looks at a path that a fault has cut.
inline constexpr std::uint64_t kStalledLookNs = 1'000'000;

// All pointers outlive the NIC.
struct NicOptions {
  const FabricFile* fabric = nullptr;
  FaultPlan* faults = nullptr;
  Board* board = nullptr;
  Wires wires;
  HostCpu* cpu = nullptr;
  Clock clock;
  NicRef self;   // host and NIC
  int slot = 0;  // the process, among those of the host
};

// Reads the clock at most once, and only if a caller asks for the time.
class TurnTime {
 public:
  explicit TurnTime(const Clock& clock) : clock_(clock) {}
  std::uint64_t now_ns() {
    if (!known_) value_ns_ = clock_.now_ns();
    known_ = true;
    return value_ns_;
  }

 private:
  const Clock& clock_;
  std::uint64_t value_ns_ = 0;
  bool known_ = false;
};

struct NicCore {
  explicit NicCore(const NicOptions& options);
  NicCore(const NicCore&) = delete;
  NicCore& operator=(const NicCore&) = delete;

  bool shaped() const noexcept { return modelled || faults.armed(); }
  bool turning() const noexcept { return turn_lock.held_here(); }  // for DCHECK only
  // Returns true if a fault cuts the queue pair from this host at this moment, or the port has
  // another LID than when the queue pair was connected. A NIC that sends to itself needs the card,
  // and the port where the fabric file says so.
  bool cut_off(const Attributes& connection, const std::string& host, TurnTime& time) noexcept {
    if (connection.own_lid != lid) return true;
    if (!faults.armed()) return false;
    if (is_loop_back(connection))
      return spec.loop_back_needs_port ? faults.port_down(spec.name, time.now_ns())
                                       : faults.card_left(spec.name, time.now_ns());
    return faults.cut_off(spec.name, host, time.now_ns());
  }
  // Returns true while a fault keeps this card from completing anything.
  bool mute(TurnTime& time) noexcept {
    return faults.armed() && faults.mute(spec.name, time.now_ns());
  }
  bool is_loop_back(const Attributes& connection) const noexcept {
    return std::memcmp(connection.dest_gid.raw, spec.gid.raw, sizeof spec.gid.raw) == 0;
  }

  const LinkSpec* link() const noexcept {  // null: nothing is plugged in
    return spec.link < 0 ? nullptr : &fabric.links[static_cast<std::size_t>(spec.link)];
  }

  const NicRef self;
  const FabricFile& fabric;
  const NicSpec& spec;
  FaultPlan& faults;
  Board& board;
  NicBoard& bells;
  const Clock clock;
  HostCpu& cpu;
  WireModel wire;
  const bool modelled;

  TurnLock turn_lock;
  std::uint16_t lid = 0;       // under the turn lock; of an InfiniBand port
  DeviceWrites device_writes;  // under the turn lock
  RaceEdge posts;
  Bells posting;  // rung by posters: queue pairs on which something may be outstanding
  MemoryTable regions;
  IndexSet serving;     // a peer's ring may hold requests for them
  IndexSet completing;  // their target may have answered, or they are watched or flushed
  IndexSet backlog;     // they have requests that are not on the modelled wire yet
};

}  // namespace mesh::soft
