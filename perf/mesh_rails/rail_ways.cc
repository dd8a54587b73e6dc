#include "perf/mesh_rails/rail_ways.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace mesh::rails {
namespace {

std::string end_text(const topo::Part& part) {
  if (!part.gpu) return part.name;
  return part.os_name.empty() ? "GPU " + part.name
                              : fmt::format("GPU {} ({})", part.name, part.os_name);
}

std::string width_text(const topo::Way& way) {
  if (way.gbps <= 0) return "? Gb/s";
  // PCIe 1.0 x1 carries 2 Gb/s; wide links need no fraction.
  const std::string gbps =
      way.gbps < 10 ? fmt::format("{:.2g}", way.gbps) : fmt::format("{:.0f}", way.gbps);
  return fmt::format("{}{} Gb/s", way.at_most ? "up to " : "", gbps);
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

RailWays ways_of(const topo::HostParts& host, const std::string& pci) {
  RailWays found{.ways = topo::ways_from(host, topo::part_named(host, pci)), .near_memory = {}};
  auto nearest = topo::WayKind::Sockets;
  const auto is_memory = [&host](const topo::Way& way) {
    return host.parts[way.to].kind == topo::PartKind::Memory;
  };
  for (const topo::Way& way : found.ways) {
    if (is_memory(way)) nearest = std::min(nearest, way.kind);
  }
  for (const topo::Way& way : found.ways) {
    if (is_memory(way) && way.kind == nearest) found.near_memory.push_back(host.parts[way.to].name);
  }
  return found;
}

std::string ways_text(const topo::HostParts& host, const RailWays& ways, const std::string& name) {
  // Nearest first, and of one kind the widest.
  std::map<std::tuple<topo::WayKind, double, bool>, std::vector<std::string>> alike;
  std::map<std::tuple<topo::WayKind, double, bool>, topo::Way> example;
  for (const topo::Way& way : ways.ways) {
    const std::tuple key(way.kind, -way.gbps, way.at_most);
    alike[key].push_back(end_text(host.parts[way.to]));
    example[key] = way;
  }
  std::string text, label = name;
  for (const auto& [key, names] : alike) {
    const topo::Way& way = example[key];
    text += fmt::format("{:10}  {:16}  {}  {:14}  {}\n", label, topo::kind_text(way.kind),
                        topo::nccl_class(way.kind), width_text(way), joined(names));
    label.clear();
  }
  if (text.empty()) return {};
  const std::string poller =
      ways.poller_cpu < 0 ? "" : fmt::format("a poller goes to CPU {}; ", ways.poller_cpu);
  return text + fmt::format("{:10}  {}host buffers are nearest on {}\n", "", poller,
                            ways.near_memory.empty() ? "no memory node" : joined(ways.near_memory));
}

void add_ways(const topo::HostParts& host, const RailWays& ways, nlohmann::ordered_json& rail) {
  if (ways.ways.empty()) return;
  for (const topo::Way& way : ways.ways) {
    const topo::Part& end = host.parts[way.to];
    nlohmann::ordered_json each{{"to", end.gpu ? "GPU " + end.name : end.name},
                                {"kind", topo::kind_text(way.kind)},
                                {"nccl_class", topo::nccl_class(way.kind)},
                                {"gbps", nullptr},
                                {"at_most", way.at_most}};
    if (way.gbps > 0) each["gbps"] = way.gbps;
    if (!end.os_name.empty()) each["os_name"] = end.os_name;
    rail["ways"].push_back(std::move(each));
  }
  if (ways.poller_cpu >= 0) rail["poller_cpu"] = ways.poller_cpu;
  rail["near_memory"] = ways.near_memory;
}

}  // namespace mesh::rails
