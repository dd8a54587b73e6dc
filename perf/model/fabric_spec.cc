#include "perf/model/fabric_spec.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mesh::model {
namespace {

using nlohmann::ordered_json;

ordered_json host(const std::string& name, std::size_t nics, const FabricSpec& spec) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < nics; ++i) {
    const std::string last = name == "a" ? ".1/24" : ".2/24";
    ordered_json nic{{"name", "mesh" + std::to_string(i)},
                     {"address", "10.0." + std::to_string(12 + i) + last}};
    if (spec.half > 0) nic["gbps"] = spec.half, nic["guid"] = name == "a" ? "a0" : "b0";
    list.push_back(nic);
  }
  return {{"name", name}, {"nics", list}};
}

ordered_json link_of(const std::string& left, const std::string& right, double gbps,
                     const FabricSpec& spec) {
  ordered_json link{{"ends", {left, right}},
                    {"gbps", gbps},
                    {"mtu", spec.mtu},
                    {"delay_us", static_cast<double>(spec.delay_ns) / 1000}};
  if (spec.qp_cap > 0) link["qp_gbps"] = spec.qp_cap;
  if (spec.port > 0) link["port_gbps"] = spec.port;
  return link;
}

struct Places {
  ordered_json hosts = ordered_json::array(), links = ordered_json::array();
};

Places two_hosts(const FabricSpec& spec) {
  const std::size_t nics = spec.half > 0 ? 2 : spec.paths.size();
  Places places;
  places.hosts = {host("a", nics, spec), host("b", nics, spec)};
  for (std::size_t i = 0; i < nics; ++i) {
    const std::string nic = "mesh" + std::to_string(i);
    ordered_json link =
        link_of("a/" + nic, "b/" + nic, spec.half > 0 ? spec.paths.front() : spec.paths[i], spec);
    if (spec.half > 0) link["cable"] = "cable0";
    places.links.push_back(link);
  }
  return places;
}

// a - b - c and so on: mesh0 faces the host before, mesh1 the next one.
Places row_of_hosts(const FabricSpec& spec) {
  Places places;
  const std::uint32_t hosts = spec.via + 2, cables = spec.ring ? hosts : hosts - 1;
  const auto name = [hosts](std::uint32_t i) {
    return std::string(1, static_cast<char>('a' + i % hosts));
  };
  for (std::uint32_t i = 0; i < hosts; ++i) {
    ordered_json nics = ordered_json::array();
    const auto add = [&](const char* nic, std::uint32_t cable, const char* last) {
      nics.push_back(
          {{"name", nic}, {"address", "10.0." + std::to_string(12 + cable) + last + "/24"}});
    };
    if (i > 0 || spec.ring) add("mesh0", (i + hosts - 1) % hosts, ".2");
    if (i < cables) add("mesh1", i, ".1");
    places.hosts.push_back({{"name", name(i)}, {"nics", nics}});
  }
  for (std::uint32_t i = 0; i < cables; ++i) {
    places.links.push_back(
        link_of(name(i) + "/mesh1", name(i + 1) + "/mesh0", spec.paths.front(), spec));
  }
  return places;
}

std::string text_of(const Places& places, const FabricSpec& spec) {
  const ordered_json costs{{"quantum_bytes", spec.quantum_bytes},
                           {"fetch_ns", spec.fetch_ns},
                           {"post_ns", spec.post_ns},
                           {"doorbell_ns", spec.doorbell_ns},
                           {"completion_ns", spec.completion_ns}};
  return ordered_json{
      {"name", "model"}, {"hosts", places.hosts}, {"links", places.links}, {"nic_costs", costs}}
      .dump();
}

}  // namespace

std::string fabric_text(const FabricSpec& spec) {
  return text_of(spec.via > 0 ? row_of_hosts(spec) : two_hosts(spec), spec);
}

std::string fabric_text(const FabricSpec& spec, std::size_t hosts, const Cables& cables) {
  Places places;
  for (std::size_t host = 0; host < hosts; ++host)
    places.hosts.push_back({{"name", fmt::format("h{}", host)}, {"nics", ordered_json::array()}});
  for (std::size_t i = 0; i < cables.size(); ++i) {
    const auto [a, b] = cables[i];
    for (const auto& [host, end] : {std::pair{a, 1}, std::pair{b, 2}})
      places.hosts[host]["nics"].push_back(
          {{"name", fmt::format("n{}", i)}, {"address", fmt::format("10.0.{}.{}/24", i + 1, end)}});
    places.links.push_back(link_of(fmt::format("h{}/n{}", a, i), fmt::format("h{}/n{}", b, i),
                                   spec.paths.front(),
                                   {.mtu = spec.mtu, .delay_ns = spec.delay_ns}));
  }
  return text_of(places, spec);
}

FabricTraits traits_of(const soft::FabricFile& fabric) {
  FabricTraits traits;
  const std::vector<soft::NicSpec>& nics = fabric.hosts.front().nics;
  traits.fabric = "soft";
  traits.rails = static_cast<std::uint32_t>(nics.size());
  return traits;
}

}  // namespace mesh::model
