#include "perf/mesh_tune/options.h"

#include "perf/driver/command_line.h"
#include "perf/driver/net_api.h"
#include "perf/driver/own_process.h"
#include "perf/driver/rank_options.h"
#include "src/base/config.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace mesh::tune {
namespace {

constexpr const char* kFooter =
    "Without a rendezvous mesh_tune starts both ranks here, over the software fabric. Between two "
    "hosts, start one process on each:\n  MESH_RENDEZVOUS=HOST0:29500 WORLD_SIZE=2 RANK=0 "
    "mesh_tune    (and RANK=1 on the other; or mpirun, or srun)\nA setting that the environment "
    "names (NCCL_MESH_QPS=...) keeps its value and is not swept.\nA value is chosen only if it is "
    "slower nowhere and, at some size, faster by more than the noise: the difference between two "
    "measurements of one value.\nNCCL reads the lines from ~/.nccl.conf or /etc/nccl.conf, to "
    "which you append them, or from NCCL_CONF_FILE=FILE.";

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--quick", options.quick, "Measure fewer settings, sizes and rounds");
  app.add_flag("--dry-run", options.dry_run,
               "Print what would be measured; measure and write nothing");
  app.add_option("--time-limit", options.limit_s, "Seconds after which no further stage begins")
      ->check(driver::in_range(1, 86400))
      ->capture_default_str();
  app.add_option("--model", options.model_file,
                 "Measure on the model of this fabric file (perf/fabrics/model-*.json)");
  app.add_option("--fabric", options.fabric_file,
                 "Fabric file of the software fabric (default: perf/fabrics/pair.json)");
  app.add_option("-o,--output", options.output,
                 "Write the winners to this file, as lines of nccl.conf")
      ->capture_default_str();
  app.add_option("--json", options.json_file, "Write all measurements and decisions to this file");
  app.add_option("--plugin", options.plugin, "The plugin's library");
  driver::add_rank_options(app, options);
}

// Returns the mistake; empty if there is none.
std::string settle(Options& options) {
  const Environment environment = process_environment();
  Result<Settings> settings = Errc::InvalidArgument;
  std::string warning = driver::first_warning([&] { settings = load_settings(environment); });
  if (!settings.ok()) return warning;
  options.fixed = settings->given;
  if (options.plugin.empty()) options.plugin = driver::own_plugin_file();
  for (const std::string& file : {options.output, options.json_file}) {
    std::string why = driver::unwritable(file);
    if (!options.dry_run && !why.empty()) return why;
  }
  if (!options.model_file.empty()) {
    options.world = {};
    return options.fabric_file.empty() ? "" : "--model and --fabric exclude each other";
  }
  std::string why;
  auto world = driver::find_world(options.world, environment, why);
  if (!world.ok()) return why;
  options.world = *world;
  if (options.is_rank() && options.world.size != 2)
    return "WORLD_SIZE: '" + std::to_string(options.world.size) + "' is not usable; wanted: 2";
  if (std::string wrong = driver::unusable_plugin(options.plugin, driver::kNetVersionMax);
      !wrong.empty())
    return wrong;
  if (options.fabric_file.empty()) options.fabric_file = driver::own_fabric_file("pair.json");
  return {};
}

}  // namespace

Plan Options::plan() const {
  Plan plan = plan_sweep(quick ? Effort::Quick : Effort::Full);
  std::erase_if(plan.stages, [this](const Stage& stage) {
    return std::find(fixed.begin(), fixed.end(), tuning::info(stage.knob).setting) != fixed.end();
  });
  return plan;
}

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Measures a pair of hosts under many settings, and writes the fastest as lines of NCCL's "
      "nccl.conf.",
      "mesh_tune");
  app.footer(kFooter);
  add_options(app, options);
  if (const auto end = driver::parse(app, argc, argv)) {
    *exit_code = *end;
    return false;
  }
  options.arguments = driver::own_arguments(argc, argv, options);
  return driver::settled("mesh_tune", settle(options), exit_code);
}

}  // namespace mesh::tune
