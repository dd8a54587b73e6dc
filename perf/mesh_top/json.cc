#include "perf/mesh_top/view.h"

#include <nlohmann/json.hpp>

namespace mesh::top {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Process& process, std::uint64_t now_s) {
  Json root = Json::parse(to_json(process.now));
  root["state"] = state_of(process, now_s);
  root["age_s"] = age_s(process, now_s);
  const EngineSnapshot& shot = process.now.engine;
  for (std::size_t i = 0; i < shot.peers.size(); ++i) {
    const PeerSnapshot& peer = shot.peers[i];
    const PeerSnapshot before = before_of(process, peer);
    Json& row = root["peers"][i];
    row["bytes_per_s"] = rate(process, peer.bytes, before.bytes);
    row["messages_per_s"] = rate(process, peer.messages, before.messages);
    for (std::size_t k = 0; k < peer.paths.size(); ++k) {
      const PathSnapshot older = before_of(before, peer.paths[k]);
      Json& path = row["paths"][k];
      path["bytes_per_s"] =
          rate(process, peer.paths[k].counters.bytes_sent, older.counters.bytes_sent);
      const LatencyHistogram recent = latency_since(older, peer.paths[k]);
      path["latency"]["recent_p50_ns"] = recent.quantile_ns(0.5);
      path["latency"]["recent_p99_ns"] = recent.quantile_ns(0.99);
    }
  }
  for (std::size_t i = 0; i < shot.relay.ways.size(); ++i) {
    const RelayedSnapshot& way = shot.relay.ways[i];
    root["relay"]["ways"][i]["bytes_per_s"] =
        rate(process, way.bytes, before_of(process, way).bytes);
  }
  return root;
}

}  // namespace

std::string json(const std::vector<Process>& processes, std::uint64_t now_s) {
  Json root{{"processes", Json::array()}};
  for (const Process& process : processes) root["processes"].push_back(json_of(process, now_s));
  return root.dump() + "\n";
}

}  // namespace mesh::top
