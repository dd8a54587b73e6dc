#pragma once
// Compares every counter of one engine with the snapshot before: none may fall, and none may
// vanish, whatever ends meanwhile, because a reader of metrics takes a counter that falls for a
// restart. Thread: one. Bound: grows with peers and their paths.

#include <mesh/snapshot.h>

#include "tests/standard.h"

namespace mesh::sim {

class CounterWatch {
 public:
  // Returns in words what has fallen or vanished since the last snapshot; empty if nothing has.
  std::string see(const EngineSnapshot& shot);

 private:
  static constexpr std::size_t kFiguresMax = 16;
  struct Figure {
    const char* name = nullptr;
    std::uint64_t value = 0;
  };
  using Figures = std::array<Figure, kFiguresMax>;  // entries without a name are unused
  struct Seen {
    Figures figures{};
    std::uint64_t look = 0;
  };
  struct PeerSeen {
    Seen seen;
    std::map<std::string, Seen> paths;
  };
  static Figures figures_of(const EngineSnapshot& shot);
  static Figures figures_of(const PeerSnapshot& peer);
  static Figures figures_of(const PathSnapshot& path);
  // Returns the name of the first figure that fell, or null if none did.
  const char* first_fallen(Seen& before, const Figures& now) const;
  std::string vanished() const;

  Seen engine_;
  std::map<std::pair<std::string, bool>, PeerSeen> peers_;  // by name and direction
  std::uint64_t look_ = 0;
};

}  // namespace mesh::sim
