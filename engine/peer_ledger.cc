#include "engine/peer_ledger.h"

#include <algorithm>

namespace mesh::engine {

namespace {

bool lives(const PathSnapshot& path) {
  return path.up + path.quarantined + path.standby + path.down != 0;
}

// Adds a path's routes. A row names the routes of all live links, or else of the last that ended.
void add_routes(const PathSnapshot& path, PathSnapshot& to) {
  if (path.routes.empty()) return;
  if (!lives(path) || !lives(to)) {
    to.routes = path.routes;
    return;
  }
  for (const std::string& route : path.routes) {
    if (std::find(to.routes.begin(), to.routes.end(), route) == to.routes.end())
      to.routes.push_back(route);
  }
}

void add_path(const PathSnapshot& path, std::vector<PathSnapshot>& to) {
  const auto found = std::find_if(
      to.begin(), to.end(), [&path](const PathSnapshot& each) { return each.name == path.name; });
  if (found == to.end()) {
    to.push_back(path);
    return;
  }
  add_routes(path, *found);
  found->counters += path.counters;
  found->inflight_bytes += path.inflight_bytes;
  found->up += path.up;
  found->quarantined += path.quarantined;
  found->standby += path.standby;
  found->down += path.down;
  found->epoch = std::max(found->epoch, path.epoch);
  found->failures += path.failures;
  found->replayed_stripes += path.replayed_stripes;
  found->reopen_tries += path.reopen_tries;
  if (!path.last_cause.empty()) found->last_cause = path.last_cause;
}

}  // namespace

void PeerLedger::add(const PeerSnapshot& link) {
  std::pair<std::string, bool> key(link.peer, link.sends);
  // The row kOthers takes one of the places in each direction.
  const bool full = rows_.size() + 2 >= kPeersMax && !rows_.contains(key);
  if (full) key.first = kOthers;
  PeerSnapshot& row = rows_[key];
  row.peer = key.first;
  row.sends = link.sends;
  row.links += link.links;
  row.channels += link.channels;
  row.open_requests += link.open_requests;
  row.messages += link.messages;
  row.bytes += link.bytes;
  row.degraded_ns += link.degraded_ns;
  row.without_path_ns += link.without_path_ns;
  for (std::size_t i = 0; i < kWaitReasons; ++i) {
    row.waits[i].channels += link.waits[i].channels;
    row.waits[i].longest_ns = std::max(row.waits[i].longest_ns, link.waits[i].longest_ns);
  }
  for (PathSnapshot path : link.paths) {
    if (full) path.name = kOthers;
    add_path(path, row.paths);
  }
}

void PeerLedger::add_ended(PeerSnapshot link) {
  link.links = link.channels = link.open_requests = 0;
  link.waits = {};
  for (PathSnapshot& path : link.paths)
    path.inflight_bytes = path.up = path.quarantined = path.down = path.standby = path.epoch = 0;
  add(link);
}

std::vector<PeerSnapshot> PeerLedger::rows() const {
  std::vector<PeerSnapshot> rows;
  rows.reserve(rows_.size());
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace mesh::engine
