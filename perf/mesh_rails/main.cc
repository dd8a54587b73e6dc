// mesh_rails loads the plugin as NCCL does, and prints the rails that NCCL would be offered on this
// host.
#include "perf/driver/command_line.h"
#include "perf/driver/own_process.h"
#include "perf/driver/plugin_log.h"
#include "perf/mesh_rails/report.h"
#include "src/topo/placement.h"
#include "src/topo/ways.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

namespace mesh::rails {
namespace {

using driver::kNetSuccess, driver::NetApi, driver::PluginLog;

struct Options {
  std::string plugin = driver::own_plugin_file();
  int net_version = driver::kNetVersionMax;
  bool as_json = false;
  bool verbose = false;
};

constexpr const char* kFooter =
    "The plugin reads its settings from the environment, as in a job: NCCL_IB_HCA and "
    "NCCL_IB_GID_INDEX choose ports and\nGIDs; NCCL_MESH_FABRIC=soft:FILE with NCCL_MESH_HOST=NAME "
    "shows a host of the software fabric.\nA host without a rail is a failed run.";

int fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "mesh_rails: %s: %s\n", what, why.c_str());
  return 1;
}

// Fills in what lies between the NICs and the rest of this host.
void fill_ways(Report& report) {
  const auto has_pci = [](const Rail& rail) { return rail.known && !rail.known->pci.empty(); };
  if (std::none_of(report.rails.begin(), report.rails.end(), has_pci)) return;
  Result<topo::HostParts> host = topo::read_host_parts();
  if (!host.ok()) return;  // a line said so
  report.host = std::move(*host);
  const topo::HostTopology cpus = topo::read_host_topology();
  for (Rail& rail : report.rails) {
    if (!has_pci(rail)) continue;
    rail.ways = ways_of(report.host, rail.known->pci);
    const std::vector<int> order = topo::poller_cpus(cpus, rail.known->numa_node);
    if (!order.empty()) rail.ways.poller_cpu = order.front();
  }
}

// Returns the exit status after the plugin has refused to start, for which it has warned.
int refusal_status(const Report& report) {
  const std::string& start = report.snapshot.start;
  const bool wrong_input =
      start == errc_name(Errc::InvalidArgument) || start == errc_name(Errc::NotFound);
  return wrong_input ? driver::kUsage : driver::kFailed;
}

int run(const Options& options) {
  PluginLog& log = PluginLog::instance();
  log.set_filter({NCCL_LOG_INFO, NCCL_ALL});
  log.set_echo(options.verbose ? driver::Echo::Everything : driver::Echo::Warnings, "mesh_rails: ");
  driver::take_nccl_conf();
  driver::write_no_metrics();
  std::string error;
  const std::unique_ptr<NetApi> api = NetApi::load(options.plugin, options.net_version, error);
  if (api == nullptr) return fail("no plugin", error), driver::kUsage;
  Report report;
  if (const int result = read_rails(*api, report); result != kNetSuccess)
    return fail("the plugin failed", driver::net_result_name(result));
  // The plugin's warnings are out already.
  if (!report.refusal.empty()) return refusal_status(report);
  fill_ways(report);
  std::fputs((options.as_json ? json(report) : table(report)).c_str(), stdout);
  return report.rails.empty() ? 1 : 0;
}

void add_options(CLI::App& app, Options& options) {
  app.footer(kFooter);
  app.add_flag("--json", options.as_json, "Print JSON");
  app.add_flag("-v,--verbose", options.verbose, "Print all of the plugin's lines (to stderr)");
  app.add_option("--plugin", options.plugin, "The plugin's library")->capture_default_str();
  app.add_option("--net-version", options.net_version, "Version of ncclNet to call the plugin with")
      ->check(driver::in_range(driver::kNetVersionMin, driver::kNetVersionMax))
      ->capture_default_str();
}

}  // namespace
}  // namespace mesh::rails

int main(int argc, char** argv) {
  mesh::rails::Options options;
  CLI::App app(
      "Shows the RDMA ports (rails) of this host that nccl-mesh offers NCCL, and why it does not "
      "use the others.",
      "mesh_rails");
  mesh::rails::add_options(app, options);
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  return mesh::rails::run(options);
}
