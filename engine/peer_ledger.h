#pragma once
// Figures by peer and direction, added up over links, so that counters never go back when a link or
// communicator ends. Thread: control mutex. Bound: kPeersMax rows; later peers share one row.

#include <mesh/snapshot.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

class PeerLedger {
 public:
  static constexpr std::size_t kPeersMax = 1024;
  static constexpr const char* kOthers = "(others)";

  void add(PeerSnapshot link);
  // Adds a link that has ended: its counters, but not what it was doing.
  void add_ended(PeerSnapshot link);
  std::vector<PeerSnapshot> rows() const;  // sorted by peer

 private:
  std::map<std::pair<std::string, bool>, PeerSnapshot> rows_;
};

}  // namespace mesh::engine
