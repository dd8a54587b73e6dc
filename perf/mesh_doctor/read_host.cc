#include "perf/mesh_doctor/read_host.h"

#include "perf/driver/own_environment.h"
#include "perf/mesh_doctor/read_machine.h"
#include "perf/mesh_doctor/read_ports.h"
#include "perf/mesh_doctor/read_rails.h"
#include "perf/mesh_doctor/read_software.h"

#include <unistd.h>

#include <array>

namespace mesh::doctor {
namespace {

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
  read_rails(options.plugin, facts);
  return facts;
}

void read_again(const Options& options, HostFacts& facts) {
  const auto tree = tree_of(options, facts.host);
  if (!tree) return;
  for (PortFacts& port : facts.ports) port.counters_later = read_counters(*tree, port);
}

}  // namespace mesh::doctor
