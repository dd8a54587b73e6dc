#include "perf/model/groups.h"

#include "perf/model/in_order.h"
#include "perf/model/measure.h"
#include "tuning/derive.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace mesh::model {
namespace {

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

}  // namespace

GroupPoint measure_group(const Options& options, const std::string& name, std::size_t hosts,
                         std::size_t bytes) {
  GroupPoint point;
  const Cables cables = cables_of(name, hosts);
  const auto fabric = soft::parse(fabric_text(options.spec, hosts, cables));
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
  point.us = results::latency_of(group->latencies_us()).value_or(results::Latency{}).median;
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
