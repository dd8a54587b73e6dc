#include "perf/mesh_doctor/doctor.h"

#include "perf/driver/command_line.h"
#include "perf/driver/rank_options.h"
#include "perf/mesh_doctor/read_host.h"
#include "perf/mesh_doctor/report.h"
#include "src/base/config.h"
#include "src/base/small_file.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <system_error>
#include <utility>

namespace mesh::doctor {
namespace {

constexpr const char* kFooter =
    "Without a rendezvous it checks this host alone. To check the network between hosts too, start "
    "it on each of them, by hand or with ssh, mpirun, srun or torchrun:\n  "
    "MESH_RENDEZVOUS=HOST0:29500 RANK=0 WORLD_SIZE=2 mesh_doctor\nRank 0 prints the report. Each "
    "process checks the environment that it is started in, so start it as the job is "
    "started; of several ranks on a host the first one looks. Something broken is a bad result.";

void add_output(CLI::App& app, Options& options) {
  app.add_flag("--json", options.as_json, "Print JSON");
  app.add_flag("--quick", options.quick,
               "Measure for a shorter time: less than 20 s for three hosts");
  app.add_option("--expect", options.expect_file,
                 "File with the expected cabling; every difference is a finding");
  app.add_option("--write-map", options.map_file,
                 "Write the present cabling to this file, for --expect");
  app.add_option("--threshold", options.threshold,
                 "Share of the rate that the ports promise which a cable must carry")
      ->check(driver::in_range(0.001, 1.0))
      ->capture_default_str();
  app.add_option(
         "--patience", options.patience_s,
         "Seconds without data after which a cable counts as silent; raise it for slow hosts")
      ->check(driver::in_range(1, 600))
      ->capture_default_str();
  app.add_option("--svg", options.svg_file, "Draw the cabling map to this file");
  app.add_flag("-v,--verbose", options.verbose, "Print all of the plugin's lines (to stderr)");
}

void add_place(CLI::App& app, Options& options) {
  app.add_option("--plugin", options.plugin,
                 "The plugin's library (default: the one that a job would load here, or else the "
                 "one beside this tool)");
  app.add_option("--fabric", options.fabric,
                 "Check the hosts of this file of the software fabric instead");
  app.add_option("--hosts", options.hosts, "Hosts of the fabric file (default: all)")
      ->delimiter(',');
  app.add_option("--root", options.root,
                 "Read the host's files (/sys, /proc, /etc, ...) below this folder, for tests; "
                 "with --fabric, below its folder HOST")
      ->option_text("DIR");
  app.add_option("--timeout", options.timeout_s,
                 "Seconds for the whole run (--fabric), or for each wait for another host")
      ->check(driver::in_range(1, 1000000))
      ->capture_default_str();
  app.add_option("--wait", options.wait_s, "Seconds to wait for the other hosts")
      ->check(driver::in_range(1, 1000000))
      ->capture_default_str();
  driver::add_rank_options(app, options);
}

// Returns the mistake if one host alone is asked about cables between hosts; empty otherwise.
std::string mistake_of_one_host(const Options& options) {
  if (options.launches() || (options.is_rank() && options.world.size > 1)) return {};
  for (const auto& [name, file] :
       {std::pair("--expect", &options.expect_file), std::pair("--write-map", &options.map_file),
        std::pair("--svg", &options.svg_file)}) {
    if (file->empty()) continue;
    return std::string(name) + " " + *file +
           " concerns the cables between hosts, and only one host takes part; start mesh_doctor on "
           "each host with MESH_RENDEZVOUS, RANK and WORLD_SIZE";
  }
  return {};
}

// Reads the map that the user expects. Returns the mistake; empty if there is none.
std::string read_expected(Options& options) {
  if (options.expect_file.empty()) return {};
  const Result<std::string> text = read_short_file(options.expect_file, kMapBytesMax);
  if (!text.ok()) return "--expect " + options.expect_file + " cannot be read; wanted: a file";
  std::string why;
  Result<std::vector<ExpectedPair>> expected = parse_map(*text, why);
  if (!expected.ok()) return "--expect " + options.expect_file + ": " + why;
  options.expected = std::move(*expected);
  return {};
}

// Returns the mistake in what is read and written; empty if there is none.
std::string mistake_in_files(Options& options) {
  std::error_code none;
  if (!std::filesystem::is_directory(options.root, none))
    return "--root " + options.root + " is no folder that can be read";
  std::string why = mistake_of_one_host(options);
  if (!why.empty() || options.world.rank > 0) return why;
  for (const std::string& file : {options.map_file, options.svg_file})
    if (why.empty()) why = driver::unwritable(file);
  return why.empty() ? read_expected(options) : why;
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Checks a host, or several hosts together, for faults that slow or stop NCCL over nccl-mesh, "
      "and says how to correct each.",
      "mesh_doctor");
  app.footer(kFooter);
  add_output(app, options);
  add_place(app, options);
  if (const auto end = driver::parse(app, argc, argv)) {
    *exit_code = *end;
    return false;
  }
  if (options.plugin.empty())
    options.plugin = plugin_of_job(Tree(options.root), process_environment());
  std::string why;
  auto world = driver::find_world(options.world, process_environment(), why);
  if (world.ok()) {
    options.world = std::move(*world);
    why = mistake_in_files(options);
  }
  return driver::settled("mesh_doctor", why, exit_code);
}

}  // namespace mesh::doctor
