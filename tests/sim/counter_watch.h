#pragma once
// Every counter of one engine, snapshot after snapshot: none may fall, and none may vanish,
// whatever ends meanwhile. Whoever reads metrics takes a counter that falls for a restart. Thread:
// one. Bound: grows with peers and their paths.

#include <mesh/snapshot.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace mesh::sim {

class CounterWatch {
 public:
  // What has fallen since the last snapshot, in words; empty: nothing has.
  std::string see(const EngineSnapshot& shot);

 private:
  static constexpr std::size_t kFiguresMax = 12;
  struct Figure {
    const char* name = nullptr;
    std::uint64_t value = 0;
  };
  using Figures = std::array<Figure, kFiguresMax>;  // as many as have a name
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
  // The first that fell; no name: none did.
  const char* first_fallen(Seen& before, const Figures& now) const;
  std::string vanished() const;

  Seen engine_;
  std::map<std::pair<std::string, bool>, PeerSeen> peers_;  // by name and direction
  std::uint64_t look_ = 0;
};

}  // namespace mesh::sim
