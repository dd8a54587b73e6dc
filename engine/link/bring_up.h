#pragma once
// Makes queue pairs, takes queue pairs to RTS, or does both: those of a whole link, of one path
// that is opened again, or the late ones of one path. It has a thread of the pool if the engine has
// threads. A device may take seconds for a queue pair. On the way to RTS the kernel resolves the
// peer's address, and may wait a second for it, three times a path. Frames, closes and memory of
// other links do not wait for that, and the link's other paths do not either. Thread: control
// mutex. While running() nobody else touches the queue pairs; the loop does not know them before
// the link is up. Bounds: ResolveTries, a second each, for a path, and the device's time for each
// queue pair; after abandon() only the try or the queue pair under way, which the destructor waits
// for.

#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "engine/data/link_memory.h"
#include "engine/data/peer_link.h"
#include "engine/data/standby_memory.h"
#include "src/base/thread_pool.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mesh::engine {

class Link;

// Threads at a time at the cards of one bring-up. A bring-up that gets none waits until one ends.
inline constexpr std::size_t kBringUpsMax = 16;
inline constexpr std::size_t kBringUpsPerPeerMax = 4;  // for links to one peer address
// The part of these threads for paths that are opened again. They have fewer, because somebody
// waits for a first bring-up, and a path whose peer is gone is tried for ever.
inline constexpr std::size_t kReopensMax = kBringUpsMax / 2;
inline constexpr std::size_t kReopensPerPeerMax = kBringUpsPerPeerMax / 2;

enum class BringUpKind : std::uint8_t {
  First,  // of a whole link
  Again,  // of one path of a link that is up
};
struct BringUpTurn {
  SocketAddress peer;
  std::uint64_t asked_ns = 0;
  BringUpKind kind = BringUpKind::First;
  std::uint64_t cards = 1;  // bits: the rails whose devices it needs
};
// Returns the index of the waiting bring-up that gets the next thread, or waiting.size() if none
// may start. Only those that run on one of its cards count against a bring-up, so that a card that
// hangs holds up nobody else. Kind First goes first, then the peer for which the fewest run, and
// for one peer the bring-up that has waited longest.
std::size_t next_in_turn(std::span<const BringUpTurn> running,
                         std::span<const BringUpTurn> waiting);

class BringUp {
 public:
  struct Order {
    Link* link = nullptr;  // set by Link::begin_bring_up()
    std::vector<WireRail> peer_rails{};
    std::vector<std::uint32_t> makes{};    // paths whose queue pairs are made first
    std::vector<WirePath> paths{};         // the peer's queue pairs
    std::vector<std::uint32_t> indices{};  // indices of these paths in the link
    std::uint32_t psn = 0;                 // our first packet number
    Settings settings;
    bool reopens = false;                     // it is one path of a link that is up
    bool widens = false;                      // it is the late queue pairs of one path
    std::vector<WireHop> via{};               // relayed path: the middle host next to us
    std::unique_ptr<StandbyMemory> memory{};  // registered first; null: there is none
    bool connected = false;  // its queue pairs are at RTS already: only the memory is missing
    // The link's own memory, registered first: a connector's window words, or an acceptor's
    // records.
    std::size_t window_bytes = 0;
    bool has_records = false;
    std::vector<DeviceContext*> may_probe{};  // get memory for probes, if they have it to give
    std::uint64_t asked_ns = 0;               // when it began to wait for a thread
  };
  explicit BringUp(Order order);
  ~BringUp();
  BringUp(const BringUp&) = delete;
  BringUp& operator=(const BringUp&) = delete;

  void run() noexcept;  // on the caller's thread
  // On a thread of the pool, which wakes the control thread at its end.
  void start(ThreadPool& pool, ControlWaker& waker);
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }

  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  bool started() const noexcept { return task_.begun(); }  // it may be over
  bool running() const noexcept { return started() && !over(); }
  // Valid when over. Ok if any path is up and abandon() was not called, or if no path was asked
  // for. Failures have been logged.
  Errc outcome() const noexcept { return outcome_; }
  bool unmade() const noexcept { return unmade_; }  // when over: queue pairs are missing
  // Indices of the link's paths that could not be brought up.
  const std::vector<std::uint32_t>& failed() const noexcept { return failed_; }
  const std::vector<WirePath>& paths() const noexcept { return order_.paths; }
  const std::vector<std::uint32_t>& indices() const noexcept { return order_.indices; }
  bool makes_only() const noexcept { return order_.indices.empty(); }
  bool reopens() const noexcept { return order_.reopens; }
  bool widens() const noexcept { return order_.widens; }
  bool is_of_link() const noexcept { return !order_.reopens && !order_.widens; }
  std::uint32_t path() const noexcept {  // index of the path that is opened again or widened
    return makes_only() ? order_.makes.front() : order_.indices.front();
  }
  BringUpKind kind() const noexcept {
    return order_.reopens ? BringUpKind::Again : BringUpKind::First;
  }
  Link& link() const noexcept { return *order_.link; }
  std::uint64_t asked_ns() const noexcept { return order_.asked_ns; }
  BringUpTurn turn() const;
  bool needs(const DeviceContext& device) const noexcept;                 // may make calls to it
  StandbyMemory* memory() const noexcept { return order_.memory.get(); }  // valid when over
  std::unique_ptr<StandbyMemory> give_memory() noexcept { return std::move(order_.memory); }
  // Valid when over; null: none were ordered.
  const PeerWritable* window_words() const noexcept {
    return window_words_.memory == nullptr ? nullptr : &window_words_;
  }

 private:
  std::uint64_t cards() const noexcept;
  bool may_lack(const Path& path) const noexcept;
  PeerLink& peer_link() const noexcept;
  Status register_memory();
  Status make();  // the queue pairs of all paths of order_.makes; the first error ends it
  Status connect(std::size_t at);
  void connect_all() noexcept;
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }

  Order order_;
  const std::uint64_t cards_;  // bits: rails
  Errc outcome_ = Errc::Ok;
  bool unmade_ = false;
  PeerWritable window_words_;
  std::vector<std::uint32_t> failed_;
  std::atomic<bool> abandoned_{false};
  // Released after outcome_ and all that was done to the queue pairs.
  std::atomic<bool> over_{false};
  ThreadPool::Task task_;
};

}  // namespace mesh::engine
