#include "perf/mesh_doctor/read_host.h"

#include "perf/driver/net_api.h"
#include "perf/driver/own_process.h"
#include "perf/mesh_doctor/card_calls.h"
#include "perf/mesh_rails/report.h"

#include <unistd.h>

#include <array>
#include <utility>

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
  if (!rail.known) return facts;
  for (const AddressSnapshot& each : rail.known->addresses)
    facts.addresses.push_back({.text = each.address, .gid_index = each.gid_index});
  facts.gid_type = rail.known->gid_type;
  facts.mtu = static_cast<int>(rail.known->mtu);
  facts.numa_node = rail.known->numa_node;
  facts.pci = rail.known->pci;
  return facts;
}

// Returns the host's name in the software fabric, if there is one, or else the system's.
std::string host_name(const Environment& environment) {
  std::string fabric = driver::variable(environment, "NCCL_MESH_HOST");
  if (!fabric.empty()) return fabric;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

// A host of the software fabric has no files but planted ones, in a folder of its name.
std::optional<Tree> tree_of(const Options& options, const std::string& host) {
  const bool soft =
      driver::variable(process_environment(), "NCCL_MESH_FABRIC").starts_with("soft:");
  if (!soft) return Tree(options.root);
  Tree planted(options.root + "/" + host);
  if (options.root == "/" || !planted.has("/")) return std::nullopt;
  return planted;
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
  facts.no_rdma = report.snapshot.no_rdma;
  facts.plugin_version = report.snapshot.plugin;
  for (const rails::Rail& rail : report.rails) facts.rails.push_back(facts_of(rail));
  for (const RefusedPort& each : report.snapshot.engine.refused_ports)
    facts.refused.push_back({.port = each.port, .kind = each.kind, .reason = each.reason});
  for (const RailSnapshot& each : report.snapshot.engine.rails) {
    if (!each.offered)
      facts.refused.push_back({.port = each.name,
                               .kind = RefusalKind::Down,
                               .reason = "is down, and takes its place when it comes up"});
  }
  // A setting that leaves out every port is in the plugin's words.
  if (facts.rails.empty() && facts.notes.empty()) facts.notes = report.snapshot.start_lines;
}

void read_files(const Tree& tree, const Environment& environment, HostFacts& facts) {
  facts.ports = read_ports(tree);
  facts.pcie = read_pcie(tree, facts.ports);
  facts.machine = read_machine(tree);
  facts.software = read_software(tree, environment);
}

HostFacts read_host(const Options& options) {
  HostFacts facts;
  const Environment environment = process_environment();
  facts.host = host_name(environment);
  if (const auto tree = tree_of(options, facts.host)) {
    read_files(*tree, environment, facts);
    // Sets the variables that NCCL would set from its files before it loads a plugin.
    for (const auto& [name, value] : with_conf_files(*tree, environment)) {
      if (!environment.contains(name)) driver::set_variable(name, value);
    }
  }
  driver::write_no_metrics();
  CardAnswers answers = ask_own_cards();
  facts.silent = std::move(answers.silent);
  facts.plugin_file = options.plugin;
  if (!facts.silent.empty()) {
    if (answers.hca.empty()) {  // the plugin would wait for a card as long as it takes
      facts.notes.emplace_back("the plugin was not started, because no card answers");
      return facts;
    }
    driver::set_variable("NCCL_IB_HCA", answers.hca);
  }
  read_rails(options.plugin, facts);
  return facts;
}

std::string host_identity() {
  return host_name(process_environment()) + " " + Tree("/").line("/proc/sys/kernel/random/boot_id");
}

void read_again(const Options& options, HostFacts& facts) {
  const auto tree = tree_of(options, facts.host);
  if (!tree) return;
  for (PortFacts& port : facts.ports) port.counters_later = read_counters(*tree, port);
}

}  // namespace mesh::doctor
