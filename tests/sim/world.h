#pragma once
// A small world on one thread: hosts joined by the software fabric with a manual clock, an engine and one context each, and a
// random order of turns. Same seed, same run, but for the kernel's TCP on loopback, which only carries the handshake.

#include <mesh/engine.h>

#include "src/soft/soft_provider.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mesh::sim {

struct Host {
  std::unique_ptr<soft::SoftProvider> provider;
  std::unique_ptr<Engine> engine;
  Context* context = nullptr;
};

class World {
 public:
  World(std::uint64_t seed, const std::string& fabric_json);
  ~World();

  // One random thing happens somewhere: a turn of a loop, a NIC, a control path, or time goes by.
  void step();
  // Until `done` or the bound; false: the bound.
  template <typename Done>
  bool run_until(Done&& done, int steps = 400'000) {
    for (int i = 0; i < steps; ++i) {
      if (done()) return true;
      step();
    }
    return false;
  }

  // A connected pair of channels: from `sender` to `receiver`.
  struct Pair {
    Channel* send = nullptr;
    Channel* receive = nullptr;
  };
  Pair connect(std::size_t sender, std::size_t receiver);

  std::uint64_t random(std::uint64_t bound) { return random_() % bound; }
  std::uint64_t now_ns() const { return clock_.load(std::memory_order_relaxed); }
  void advance_ns(std::uint64_t by) { clock_.fetch_add(by, std::memory_order_relaxed); }
  std::uint64_t rnr_events() const;

  std::vector<Host> hosts;
  TransferPolicy policy;

 private:
  void draw_policy();

  std::mt19937_64 random_;
  std::atomic<std::uint64_t> clock_{1'000'000};
  soft::FabricFile fabric_;
};

}  // namespace mesh::sim
