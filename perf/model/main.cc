// mesh_model runs the engine on computed wires and prints a table.
#include "perf/driver/command_line.h"
#include "perf/model/groups.h"
#include "perf/model/in_order.h"
#include "perf/model/options.h"
#include "perf/model/relays.h"
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

void show_progress(const Row& row) {
  if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r# %zu bytes ...\033[K\r", row.bytes);
}

// One size's bandwidth or latency. A world for each, so that they run beside each other.
struct Piece {
  std::optional<Throughput> throughput;
  std::optional<results::Latency> latency;
  std::string why;
};

class Sizes {
 public:
  Sizes(const Experiment& experiment, const Options& options)
      : experiment_(experiment), options_(options) {
    for (std::size_t bytes = options.bytes_min; bytes <= options.bytes_max;
         bytes *= options.step_factor)
      rows_.push_back(
          {.bytes = bytes, .load = load_for(options, bytes), .throughput = {}, .latency_us = {}});
  }

  bool run(Report& report) {
    return in_order(
        2 * rows_.size(), [this](std::size_t i) { return measure(i); },
        [&](std::size_t i, const Piece& piece) { return take(i, piece, report); });
  }

 private:
  Piece measure(std::size_t i) const {
    Piece piece;
    const Row& row = rows_[i / 2];
    if (i % 2 == 0)
      piece.throughput = measure_throughput(experiment_, row.load, piece.why);
    else
      piece.latency = measure_latency(experiment_, row.load, options_.beside_bytes, piece.why);
    return piece;
  }

  bool take(std::size_t i, const Piece& piece, Report& report) {
    Row& row = rows_[i / 2];
    if (!piece.throughput && !piece.latency) {
      std::fprintf(stderr, "mesh_model: %zu bytes: %s\n", row.bytes, piece.why.c_str());
      return false;
    }
    show_progress(row);
    if (piece.throughput) row.throughput = *piece.throughput;
    if (piece.latency) row.latency_us = *piece.latency;
    if (i % 2 == 1) report.add(row);
    return true;
  }

  const Experiment& experiment_;
  const Options& options_;
  std::vector<Row> rows_;
};

int run(const Options& options, const std::vector<std::string>& arguments) {
  if (options.relays) return print_relays(options) ? 0 : 1;
  if (options.both_ways) return print_both_ways(options) ? 0 : 1;
  if (options.groups) return print_groups(options) ? 0 : 1;
  Result<soft::FabricFile> fabric = Errc::NotFound;
  const std::string warning = driver::first_warning([&] {
    fabric = options.fabric_file.empty() ? soft::parse(fabric_text(options.spec))
                                         : soft::load(options.fabric_file);
  });
  if (!fabric.ok())
    return std::fprintf(stderr, "mesh_model: %s\n", warning.c_str()), driver::kUsage;
  if (fabric->hosts.size() < options.spec.via + 2)
    return std::fprintf(stderr, "mesh_model: %s has %zu hosts and needs %u\n",
                        options.fabric_file.c_str(), fabric->hosts.size(), options.spec.via + 2),
           driver::kUsage;
  const Experiment experiment{.fabric = *fabric,
                              .policy = tuning::derive_policy(traits_of(*fabric), options.settings),
                              .calls = options.calls,
                              .channels = options.channels,
                              .direction = options.one_way ? Direction::OneWay : Direction::Both,
                              .sites = options.sites,
                              .via = options.spec.via};
  Report report(options, experiment, arguments);
  report.print_header();
  if (!Sizes(experiment, options).run(report)) return 1;
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
