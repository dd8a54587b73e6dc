#include "perf/mesh_perf/report.h"

#include "perf/collectives/ring_channel.h"
#include "perf/mesh_perf/ceiling.h"
#include "perf/results/result.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <numeric>

namespace mesh::perf {
namespace {

// Returns a setting as the plugin of rank 0 finds it. Returns nothing if it is unset or auto, so
// that the plugin chooses.
std::optional<std::uint64_t> setting(const Environment& environment, const std::string& name) {
  const std::string text = driver::variable(environment, name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t outstanding(const Options& options) {
  switch (options.kind) {
    case Kind::AllReduce: return kRingSlots;
    case Kind::Latency: return 1;
    case Kind::SendRecv:
    case Kind::AllToAll: return static_cast<std::uint64_t>(options.outstanding);
  }
  return 1;
}

results::Settings settings_of(const Options& options) {
  const Environment environment = process_environment();
  return {.qps = setting(environment, "NCCL_MESH_QPS"),
          .signal_interval = setting(environment, "NCCL_MESH_SIGNAL_INTERVAL"),
          .inline_bytes = setting(environment, "NCCL_MESH_INLINE"),
          .channels = static_cast<std::uint64_t>(options.channels),
          .outstanding = outstanding(options),
          .via = options.via.size()};
}

results::Point point_of(const Row& row) {
  results::Point point;
  point.bytes = row.bytes;
  point.iterations = static_cast<std::uint64_t>(row.iterations);
  if (row.checks > 0) point.verified = row.wrong == 0;
  point.latency_us = row.latency_us;
  point.extra["time_us"] = row.time_us;
  if (row.latency_us.has_value()) return point;
  point.bandwidth = results::Bandwidth{.gbytes_per_s = row.algbw_gbps,
                                       .bus_gbytes_per_s = row.busbw_gbps,
                                       .ceiling_gbytes_per_s = std::nullopt};
  if (row.cpu_seconds_per_gb > 0) point.cpu_seconds_per_gb = row.cpu_seconds_per_gb;
  point.extra["time_max_us"] = row.time_us_max;
  if (row.memcpy_gbps > 0) point.extra["memcpy_gbytes_per_s"] = row.memcpy_gbps;
  return point;
}

std::string topology_of(const Options& options, const Ground& ground) {
  return options.soft() ? ground.software_fabric
                        : driver::variable(process_environment(), "MESH_TOPOLOGY");
}

const char* operation_name(Kind kind) { return kind == Kind::AllReduce ? "sum" : "none"; }

double mean_busbw(const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows) sum += row.busbw_gbps;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void print_latency_header() {
  say("# one way: half of each round trip, one message at a time\n");
  say(fmt::format("# {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n", "size", "samples", "min",
                  "median", "mean", "p99", "p99.9", "#wrong"));
  say(fmt::format("# {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n", "(B)", "", "(us)",
                  "(us)", "(us)", "(us)", "(us)", ""));
}

void print_cpu(const std::vector<Row>& rows) {
  if (rows.empty() || rows.back().cpu_seconds_per_gb == 0) return;
  say(fmt::format("# CPU of all ranks      : {:.3g} s per 10^9 bytes sent, messages of {} B\n",
                  rows.back().cpu_seconds_per_gb, rows.back().bytes));
}

}  // namespace

std::size_t total_wrong(const std::vector<Row>& rows) noexcept {
  std::size_t wrong = 0;
  for (const Row& row : rows) wrong += row.wrong;
  return wrong;
}

results::File result_file(const Options& options, const Ground& ground,
                          const std::vector<Row>& rows) {
  results::File file;
  file.kind = options.soft() ? results::Kind::Soft : results::Kind::Rdma;
  file.label = ground.sentence();
  file.tool = "mesh_perf";
  file.arguments = options.arguments;
  file.place = results::this_place();
  file.place.topology = topology_of(options, ground);
  file.place.ranks = static_cast<std::uint64_t>(ground.world);
  // The places of ranks are known only if our launcher placed them.
  std::optional<double> ceiling;
  if (options.soft() && options.launched)
    ceiling = link_ceiling(options.fabric, options.hosts, options.kind);
  results::Series series;
  series.operation = std::string(kind_name(options.kind)) + (options.one_way ? " one way" : "");
  series.settings = settings_of(options);
  for (const Row& row : rows) {
    results::Point point = point_of(row);
    // Sizes that round down to the same count were measured again.
    if (!series.points.empty() && series.points.back().bytes >= point.bytes) continue;
    if (point.bandwidth.has_value()) point.bandwidth->ceiling_gbytes_per_s = ceiling;
    series.points.push_back(point);
  }
  file.series.push_back(series);
  return file;
}

void print_header(const Options& options, const Ground& ground) {
  say(fmt::format(
      "# mesh_perf {}: {} ranks, 1 process each, {} channel(s), over {}\n"
      "# minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} checks: {}\n"
      "# plugin {} driven as ncclNet v{}, first device {}; host memory, reduced by the CPU\n#\n",
      kind_name(options.kind), ground.world, options.channels, ground.sentence(), options.bytes_min,
      options.bytes_max,
      options.step_factor > 1 ? fmt::format("{}(factor)", options.step_factor)
                              : fmt::format("{}(bytes)", options.step_bytes),
      options.warmup, options.iterations, options.checks,
      options.plugin.substr(options.plugin.rfind('/') + 1), options.net_version, ground.device));
  if (options.kind == Kind::Latency) return print_latency_header();
  say(fmt::format("# {:>61}\n# {:>10} {:>13} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6}\n",
                  "out-of-place", "size", "count", "type", "redop", "root", "time", "algbw",
                  "busbw", "#wrong"));
  say(fmt::format("# {:>10} {:>13} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6}\n", "(B)",
                  "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""));
}

void print_row(const Options& options, const Row& row) {
  const std::string wrong = row.checks > 0 ? std::to_string(row.wrong) : "N/A";
  if (row.latency_us.has_value()) {
    const results::Latency& latency = *row.latency_us;
    say(fmt::format("  {:>10} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>6}\n",
                    row.bytes, latency.samples, latency.min, latency.median, row.time_us / 2,
                    latency.p99, latency.p999, wrong));
    return;
  }
  say(fmt::format("  {:>10} {:>13} {:>9} {:>7} {:>7} {:>9.2f} {:>7.3f} {:>7.3f} {:>6}\n", row.bytes,
                  row.count, info(options.type).name, operation_name(options.kind), -1, row.time_us,
                  row.algbw_gbps, row.busbw_gbps, wrong));
}

void print_footer(const Options& options, const std::vector<Row>& rows) {
  const std::size_t wrong = total_wrong(rows);
  say(fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED"));
  if (!options.until_file.empty()) {
    const auto add = [](int sum, const Row& row) { return sum + row.checks; };
    say(fmt::format("# Verified runs        : {}, until {} existed\n",
                    std::accumulate(rows.begin(), rows.end(), 0, add), options.until_file));
  }
  if (!rows.empty() && rows.back().latency_us.has_value()) return;
  say(fmt::format("# Avg bus bandwidth    : {:g}\n", mean_busbw(rows)));
  print_cpu(rows);
  if (rows.empty() || rows.back().memcpy_gbps == 0) return;
  const Row& last = rows.back();
  say(
      fmt::format("# One-thread memcpy of {} bytes in this run: {:.3f} GB/s; busbw of this size is "
                  "{:.0f} % of that\n",
                  last.bytes, last.memcpy_gbps, 100 * last.busbw_gbps / last.memcpy_gbps));
}

bool write_json(const Options& options, const Ground& ground, const std::vector<Row>& rows) {
  std::string why;
  if (results::write_file(options.json_file, result_file(options, ground, rows), why)) return true;
  std::fprintf(stderr, "mesh_perf: %s\n", why.c_str());
  return false;
}

}  // namespace mesh::perf
