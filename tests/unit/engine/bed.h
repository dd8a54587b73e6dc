#pragma once
// Hosts of a software fabric, each with an engine, in one process and on one thread with a manual
// clock. They are turned in a fixed order, and a test can stop any part of a host to decide what
// happens first. Thread: one. Only the handshake leaves the process, over TCP on loopback.

#include <mesh/engine.h>

#include "tests/prelude.h"
#include "tests/unit/engine/engine_host.h"

namespace mesh::engine {
class DeviceContext;
}

namespace mesh::testkit {

extern const char* const kCable;        // a and b, one cable
extern const char* const kHalves;       // a and b, two halves of a cable
extern const char* const kThreeCables;  // a and b, three cables
extern const char* const kLine;         // a - b - c: a and c share no subnet

struct BedOptions {
  const char* fabric = kCable;
  TransferPolicy policy = {};
  std::size_t contexts = 1;  // on each host
  int stall_seconds = Settings{}.stall_seconds;
  int path_timeout_s = Settings{}.path_timeout_s;
  int ack_timer = Settings{}.timeout;  // NCCL_IB_TIMEOUT
  std::string rails = "all";           // most tests are of links with several paths
  const char* socket_ifname = "lo";    // NCCL_SOCKET_IFNAME
  bool rewrites_late = true;           // TestHooks::rewrites_late
  int relay = Settings{}.relay;        // NCCL_MESH_RELAY
  int both_ways = Settings{}.both_ways;
  std::string job{};             // NCCL_MESH_JOB
  int adaptive_routing = kAuto;  // NCCL_IB_ADAPTIVE_ROUTING
  int ar_threshold = Settings{}.ar_threshold;
  bool wall_clock = false;               // real time; advance_ns() and tick_ns then do nothing
  std::uint64_t timed_ns = 0;            // TestHooks::timed_ns
  std::function<bool()> device_works{};  // TestHooks::device_works
  // TestHooks::device_hangs
  std::function<bool(const engine::DeviceContext&)> device_hangs{};
};

struct BedHost : EngineHost<> {
  void fault(const soft::Fault& fault, bool on = true);  // arms or lifts it
  void port(const std::string& nic, bool up);

  bool nics_stand = false, loops_stand = false, control_stands = false;
};

// Names a communicator: the index of its host, and its index on that host.
struct Seat {
  std::size_t host = 0, context = 0;
};

// The devices that NCCL names when it connects and when it listens.
struct Devices {
  int connects = 0, listens = 0;
};

inline constexpr Seat kA{0, 0}, kB{1, 0};  // the first communicator of each host

class Bed {
 public:
  static constexpr int kRounds = 100'000;

  explicit Bed(const BedOptions& options);
  ~Bed();

  void round();       // gives one turn to every part that is not stopped
  void data_round();  // a round without the control path, which costs system calls
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
  // Turns the bed until the request ends.
  Status finish(Request* request, std::size_t* bytes = nullptr);
  bool finish_all(const std::vector<Request*>& requests);  // true: each has ended well
  // Returns true once no host has a link, queue pair or registration; turns the bed until then.
  bool empties();
  void close_context(const Seat& seat);

  EngineStats stats(std::size_t host) const { return hosts[host].engine->stats(); }
  std::uint64_t now_ns() const { return clock_.load(std::memory_order_relaxed); }
  Clock clock() const { return Clock(&clock_); }
  void advance_ns(std::uint64_t by) { clock_.fetch_add(by, std::memory_order_relaxed); }
  std::uint64_t rnr_events() const;

  std::vector<BedHost> hosts;
  std::uint64_t tick_ns = 1000;      // time that a round adds to the clock
  std::function<void()> each_round;  // called in each round, for parts of a test beside the hosts
  std::function<void(HandleBytes&)> each_handle;  // called between listen and connect
  std::function<void()> meanwhile;  // called once, in the next round, or inside a call that waits

 private:
  std::atomic<std::uint64_t> clock_{1'000'000};
  soft::FabricFile fabric_;
};

// A connected pair with a registered buffer on each side. The sender's buffer is filled so that no
// two places have equal contents.
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
  // Sends until the path is open: the first message asks for it, and NCCL would call again. Returns
  // false if the message fails.
  bool wakes();
  // Sends one message of `bytes` and tests it on both sides.
  void exchange(std::size_t bytes);
  bool holds(std::size_t target_at, std::size_t source_at, std::size_t bytes) const;
  void release();     // deregisters both buffers
  void close_both();  // call after release()
  void end() { release(), close_both(); }

  Bed& bed;
  Pair pair;
  std::vector<std::byte> source, target;
  Registration* source_region = nullptr;
  Registration* target_region = nullptr;
};

}  // namespace mesh::testkit
