#include "engine/peer_ledger.h"

#include "engine/sums.h"

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

void add_path(PathSnapshot path, std::vector<PathSnapshot>& to) {
  const auto found = std::find_if(
      to.begin(), to.end(), [&path](const PathSnapshot& each) { return each.name == path.name; });
  if (found == to.end()) {
    to.push_back(std::move(path));
    return;
  }
  add_routes(path, *found);
  Sums(path).add_to(Sums(*found));
  found->latency += path.latency;
  if (!path.last_cause.empty()) found->last_cause = path.last_cause;
}

}  // namespace

void PeerLedger::add(PeerSnapshot link) {
  std::pair<std::string, bool> key(link.peer, link.sends);
  // The row kOthers takes one of the places in each direction.
  const bool full = rows_.size() + 2 >= kPeersMax && !rows_.contains(key);
  if (full) key.first = kOthers;
  PeerSnapshot& row = rows_[key];
  row.peer = key.first;
  row.sends = link.sends;
  Sums(link).add_to(Sums(row));
  for (std::size_t i = 0; i < kWaitReasons; ++i) {
    row.waits[i].channels += link.waits[i].channels;
    row.waits[i].longest_ns = std::max(row.waits[i].longest_ns, link.waits[i].longest_ns);
  }
  for (PathSnapshot& path : link.paths) {
    if (full) path.name = kOthers;
    add_path(std::move(path), row.paths);
  }
}

void PeerLedger::add_ended(PeerSnapshot link) {
  Sums(link).end();
  link.waits = {};
  for (PathSnapshot& path : link.paths) Sums(path).end();
  add(std::move(link));
}

std::vector<PeerSnapshot> PeerLedger::rows() const {
  std::vector<PeerSnapshot> rows;
  rows.reserve(rows_.size());
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace mesh::engine
