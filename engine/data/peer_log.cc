#include "engine/data/peer_log.h"

#include "engine/data/peer_link.h"

#include <algorithm>
#include <iterator>

namespace mesh::engine {

bool PeerLog::is_news(const std::string& peer, const std::string& words) {
  const std::lock_guard lock(mutex_);
  if (told_.size() >= kPeersMax && !told_.contains(peer)) told_.clear();
  return told_[peer].insert(words).second;
}

std::optional<SocketAddress> PeerLog::other_claim(const std::string& name,
                                                  std::vector<SocketAddress> addresses) {
  if (addresses.empty()) return std::nullopt;
  const auto has_one_of_ours = [&addresses](const std::vector<SocketAddress>& claim) {
    return std::any_of(claim.begin(), claim.end(), [&addresses](const SocketAddress& each) {
      return std::any_of(addresses.begin(), addresses.end(),
                         [&each](const SocketAddress& own) { return own.same_host(each); });
    });
  };
  const std::lock_guard lock(mutex_);
  if (claims_.size() >= kPeersMax && !claims_.contains(name)) claims_.clear();
  std::vector<std::vector<SocketAddress>>& all = claims_[name];
  std::optional<SocketAddress> other;
  bool known = false;
  for (const std::vector<SocketAddress>& claim : all) {
    const bool same = has_one_of_ours(claim);
    known |= same;
    if (!same && !other) other = claim.front();
  }
  if (!known && all.size() < kNamesakesMax) all.push_back(std::move(addresses));
  return other;
}

bool PeerLog::is_first_end(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  if (ended_.size() >= kPeersMax) ended_.clear();
  return ended_.insert(peer).second;
}

void PeerLog::note_begin(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  ended_.erase(peer);
}

// The rails of a path over other hosts change with its route, so it counts as one.
PeerLog::Cable PeerLog::cable_of(const PeerLink& link, const Path& path) {
  return {link.identity().peer_host, path.ends.relayed ? std::string("over hosts") : path.name};
}

bool PeerLog::is_first_loss(const PeerLink& link, const Path& path) {
  const std::lock_guard lock(mutex_);
  Loss& loss = losses_[cable_of(link, path)];
  const bool first = loss.links.empty();
  loss.links.insert(&link);
  return first;
}

void PeerLog::note_stand_in(const PeerLink& link, const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (auto& [cable, loss] : losses_) {
    if (loss.links.contains(&link)) loss.stand_in = text;
  }
}

std::optional<std::string> PeerLog::end_of_loss(const PeerLink& link, const Path& path) {
  const std::lock_guard lock(mutex_);
  const auto found = losses_.find(cable_of(link, path));
  if (found == losses_.end() || found->second.links.erase(&link) == 0) return std::nullopt;
  if (!found->second.links.empty()) return std::nullopt;
  std::string meanwhile = std::move(found->second.stand_in);
  losses_.erase(found);
  return meanwhile;
}

void PeerLog::forget(const PeerLink& link) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto each = losses_.begin(); each != losses_.end();) {
    each->second.links.erase(&link);
    each = each->second.links.empty() ? losses_.erase(each) : std::next(each);
  }
}

}  // namespace mesh::engine
