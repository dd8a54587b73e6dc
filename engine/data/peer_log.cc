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

namespace {
bool holds(const std::vector<SocketAddress>& all, const SocketAddress& address) {
  return std::any_of(all.begin(), all.end(),
                     [&address](const SocketAddress& each) { return each.same_host(address); });
}
}  // namespace

bool PeerLog::Namesake::is(const Namesake& other) const {
  if (id != 0 && other.id != 0) return id == other.id;
  return std::any_of(addresses.begin(), addresses.end(), [&other](const SocketAddress& address) {
    return holds(other.addresses, address);
  });
}

std::optional<SocketAddress> PeerLog::other_claim(const std::string& name, Namesake host) {
  if (host.addresses.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (claims_.size() >= kPeersMax && !claims_.contains(name)) claims_.clear();
  std::vector<Namesake>& all = claims_[name];
  std::optional<SocketAddress> other;
  bool known = false;
  for (const Namesake& each : all) {
    const bool same = each.is(host);
    known |= same;
    if (same || other) continue;
    // Clones may have addresses in common, too, such as that of a bridge for containers.
    const auto own = std::find_if(
        each.addresses.begin(), each.addresses.end(),
        [&host](const SocketAddress& address) { return !holds(host.addresses, address); });
    other = own == each.addresses.end() ? each.addresses.front() : *own;
  }
  if (!known && all.size() < kNamesakesMax) all.push_back(std::move(host));
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

LogLevel PeerLog::note_loss(const PeerLink& link, const Path& path, bool port_down) {
  const std::lock_guard lock(mutex_);
  const bool told = std::any_of(losses_.begin(), losses_.end(), [&](const auto& each) {
    return path.ends.relayed || (port_down && each.second.down == path.rail);
  });
  const bool own = link.identity().peer_host == own_host_;
  Loss& loss = losses_[cable_of(link, path)];
  const bool first = loss.links.empty();
  loss.links.insert(&link);
  if (port_down && !own) loss.down = path.rail;
  if (!first) return LogLevel::Detail;
  return told || own ? LogLevel::Info : LogLevel::Warn;
}

bool PeerLog::note_stand_in(const PeerLink& link, const std::string& text) {
  bool first = false;
  const std::lock_guard lock(mutex_);
  for (auto& [cable, loss] : losses_) {
    if (!loss.links.contains(&link)) continue;
    first |= loss.stand_in.empty();
    loss.stand_in = text;
  }
  return first;
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
