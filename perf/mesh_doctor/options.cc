#include "perf/mesh_doctor/doctor.h"

#include "perf/mesh_doctor/read_host.h"
#include "perf/mesh_doctor/report.h"
#include "src/base/config.h"
#include "src/base/version.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <utility>

namespace mesh::doctor {
namespace {

constexpr const char* kFooter =
    "Alone it looks at this host. For what lies between hosts, start it on each of them, by hand, "
    "ssh, mpirun, srun or torchrun:\n"
    "  MESH_RENDEZVOUS=HOST0:29500 RANK=0 WORLD_SIZE=2 mesh_doctor\n"
    "The one of rank 0 prints. It sees the environment that it is started in, so start it as the "
    "job is started.\n"
    "Exit status: 0 healthy; 1 warnings; 2 broken; 3 wrong usage, or it could not look or write.";

void add_output(CLI::App& app, Options& options) {
  app.add_flag("--json", options.as_json, "Print JSON");
  app.add_flag("--quick", options.quick, "Measure shorter: under 20 s for three hosts");
  app.add_option("--expect", options.expect_file,
                 "File with the cabling that should be there; what differs is a finding");
  app.add_option("--write-map", options.map_file,
                 "Write the cabling that is there into this file, for --expect");
  app.add_option("--threshold", options.threshold,
                 "Part of what the ports promise that a cable must carry")
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  app.add_option("--patience", options.patience_s,
                 "Seconds without anything after which a cable is silent; more where the hosts "
                 "themselves are slow")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();
  app.add_option("--svg", options.svg_file, "Draw the cabling map into this file");
  app.add_flag("-v,--verbose", options.verbose, "Print all of the plugin's lines (to stderr)");
}

void add_place(CLI::App& app, Options& options) {
  app.add_option("--plugin", options.plugin,
                 "The plugin's library (default: what a job would load from here, or "
                 "the one beside this tool)");
  app.add_option("--fabric", options.fabric,
                 "Look at the hosts of this file of the software fabric instead");
  app.add_option("--hosts", options.hosts, "Hosts of the fabric file (default: all)")
      ->delimiter(',');
  app.add_option("--root", options.root,
                 "Read the host's files (/sys, /proc, /etc, ...) below this folder, for tests; "
                 "with --fabric, below the folder HOST in it")
      ->option_text("DIR");
  app.add_option("--timeout", options.timeout_s,
                 "Seconds for the whole look (--fabric), or for each wait for another host")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--wait", options.wait_s, "Seconds to wait for the other hosts")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--rank", options.world.rank,
                 "This host's rank (Env: RANK, or what mpirun or srun say)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--world-size", options.world.size,
                 "Number of hosts (Env: WORLD_SIZE, or what mpirun or srun say)")
      ->check(CLI::PositiveNumber);
  app.add_option("--rendezvous", options.world.rendezvous,
                 "host:port or [v6]:port where rank 0 listens (Env: MESH_RENDEZVOUS)");
  app.add_option("--rendezvous-fd", options.rendezvous_fd, "")->group("");
  app.add_flag("--launched", options.launched, "")->group("");
}

// Returns the mistake if one host alone is asked about cables between hosts; empty otherwise.
std::string asked_in_vain(const Options& options) {
  if (options.launches() || (options.many() && options.world.size > 1)) return {};
  for (const auto& [name, file] :
       {std::pair("--expect", &options.expect_file), std::pair("--write-map", &options.map_file),
        std::pair("--svg", &options.svg_file)}) {
    if (file->empty()) continue;
    return std::string(name) + " " + *file +
           " is about the cables between hosts, and this is one host; start mesh_doctor on each "
           "of them with MESH_RENDEZVOUS, RANK and WORLD_SIZE";
  }
  return {};
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Looks at a host, and at several hosts together, for what would slow or stop NCCL over "
      "nccl-mesh, and says how to mend it.",
      "mesh_doctor");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("nccl-mesh ") + version());
  add_output(app, options);
  add_place(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? kHealthy : kNoLook;
    return false;
  }
  if (options.plugin.empty())
    options.plugin = plugin_of_job(Tree(options.root), process_environment());
  std::string why;
  auto world = driver::find_world(options.world, process_environment(), why);
  if (world.ok()) {
    options.world = std::move(*world);
    why = asked_in_vain(options);
    if (why.empty()) return true;
  }
  std::fprintf(stderr, "mesh_doctor: %s\n", why.c_str());
  *exit_code = kNoLook;
  return false;
}

}  // namespace mesh::doctor
