#include "perf/model/groups.h"

#include "perf/model/in_order.h"
#include "perf/model/measure.h"
#include "tuning/derive.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace mesh::model {
namespace {

using Cables = std::vector<std::pair<std::size_t, std::size_t>>;

Cables full_mesh(std::size_t hosts) {
  Cables cables;
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = a + 1; b < hosts; ++b) cables.emplace_back(a, b);
  }
  return cables;
}
Cables ring(std::size_t hosts) {
  Cables cables;
  for (std::size_t a = 0; a < hosts; ++a) cables.emplace_back(a, (a + 1) % hosts);
  return cables;
}
Cables cube() {
  Cables cables;
  for (std::size_t a = 0; a < 8; ++a) {
    for (const std::size_t bit : {1u, 2u, 4u}) {
      if ((a & bit) == 0) cables.emplace_back(a, a | bit);
    }
  }
  return cables;
}

Cables cables_of(const std::string& name, std::size_t hosts) {
  if (name == "full-mesh") return full_mesh(hosts);
  return name == "ring" ? ring(hosts) : cube();
}

std::string fabric_of(const Cables& cables, std::size_t count, const FabricSpec& spec) {
  std::vector<std::string> nics(count);
  std::string links, hosts;
  for (std::size_t i = 0; i < cables.size(); ++i) {
    const auto [a, b] = cables[i];
    for (const auto& [host, end] : {std::pair{a, 1}, std::pair{b, 2}})
      nics[host] += fmt::format(R"({}{{"name":"n{}","address":"10.0.{}.{}/24"}})",
                                nics[host].empty() ? "" : ",", i, i + 1, end);
    links += fmt::format(R"({}{{"ends":["h{}/n{}","h{}/n{}"],"gbps":{},"mtu":{},"delay_us":{}}})",
                         i == 0 ? "" : ",", a, i, b, i, spec.paths.front(), spec.mtu,
                         static_cast<double>(spec.delay_ns) / 1000);
  }
  for (std::size_t host = 0; host < count; ++host)
    hosts +=
        fmt::format(R"({}{{"name":"h{}","nics":[{}]}})", host == 0 ? "" : ",", host, nics[host]);
  return fmt::format(
      R"({{"name":"group","hosts":[{}],"links":[{}],"nic_costs":{{"quantum_bytes":{},)"
      R"("fetch_ns":{},"post_ns":{},"doorbell_ns":{},"completion_ns":{}}}}})",
      hosts, links, spec.quantum_bytes, spec.fetch_ns, spec.post_ns, spec.doorbell_ns,
      spec.completion_ns);
}

}  // namespace

GroupPoint measure_group(const Options& options, const std::string& name, std::size_t hosts,
                         std::size_t bytes) {
  GroupPoint point;
  const Cables cables = cables_of(name, hosts);
  const auto fabric = soft::parse(fabric_of(cables, hosts, options.spec));
  if (!fabric.ok()) return point.why = "the fabric cannot be read", point;
  const auto world =
      World::open({.fabric = *fabric,
                   .policy = tuning::derive_policy(traits_of(*fabric), options.settings),
                   .calls = options.calls,
                   .relays = true,
                   .cables = cables},
                  point.why);
  GroupRun* const group = world ? world->add_group({.bytes = bytes}, point.why) : nullptr;
  if (group == nullptr || !world->run([] { return false; }, point.why)) return point;
  point.steps = group->steps();
  point.us = figures_of(group->latencies_ns()).median_us;
  return point;
}

bool print_groups(const Options& options) {
  struct Shape {
    const char* cables = "";
    std::size_t hosts = 0;
  };
  const std::vector<std::size_t> sizes{4, 4096, 16384, 49152, 131072};
  const std::vector<Shape> shapes{{"full-mesh", 2}, {"full-mesh", 3}, {"full-mesh", 4}, {"ring", 4},
                                  {"full-mesh", 8}, {"cube", 8},      {"ring", 8}};
  std::printf(
      "# mesh_model: one-shot all-reduce on computed wires of %g Gb/s: microseconds from NCCL's "
      "call\n"
      "# to the last host's end, medians, of float. A copy takes %.1f ns a KiB, each input of a "
      "sum\n"
      "# %.1f. NCCL's and the GPU's own part is not in it. 4 B: the part that no size pays.\n"
      "# cables    hosts steps        4 B      4 KiB     16 KiB     48 KiB    128 KiB\n",
      options.spec.paths.front(), static_cast<double>(options.calls.copy_ps) * 1.024,
      static_cast<double>(options.calls.add_ps) * 1.024);
  return in_order(
      shapes.size() * sizes.size(),
      [&](std::size_t i) {
        const Shape& shape = shapes[i / sizes.size()];
        return measure_group(options, shape.cables, shape.hosts, sizes[i % sizes.size()]);
      },
      [&](std::size_t i, const GroupPoint& point) {
        const Shape& shape = shapes[i / sizes.size()];
        if (point.us == 0) {
          std::fprintf(stderr, "mesh_model: %s of %zu: %s\n", shape.cables, shape.hosts,
                       point.why.c_str());
          return false;
        }
        if (i % sizes.size() == 0)
          std::printf("%-11s %5zu %5zu", shape.cables, shape.hosts, point.steps);
        std::printf(" %10.2f", point.us);
        if ((i + 1) % sizes.size() == 0) std::printf("\n");
        std::fflush(stdout);
        return true;
      });
}

}  // namespace mesh::model
