#include "perf/mesh_doctor/check_host.h"

#include <fmt/format.h>

namespace mesh::doctor {
namespace {

void check_plugin(const HostFacts& facts, std::vector<Finding>& found) {
  if (!facts.plugin_error.empty()) {
    found.push_back(finding(
        "no-plugin", facts.host,
        {.about = facts.plugin_file,
         .evidence = facts.plugin_error,
         .remedy = "Install the same nccl-mesh on every host, or name its file with --plugin."}));
    return;
  }
  if (!facts.rails.empty()) return;
  found.push_back(finding("no-rail", facts.host,
                          {.about = {},
                           .evidence = fmt::format("{}", fmt::join(facts.notes, "; ")),
                           .remedy = "Bring one of these ports up and give it an address, or "
                                     "correct the setting that leaves it out."}));
}

}  // namespace

std::vector<Finding> check_host(const HostFacts& facts) {
  std::vector<Finding> found;
  check_plugin(facts, found);
  return found;
}

}  // namespace mesh::doctor
