// mesh_model: the engine on computed wires, as a table.
#include "perf/model/options.h"
#include "perf/model/report.h"
#include "src/base/log.h"
#include "tuning/derive.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

namespace mesh::model {
namespace {

constexpr std::uint64_t kBytesPerSize = std::uint64_t{1} << 30;
constexpr std::uint64_t kMessagesMin = 100, kMessagesMax = 2000;

Load load_for(const Options& options, std::size_t bytes) {
  Load load{.bytes = bytes, .outstanding = options.outstanding, .receives = options.receives};
  load.messages = options.iterations != 0
                      ? options.iterations
                      : std::clamp(kBytesPerSize / bytes, kMessagesMin, kMessagesMax);
  load.messages = std::max<std::uint64_t>(load.messages, 4 * options.outstanding);
  load.warmup =
      std::min<std::uint64_t>(load.messages / 4 + options.outstanding, (load.messages - 1) / 2);
  return load;
}

void show_progress(const char* what, std::size_t bytes) {
  if (::isatty(STDERR_FILENO) != 0)
    std::fprintf(stderr, "\r# %s of %zu bytes ...\033[K\r", what, bytes);
}

std::optional<Row> run_size(const Experiment& experiment, const Options& options,
                            std::size_t bytes) {
  Row row;
  row.bytes = bytes;
  row.load = load_for(options, bytes);
  std::string why;
  show_progress("bandwidth", bytes);
  const auto throughput = measure_throughput(experiment, row.load, why);
  show_progress("latency", bytes);
  const auto latency =
      throughput ? measure_latency(experiment, row.load, options.beside_bytes, why) : std::nullopt;
  if (!latency) {
    std::fprintf(stderr, "mesh_model: %zu bytes: %s\n", bytes, why.c_str());
    return std::nullopt;
  }
  row.throughput = *throughput;
  row.latency = *latency;
  return row;
}

int run(const Options& options, const std::vector<std::string>& arguments) {
  const auto fabric = options.fabric_file.empty() ? soft::parse(fabric_text(options.spec))
                                                  : soft::load(options.fabric_file);
  if (!fabric.ok()) return 1;
  if (fabric->hosts.size() < 2)
    return std::fprintf(stderr, "mesh_model: %s has one host, not 2\n",
                        options.fabric_file.c_str()),
           1;
  const Experiment experiment{.fabric = *fabric,
                              .policy = tuning::derive_policy(traits_of(*fabric), options.settings),
                              .calls = options.calls,
                              .channels = options.channels,
                              .direction = options.one_way ? Direction::OneWay : Direction::Both};
  Report report(options, experiment, arguments);
  report.print_header();
  for (std::size_t bytes = options.bytes_min; bytes <= options.bytes_max;
       bytes *= options.step_factor) {
    const auto row = run_size(experiment, options, bytes);
    if (!row) return 1;
    report.add(*row);
  }
  return report.finish() ? 0 : 1;
}

}  // namespace
}  // namespace mesh::model

int main(int argc, char** argv) {
  mesh::model::Options options;
  int exit_code = 0;
  if (!mesh::model::parse_options(argc, argv, options, &exit_code)) return exit_code;
  mesh::set_log_level(mesh::LogLevel::Warn);
  return mesh::model::run(options, std::vector<std::string>(argv + 1, argv + argc));
}
