#pragma once
// Makes the queue pairs of one link, or of one path that is opened again, and takes them to RTS, or
// one of the two, on a thread of its own where the engine has threads. A device may take seconds
// for one, and the kernel resolves the peer's address on the way to RTS and may wait a second for
// it, three times a path. Nobody else's frames, closes and memory wait for that. Thread: control
// mutex. While running() nobody else touches the queue pairs; the loop does not know them before
// the link is up. Bounds: kResolveTries seconds a path, and the device's time for each queue pair;
// after abandon() the try or the queue pair under way, which the destructor waits for.

#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "engine/data/peer_link.h"
#include "engine/data/standby_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace mesh::engine {

// Threads at a time; the other links wait for one to end.
inline constexpr std::size_t kBringUpsMax = 16;
inline constexpr std::size_t kBringUpsPerPeerMax = 4;  // of links to one peer address
// Of those, paths that are opened again: somebody waits for a first bring-up, and a path whose peer
// is gone is tried for ever.
inline constexpr std::size_t kReopensMax = kBringUpsMax / 2;
inline constexpr std::size_t kReopensPerPeerMax = kBringUpsPerPeerMax / 2;

// First: of a whole link. Again: of one path of a link that is up.
enum class BringUpKind : std::uint8_t { First, Again };
struct RunningBringUp {
  SocketAddress peer;
  BringUpKind kind = BringUpKind::First;
};
struct WaitingBringUp {
  SocketAddress peer;
  std::uint64_t asked_ns = 0;
  BringUpKind kind = BringUpKind::First;
};
// The index of the bring-up that gets a thread next, while others run. First ones go first, then
// the peer for which the fewest run, and of one peer the bring-up that has waited longest. Where
// none may start, it is the number of those that wait.
std::size_t next_in_turn(std::span<const RunningBringUp> running,
                         std::span<const WaitingBringUp> waiting);

class BringUp {
 public:
  struct Order {
    PeerLink* link = nullptr;
    std::vector<WireRail> peer_rails{};
    std::vector<std::uint32_t> makes{};    // paths whose queue pairs are made first
    std::vector<WirePath> paths{};         // the peer's queue pairs
    std::vector<std::uint32_t> indices{};  // which of the link's paths these are
    std::uint32_t psn = 0;                 // ours
    Settings settings;
    bool reopens = false;                     // one path of a link that is up
    std::vector<WireHop> via{};               // relayed: the middle host next to us
    std::unique_ptr<StandbyMemory> memory{};  // to be registered before that; null: nothing is
    std::uint64_t asked_ns = 0;               // since when it waits for a thread
  };
  explicit BringUp(Order order);
  ~BringUp();
  BringUp(const BringUp&) = delete;
  BringUp& operator=(const BringUp&) = delete;

  void run() noexcept;              // on the caller's thread
  void start(ControlWaker& waker);  // on its thread, which wakes the control thread at its end
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }

  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  bool started() const noexcept { return thread_.joinable(); }  // and over, perhaps
  bool running() const noexcept { return started() && !over(); }
  // When over; the reasons of failures have been logged. Ok if any path is up, or none was asked
  // for.
  Errc outcome() const noexcept { return outcome_; }
  bool unmade() const noexcept { return unmade_; }  // when over: it lacks queue pairs
  // Indices of the link's paths.
  const std::vector<std::uint32_t>& failed() const noexcept { return failed_; }
  const std::vector<WirePath>& paths() const noexcept { return order_.paths; }
  const std::vector<std::uint32_t>& indices() const noexcept { return order_.indices; }
  bool makes_only() const noexcept { return order_.indices.empty(); }
  bool reopens() const noexcept { return order_.reopens; }
  std::uint32_t reopened() const noexcept {  // the path
    return makes_only() ? order_.makes.front() : order_.indices.front();
  }
  BringUpKind kind() const noexcept {
    return order_.reopens ? BringUpKind::Again : BringUpKind::First;
  }
  std::uint64_t asked_ns() const noexcept { return order_.asked_ns; }
  StandbyMemory* memory() const noexcept { return order_.memory.get(); }  // when over

 private:
  Status make();
  Status connect(std::size_t at);
  void connect_all() noexcept;
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }

  const Order order_;
  Errc outcome_ = Errc::Ok;
  bool unmade_ = false;
  std::vector<std::uint32_t> failed_;
  std::atomic<bool> abandoned_{false};
  // Released after outcome_ and all that was done to the queue pairs.
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace mesh::engine
