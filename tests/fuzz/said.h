#pragma once
// Collects what the engine under test has told its peer, as far as a peer can use it: the memory
// that the peer may write, and the keys for it. Thread: one. Bound: the last kSaidMax of each kind.

#include "engine/control/frames.h"
#include "tests/standard.h"

namespace mesh::fuzz {

inline constexpr std::size_t kSaidMax = 16;

struct Place {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t channel = 0, life = 0;
};

class Said {
 public:
  // Takes a frame that the engine sends. A frame that we would not read ourselves is a finding.
  engine::MessageType take(const engine::Bytes& frame);

  engine::Id128 link{};                 // of the last HELLO or RESUME
  std::uint32_t qps = 1;                // of the last HELLO or WELCOME
  std::vector<engine::WirePath> paths;  // of the last WELCOME
  std::vector<Place> credits;           // CTS FIFOs, from OPEN
  std::vector<Place> records;           // rings of records, from OPENED
  std::vector<Place> windows;           // window words, from ATTACH
};

}  // namespace mesh::fuzz
