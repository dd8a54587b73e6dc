// mesh_tune runs on the model, as the launcher of two ranks over the software fabric, or as one of
// two ranks.
#include "perf/driver/command_line.h"
#include "perf/driver/local_ranks.h"
#include "perf/driver/own_process.h"
#include "perf/driver/plugin_log.h"
#include "perf/driver/rank_options.h"
#include "perf/driver/soft_fabric.h"
#include "perf/mesh_tune/bench.h"
#include "perf/mesh_tune/live_bench.h"
#include "perf/mesh_tune/options.h"
#include "perf/mesh_tune/report.h"
#include "src/base/config.h"
#include "src/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mesh::tune {
namespace {

// The time limits of a round and of the comparison at the end.
constexpr std::chrono::seconds kPatience{120};

int fail(const std::string& why) {
  std::fprintf(stderr, "mesh_tune: %s\n", why.c_str());
  return 1;
}

void show_progress(const std::string& line) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, terminal ? "\r# %s\033[K\r" : "# %s\n", line.c_str());
}

int tune_and_tell(const Options& options, Bench& bench) {
  std::string why;
  std::optional<Report> report = tune(bench,
                                      {.plan = options.plan(),
                                       .limit = std::chrono::seconds(options.limit_s),
                                       .progress = show_progress},
                                      why);
  if (!report) return fail(why);
  print_report(options, *report);
  return write_files(options, *report) ? 0 : 1;
}

int run_model(const Options& options) {
  std::string why;
  std::unique_ptr<Bench> bench;
  const std::string warning =
      driver::first_warning([&] { bench = open_model_bench(options.model_file, why); });
  if (bench != nullptr) return tune_and_tell(options, *bench);
  fail(warning.empty() ? why : warning);
  return driver::kUsage;
}

int run_rank(const Options& options) {
  const Environment environment = process_environment();
  // The plugin's lines must not appear in the table.
  driver::write_no_metrics();
  driver::PluginLog::instance().set_echo(driver::Echo::Warnings, "mesh_tune: ");
  std::string why;
  auto bootstrap = driver::Bootstrap::join(driver::bootstrap_options(options, kPatience, &why));
  if (!bootstrap.ok()) return fail(why);
  LiveOptions live{.plugin = options.plugin,
                   .fabric_name = {},
                   .emulated = driver::switched_on(environment, "MESH_LAB")};
  if (driver::variable(environment, "NCCL_MESH_FABRIC").starts_with("soft:")) {
    const std::string file = options.launched
                                 ? options.fabric_file
                                 : driver::variable(environment, "NCCL_MESH_FABRIC").substr(5);
    live.fabric_name = file.substr(file.rfind('/') + 1);
  }
  const std::unique_ptr<LiveBench> bench = LiveBench::open(live, *bootstrap, why);
  if (bench == nullptr) return fail(why);
  if (options.world.rank != 0) return bench->follow(why) ? 0 : fail(why);
  const int code = tune_and_tell(options, *bench);
  bench->finish();
  return code;
}

int launch(const Options& options, int argc, char** argv) {
  const auto fabric = driver::SoftFabric::open(options.fabric_file, {});
  if (!fabric.ok()) return driver::kUsage;
  const std::vector<std::string>& hosts = fabric->hosts();
  if (hosts.size() < 2) return fail(options.fabric_file + " has one host, not 2");
  const auto run =
      driver::run_local_ranks({.tool = "mesh_tune",
                               .fabric = options.fabric_file,
                               .hosts = {hosts[0], hosts[1]},
                               .arguments = {argv + 1, argv + argc},
                               .timeout = std::chrono::seconds(options.limit_s) + 2 * kPatience});
  const auto succeeded = [](const auto& end) { return end && end->success(); };
  return run && std::all_of(run->ends.begin(), run->ends.end(), succeeded) ? 0 : 1;
}

// Takes the settings of nccl.conf as the job would, but not what an earlier run may have written
// there: only what the environment names is not swept.
void take_nccl_conf() {
  const Environment own = process_environment();
  driver::take_nccl_conf();
  for (const tuning::KnobInfo& each : tuning::knob_table())
    if (!own.contains(each.setting)) driver::unset_variable(each.setting);
}

}  // namespace
}  // namespace mesh::tune

int main(int argc, char** argv) {
  mesh::tune::take_nccl_conf();
  mesh::tune::Options options;
  int exit_code = 0;
  if (!mesh::tune::parse_options(argc, argv, options, &exit_code)) return exit_code;
  mesh::set_log_level(mesh::LogLevel::Warn);
  if (options.dry_run) return mesh::tune::print_plan(options), 0;
  if (!options.model_file.empty()) return mesh::tune::run_model(options);
  return options.is_rank() ? mesh::tune::run_rank(options)
                           : mesh::tune::launch(options, argc, argv);
}
