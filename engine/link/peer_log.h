#pragma once
// Remembers what the log has said of peers. A peer has one link for each direction, communicator
// and set of rails, and a reader wants to read of a cable once. Thread: control mutex. Bound:
// kPeersMax peers; when another one comes, all are forgotten, and lines may come again.

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace mesh::engine {

class PeerLog {
 public:
  static constexpr std::size_t kPeersMax = 4096;

  // Returns true if this is the first call with these words about this peer.
  bool is_news(const std::string& peer, const std::string& words);

 private:
  std::map<std::string, std::set<std::string>> told_;
};

}  // namespace mesh::engine
