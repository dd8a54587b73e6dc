#pragma once
// Finds the link of a connection or channel without a search through all links: every frame, close
// and registration needs that. Links keep it up to date. If there was no memory for an entry, the
// process searches all links from then on. Thread: control mutex. Bound: three entries a link.

#include "engine/control/control_plane.h"

#include <unordered_map>

namespace mesh::engine {

class Link;
class PeerLink;

class LinkIndex {
 public:
  void add(ConnectionId id, Link& link) noexcept { add_to(by_connection_, id, link); }
  void add(const PeerLink& peer_link, Link& link) noexcept {
    add_to(by_peer_link_, &peer_link, link);
  }
  void remove(ConnectionId id) noexcept { by_connection_.erase(id); }
  void remove(const PeerLink& peer_link) noexcept { by_peer_link_.erase(&peer_link); }

  // Both return null if there is no entry. If complete(), there is no such link then.
  Link* find(ConnectionId id) const noexcept { return find_in(by_connection_, id); }
  Link* find(const PeerLink& peer_link) const noexcept {
    return find_in(by_peer_link_, &peer_link);
  }
  bool complete() const noexcept { return complete_; }

 private:
  template <typename Key>
  using Map = std::unordered_map<Key, Link*>;
  template <typename Key>
  void add_to(Map<Key>& map, Key key, Link& link) noexcept {
    try {
      map[key] = &link;
    } catch (...) {
      complete_ = false;
    }
  }
  template <typename Key>
  static Link* find_in(const Map<Key>& map, Key key) noexcept {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
  }

  Map<ConnectionId> by_connection_;
  Map<const PeerLink*> by_peer_link_;
  bool complete_ = true;
};

}  // namespace mesh::engine
