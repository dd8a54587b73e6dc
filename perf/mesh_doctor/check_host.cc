#include "perf/mesh_doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::doctor {

namespace {

// Returns true if the finding leaves a port out: that no rail is left only follows from it.
bool explains_no_rail(const Finding& each) {
  const bool of_gids = each.name.starts_with("gid-") && each.severity == Severity::Broken;
  return of_gids || each.name == "hca-names-none" || each.name == "no-provider";
}

}  // namespace

void check_plugin(const HostFacts& facts, Findings& found) {
  if (!facts.plugin_error.empty()) {
    found.push_back(finding(
        "no-plugin", facts.host,
        {.about = facts.plugin_file,
         .evidence = facts.plugin_error,
         .remedy = facts.plugin.empty()
                       ? "Install the same nccl-mesh on every host, or name its file with --plugin."
                       : "Correct what the plugin names here: a job with this fault ends, or uses "
                         "another transport."}));
    return;
  }
  if (!facts.rails.empty() || std::any_of(found.begin(), found.end(), explains_no_rail)) return;
  found.push_back(
      finding("no-rail", facts.host,
              {.about = {},
               .evidence = fmt::format("{}", fmt::join(facts.notes, "; ")),
               .remedy = !facts.no_rdma.empty() ? "Install rdma-core (libibverbs1 and "
                                                  "ibverbs-providers), which the plugin loads."
                         : facts.ports.empty()
                             ? "Check that the card is on the bus (lspci) and that its driver is "
                               "loaded (rdma link)."
                             : "Bring one of these ports up and give it an address, or correct "
                               "the setting that leaves it out."}));
}

const RailFacts* rail_of(const HostFacts& facts, const std::string& port) {
  const auto rail = std::find_if(facts.rails.begin(), facts.rails.end(),
                                 [&port](const RailFacts& each) { return each.name == port; });
  return rail == facts.rails.end() ? nullptr : &*rail;
}

const SettingFacts* setting(const HostFacts& facts, const std::string& name) {
  const auto& all = facts.software.settings;  // the effective ones come first
  const auto found = std::find_if(all.begin(), all.end(), [&name](const SettingFacts& each) {
    return each.name == name && !each.value.empty();
  });
  return found == all.end() ? nullptr : &*found;
}

Findings check_host(const HostFacts& facts) {
  Findings found;
  check_ports(facts, found);
  check_gids(facts, found);
  check_counters(facts, found);
  check_pcie(facts, found);
  check_machine(facts, found);
  check_network(facts, found);
  check_software(facts, found);
  check_settings(facts, found);
  check_plugin(facts, found);
  return found;
}

}  // namespace mesh::doctor
