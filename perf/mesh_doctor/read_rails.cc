#include "perf/mesh_doctor/read_rails.h"

#include "perf/driver/net_api.h"
#include "perf/driver/plugin_log.h"
#include "perf/mesh_rails/read_rails.h"

namespace mesh::doctor {
namespace {

RailFacts facts_of(const rails::Rail& rail) {
  RailFacts facts{.index = rail.index,
                  .name = rail.properties.name,
                  .pci = {},
                  .addresses = {},
                  .gid_type = {},
                  .speed_mbps = rail.properties.speed_mbps,
                  .port = rail.properties.port,
                  .pointers = rail.properties.ptr_support,
                  .guid = rail.properties.guid};
  if (!rail.line) return facts;
  for (const rails::GidAddress& each : rail.line->addresses)
    facts.addresses.push_back({.text = each.address, .gid_index = each.gid_index});
  facts.gid_type = rail.line->gid_type;
  facts.mtu = rail.line->mtu;
  facts.numa_node = rail.line->numa_node;
  if (rail.line->pci != "none") facts.pci = rail.line->pci;
  return facts;
}

}  // namespace

void read_rails(const std::string& plugin_file, HostFacts& facts) {
  facts.plugin_file = plugin_file;
  const auto api = driver::NetApi::load(plugin_file, driver::kNetVersionMax, facts.plugin_error);
  if (api == nullptr) return;
  rails::Report report;
  if (const int result = rails::read_rails(*api, report); result != driver::kNetSuccess)
    facts.plugin_error = driver::net_result_name(result);
  if (!report.refusal.empty()) facts.plugin_error = "it does not start: " + report.refusal;
  facts.plugin = report.plugin;
  facts.notes = report.notes;
  constexpr std::string_view kNamed = "nccl-mesh ";  // the plugin's first line
  for (const std::string& line : driver::PluginLog::instance().texts()) {
    if (line.starts_with(kNamed)) facts.plugin_version = line.substr(kNamed.size());
  }
  for (const rails::Rail& rail : report.rails) facts.rails.push_back(facts_of(rail));
  // Other reasons (no libibverbs) are among the plugin's few lines.
  if (facts.rails.empty() && facts.notes.empty())
    facts.notes = driver::PluginLog::instance().texts();
}

}  // namespace mesh::doctor
