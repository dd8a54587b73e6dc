#pragma once
// Ends engines that nobody uses any more, each on a thread of its own: NCCL calls finalize under a
// mutex of the process, and no peer and no device that is slow may hold it up. An engine says
// goodbye to its peers, and only then waits for its devices, which takes a minute if the firmware
// of a card is sick. Thread: any; begin() with the registry's mutex, the rest without. Bound:
// kEnginesEndingMax engines that wait for devices.

#include <mesh/engine.h>

#include "plugin/stats_writer.h"
#include "src/verbs/provider.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mesh::plugin {

enum class EndStep : std::uint8_t {
  None,     // it lives, or settle() comes
  Peers,    // its last page of metrics is written or given up, and it waits for peers
  Devices,  // it waits for no peer
  Page,     // it is gone, but a file system still holds up its last page
  Over,
};

// An engine with what it needs and what tells of it.
struct EngineLife {
  std::unique_ptr<verbs::Provider> provider;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<StatsWriter> stats;  // null: no metrics are wanted

  // Belong to EngineEnds.
  EndStep step = EndStep::None;
  bool page_hangs = false;
  std::thread thread;
};

class EngineEnds {
 public:
  static constexpr std::size_t kEnginesEndingMax = 8;

  void reserve();  // room for one more engine, so that begin() needs no memory
  // From then on whoever waits for engines waits for this one. settle() must follow.
  void begin(std::shared_ptr<EngineLife> life) noexcept;
  // Ends the engine. Returns when its last page of metrics is written and it waits for peers, is
  // over, or has waited for its devices for kEndToLeftMs. Without a thread it returns when it is
  // over.
  void settle(EngineLife& life) noexcept;

  void wait_for_peers() noexcept;  // before another engine: two of them would both be this host
  void wait_at_exit() noexcept;    // for peers, and then for devices, as settle() does
  bool any() noexcept;             // threads of former engines may log
  bool page_hangs() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void run(EngineLife& life) noexcept;
  void set(EngineLife& life, EndStep step) noexcept;
  bool all_reached(EndStep step) const noexcept;
  void drop_those_over() noexcept;

  std::mutex mutex_;  // protects the list, and the steps of those in it
  std::condition_variable changed_;
  std::vector<std::shared_ptr<EngineLife>> ending_;
};

}  // namespace mesh::plugin
