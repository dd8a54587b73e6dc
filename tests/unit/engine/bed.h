#pragma once
// Hosts of a software fabric with an engine each, in one process, on one thread and a manual clock,
// turned in a fixed order. Any part of a host can be made to stand still, so that a test decides
// what happens before what. Thread: one. Only the handshake leaves the process, over TCP on
// loopback.

#include <mesh/engine.h>

#include "tests/unit/engine/engine_host.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mesh::testkit {

extern const char* const kCable;        // a and b, one cable
extern const char* const kHalves;       // a and b, two halves of a cable
extern const char* const kThreeCables;  // a and b, three cables
extern const char* const kLine;         // a - b - c: a and c share no subnet

struct BedOptions {
  const char* fabric = kCable;
  TransferPolicy policy = {};
  std::size_t contexts = 1;  // of each host
  int stall_seconds = Settings{}.stall_seconds;
  int path_timeout_s = Settings{}.path_timeout_s;
  std::string rails = "all";         // most tests are of links with several paths
  const char* socket_ifname = "lo";  // NCCL_SOCKET_IFNAME
  bool rewrites_late = true;         // EngineOptions's
  int relay = Settings{}.relay;      // NCCL_MESH_RELAY
  int both_ways = Settings{}.both_ways;
  int adaptive_routing = kAuto;  // NCCL_IB_ADAPTIVE_ROUTING
  int ar_threshold = Settings{}.ar_threshold;
  bool wall_clock = false;  // real time; advance_ns() and tick_ns then do nothing
};

struct BedHost : EngineHost<> {
  bool nics_stand = false, loops_stand = false, control_stands = false;
};

// Which communicator of which host.
struct Seat {
  std::size_t host = 0, context = 0;
};

// That NCCL names when it connects, and when it listens.
struct Devices {
  int connects = 0, listens = 0;
};

inline constexpr Seat kA{0, 0}, kB{1, 0};  // the first of either host

class Bed {
 public:
  static constexpr int kRounds = 100'000;

  explicit Bed(const BedOptions& options);
  ~Bed();

  void round();       // everything that does not stand gets one turn
  void data_round();  // the same without the control path, which costs system calls
  void rounds(int count) {
    for (int i = 0; i < count; ++i) round();
  }
  template <typename Done>
  bool until(Done&& done, int bound = kRounds) {
    for (int i = 0; i < bound; ++i) {
      if (done()) return true;
      round();
    }
    return false;
  }

  Pair connect(const Seat& sender, const Seat& receiver, const Devices& devices = {});
  // Turns until the request ends.
  Status finish(Request* request, std::size_t* bytes = nullptr);
  // Every link, queue pair and registration of every host is gone, sooner or later.
  bool empties();
  void close_context(const Seat& seat);

  EngineStats stats(std::size_t host) const { return hosts[host].engine->stats(); }
  std::uint64_t now_ns() const { return clock_.load(std::memory_order_relaxed); }
  void advance_ns(std::uint64_t by) { clock_.fetch_add(by, std::memory_order_relaxed); }
  std::uint64_t rnr_events() const;

  std::vector<BedHost> hosts;
  std::uint64_t tick_ns = 1000;                   // how far a round moves the clock
  std::function<void()> each_round;               // beside the hosts: whoever else must move
  std::function<void(HandleBytes&)> each_handle;  // between listen and connect
  std::function<void()>
      meanwhile;  // once, in the next round; inside a call that waits, if one does

 private:
  std::atomic<std::uint64_t> clock_{1'000'000};
  soft::FabricFile fabric_;
};

// A connected pair with a registered buffer on each side, the sender's filled so that no two places
// look alike.
class Talk {
 public:
  Talk(Bed& bed_of, const Pair& pair, std::size_t size);
  Talk(Bed& bed_of, const Seat& sender, const Seat& receiver, std::size_t size)
      : Talk(bed_of, bed_of.connect(sender, receiver), size) {}

  struct Part {
    std::size_t at = 0, bytes = 0;
    std::uint32_t tag = 0;
  };
  Result<Request*> send(const Part& part);
  Result<Request*> receive(const Part& part);
  // One message of that size, tested on both sides.
  void exchange(std::size_t bytes);
  bool holds(std::size_t target_at, std::size_t source_at, std::size_t bytes) const;
  void release();     // both registrations
  void close_both();  // after release()

  Bed& bed;
  Pair pair;
  std::vector<std::byte> source, target;
  Registration* source_region = nullptr;
  Registration* target_region = nullptr;
};

}  // namespace mesh::testkit
