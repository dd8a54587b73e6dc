#include "perf/mesh_top/process.h"

#include <algorithm>
#include <vector>

namespace mesh::top {
namespace {

// A process is silent if it has missed so many files, but not within the first minute.
constexpr std::uint64_t kFilesMissed = 3;
constexpr std::uint64_t kOldFileS = 60;

template <typename Item, typename Same>
Item found_in(const std::vector<Item>& items, const Same& same) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  return found == items.end() ? Item{} : *found;
}

}  // namespace

std::uint64_t age_s(const Process& process, std::uint64_t now_s) {
  const std::uint64_t written_s = process.now.process.now_s;
  return now_s > written_s ? now_s - written_s : 0;
}

const char* state_of(const Process& process, std::uint64_t now_s) {
  const ProcessFacts& facts = process.now.process;
  if (!facts.running) return "ended";
  const std::uint64_t patience_s = std::max(kOldFileS, kFilesMissed * facts.interval_s);
  return age_s(process, now_s) > patience_s ? "silent" : "runs";
}

PeerSnapshot before_of(const Process& process, const PeerSnapshot& peer) {
  if (!process.before) return {};
  return found_in(process.before->engine.peers, [&peer](const PeerSnapshot& each) {
    return each.peer == peer.peer && each.sends == peer.sends;
  });
}

PathSnapshot before_of(const PeerSnapshot& before, const PathSnapshot& path) {
  return found_in(before.paths,
                  [&path](const PathSnapshot& each) { return each.name == path.name; });
}

RelayedSnapshot before_of(const Process& process, const RelayedSnapshot& way) {
  if (!process.before) return {};
  return found_in(process.before->engine.relay.ways, [&way](const RelayedSnapshot& each) {
    return each.from == way.from && each.rail == way.rail;
  });
}

LatencyHistogram latency_since(const PathSnapshot& before, const PathSnapshot& path) {
  const bool grows = path.latency.total() > before.latency.total();
  return grows ? path.latency.since(before.latency) : path.latency;
}

double rate(const Process& process, std::uint64_t now, std::uint64_t before) {
  const ProcessFacts& facts = process.now.process;
  const std::uint64_t from_s = process.before ? process.before->process.now_s : facts.start_s;
  if (facts.now_s <= from_s || now < before) return 0;
  return static_cast<double>(now - before) / static_cast<double>(facts.now_s - from_s);
}

}  // namespace mesh::top
