#include "engine/link/peer_log.h"

namespace mesh::engine {

bool PeerLog::is_news(const std::string& peer, const std::string& words) {
  if (told_.size() >= kPeersMax && !told_.contains(peer)) told_.clear();
  return told_[peer].insert(words).second;
}

}  // namespace mesh::engine
