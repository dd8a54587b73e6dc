#pragma once
// The engine as a peer link sees it: the link uses nothing else of the engine. Unit tests put a
// fake in its place. Thread: control mutex; the engine's implementation checks it. Bounds: those of
// the control plane.

#include <mesh/engine.h>

#include "engine/control/control_plane.h"
#include "engine/data/peer_link.h"
#include "src/base/log_budget.h"
#include "src/base/thread_pool.h"
#include "src/verbs/discovery.h"

#include <cstdint>
#include <span>
#include <unordered_map>

namespace mesh::engine {

class Link;
class PeerLink;

// Finds the link of a connection or channel without a search through all links: every frame, close
// and registration needs that. Links keep it up to date. If there was no memory for an entry, the
// process searches all links from then on. Thread: control mutex. Bound: three entries a link.
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

class CableProofs;
class Link;
class Neighbours;
class RelayClient;

// Counts events of all links of an engine, including links that have ended.
struct LinkCounts {
  std::uint64_t revokes = 0;  // REVOKE frames sent
  std::uint64_t resumes = 0;  // lost connections that came back
};

class LinkHost {
 public:
  // Settings, policy, provider and threading; constant while links exist.
  virtual const EngineOptions& options() const noexcept = 0;
  virtual std::span<const verbs::Rail> rails() const noexcept = 0;  // constant while links exist
  virtual std::uint64_t now_ns() const noexcept = 0;
  virtual ControlPlane& plane() noexcept = 0;

  // Ask that all links be tended again: at this time at the latest, or in a millisecond.
  virtual void tend_at(std::uint64_t at_ns) noexcept = 0;
  virtual void tend_soon() noexcept = 0;

  // The client and the ticket for relays. They are null and zero if this process takes no part.
  virtual RelayClient* relays() noexcept { return nullptr; }
  virtual const Id128& ticket() const noexcept {
    static constexpr Id128 kNone{};
    return kNone;
  }

  // Null: which ports are on one wire is not found out.
  virtual CableProofs* cables() noexcept { return nullptr; }

  // Null: nobody is asked over the cables for a way.
  virtual Neighbours* neighbours() noexcept { return nullptr; }

  // For lines that an unauthenticated connection can cause.
  virtual LogBudget& unauthenticated_lines() noexcept = 0;
  PeerLog& peer_log() noexcept { return channel_owner().peer_log(); }
  virtual LinkCounts& counts() noexcept = 0;
  virtual LinkIndex& index() noexcept = 0;  // outlives all links
  virtual ChannelOwner& channel_owner() noexcept = 0;
  virtual ControlWaker& waker() noexcept = 0;  // may be called from any thread
  // Its threads wait for devices. It outlives all links.
  virtual ThreadPool& thread_pool() noexcept = 0;

  // Keeps the figures of a link that is about to be destroyed.
  virtual void keep_figures(const Link& link) noexcept = 0;

 protected:
  ~LinkHost() = default;
};

}  // namespace mesh::engine
