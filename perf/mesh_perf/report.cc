#include "perf/mesh_perf/report.h"

#include "perf/collectives/ring_channel.h"
#include "perf/mesh_perf/ceiling.h"
#include "src/base/setting_value.h"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>

namespace mesh::perf {
namespace {

// Returns a setting as the plugin of rank 0 finds it. Returns nothing if it is unset or auto, so
// that the plugin chooses.
std::optional<std::uint64_t> setting(const Environment& environment, const std::string& name) {
  return read_bytes(driver::variable(environment, name));
}

std::uint64_t outstanding(const Options& options) {
  if (on_ring(options.kind)) return kRingSlots;
  return options.kind == Kind::Latency ? 1 : static_cast<std::uint64_t>(options.outstanding);
}

results::Settings settings_of(const Options& options) {
  const Environment environment = process_environment();
  return {.qps = setting(environment, "NCCL_MESH_QPS"),
          .signal_interval = setting(environment, "NCCL_MESH_SIGNAL_INTERVAL"),
          .inline_bytes = setting(environment, "NCCL_MESH_INLINE"),
          .channels = static_cast<std::uint64_t>(options.channels),
          .outstanding = outstanding(options),
          .via = options.via.size(),
          .pause_us = static_cast<std::uint64_t>(options.pause().count())};
}

std::size_t wrong_in(const Row& row) {
  return row.wrong + (row.in_place.has_value() ? row.in_place->wrong : 0);
}

results::Point point_of(const Options& options, const Row& row) {
  results::Point point;
  point.bytes = row.bytes;
  point.iterations = static_cast<std::uint64_t>(row.iterations);
  if (row.checks > 0) point.verified = wrong_in(row) == 0;
  point.extra["time_us"] = row.time_us;
  if (options.kind == Kind::Latency) {
    point.latency_us = row.latency_us;
    return point;
  }
  if (row.latency_us.has_value()) {
    point.extra["single_min_us"] = row.latency_us->min;
    point.extra["single_median_us"] = row.latency_us->median;
    point.extra["single_p99_us"] = row.latency_us->p99;
  }
  point.bandwidth = results::Bandwidth{.gbytes_per_s = row.algbw_gbps,
                                       .bus_gbytes_per_s = row.busbw_gbps,
                                       .ceiling_gbytes_per_s = std::nullopt};
  if (row.cpu_seconds_per_gb > 0) point.cpu_seconds_per_gb = row.cpu_seconds_per_gb;
  point.extra["time_max_us"] = row.time_us_max;
  if (row.messages_per_us > 0) point.extra["messages_per_us"] = row.messages_per_us;
  if (row.in_place.has_value()) {
    point.extra["in_place_time_us"] = row.in_place->time_us;
    point.extra["in_place_bus_gbytes_per_s"] = row.in_place->busbw_gbps;
  }
  if (row.memcpy_gbps > 0) point.extra["memcpy_gbytes_per_s"] = row.memcpy_gbps;
  return point;
}

std::string topology_of(const Options& options, const Ground& ground) {
  return options.soft() ? ground.software_fabric
                        : driver::variable(process_environment(), "MESH_TOPOLOGY");
}

double mean_busbw(const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows)
    sum += row.in_place ? (row.busbw_gbps + row.in_place->busbw_gbps) / 2 : row.busbw_gbps;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void print_latency_header(const Options& options) {
  say("# one way: half of each round trip, one message at a time" +
      (options.pause().count() != 0 ? fmt::format(", {} ms after the last one", options.pause_ms)
                                    : "") +
      "\n");
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
  for (const Row& row : rows) wrong += wrong_in(row);
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
  std::optional<soft::Goodput> ceiling;
  if (options.soft() && options.launched && options.algorithm == Algorithm::Ring &&
      options.ranks_per_host == 1)
    ceiling = link_ceiling(options.fabric, options.hosts, options.kind);
  results::Series series;
  series.operation =
      kind_name(options.kind) + (options.algorithm == Algorithm::OneShot ? " one-shot" : "") +
      (options.one_way ? " one way" : "") + (options.pause().count() != 0 ? " after a pause" : "") +
      (options.ranks_per_host > 1 ? fmt::format(", {} ranks on a host", options.ranks_per_host)
                                  : "");
  if (reduces(options.kind) && options.reduction != Reduction::Sum)
    series.operation += " " + reduction_name(options);
  series.settings = settings_of(options);
  for (const Row& row : rows) {
    results::Point point = point_of(options, row);
    // Sizes that round down to the same count were measured again.
    if (!series.points.empty() && series.points.back().bytes >= point.bytes) continue;
    if (point.bandwidth.has_value() && ceiling.has_value()) {
      point.bandwidth->ceiling_gbytes_per_s = ceiling->gbytes_per_s;
      point.bandwidth->slots_bind = ceiling->slots_bind;
    }
    series.points.push_back(point);
  }
  file.series.push_back(series);
  return file;
}

void print_header(const Options& options, const Ground& ground) {
  say(fmt::format(
      "# mesh_perf {}: {} ranks, 1 process each{}, {} channel(s), over {}\n"
      "# minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} checks: {}\n"
      "# plugin {} driven as ncclNet v{}, first device {}; host memory, reduced by the CPU\n#\n",
      kind_name(options.kind), ground.world,
      options.ranks_per_host > 1 ? fmt::format(", {} on a host", options.ranks_per_host) : "",
      options.channels, ground.sentence(), options.bytes_min, options.bytes_max,
      options.step_factor > 1 ? fmt::format("{}(factor)", options.step_factor)
                              : fmt::format("{}(bytes)", options.step_bytes),
      options.warmup, options.iterations, options.checks,
      options.plugin.substr(options.plugin.rfind('/') + 1), options.net_version, ground.device));
  if (options.algorithm == Algorithm::OneShot)
    say("# one-shot: the plugin's CollNet reduces, one all-reduce at a time\n#\n");
  if (options.kind == Kind::Latency) return print_latency_header(options);
  const bool ring = on_ring(options.kind);
  say(fmt::format("# {:>73}{}\n", "out-of-place", ring ? fmt::format("{:>33}", "in-place") : ""));
  const auto halves = [&](const std::string& first, const std::string& half,
                          const std::string& rest) {
    say("# " + first + half + (ring ? half : "") + (options.compares || !ring ? rest : "") + "\n");
  };
  constexpr const char* kFirst = "{:>10} {:>13} {:>9} {:>7} {:>7}";
  constexpr const char* kRest = " {:>9} {:>9}";
  constexpr const char* kHalf = " {:>9} {:>7} {:>7} {:>6}";
  halves(fmt::format(kFirst, "size", "count", "type", "redop", "root"),
         fmt::format(kHalf, "time", "algbw", "busbw", "#wrong"),
         ring ? fmt::format(kRest, "median", "p99") : fmt::format(kRest, "busbw", "messages"));
  halves(fmt::format(kFirst, "(B)", "(elements)", "", "", ""),
         fmt::format(kHalf, "(us)", "(GB/s)", "(GB/s)", ""),
         ring ? fmt::format(kRest, "(us)", "(us)") : fmt::format(kRest, "(Gb/s)", "(M/s)"));
}

void print_row(const Options& options, const Row& row) {
  const auto wrong = [](const Figures& figures) {
    return figures.checks > 0 ? std::to_string(figures.wrong) : "N/A";
  };
  if (options.kind == Kind::Latency && row.latency_us.has_value()) {
    const results::Latency& latency = *row.latency_us;
    say(fmt::format("  {:>10} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>6}\n",
                    row.bytes, latency.samples, latency.min, latency.median, latency.mean,
                    latency.p99, latency.p999, wrong(row)));
    return;
  }
  const auto half = [&](const Figures& figures) {
    return fmt::format(" {:>9.2f} {:>7.3f} {:>7.3f} {:>6}", figures.time_us, figures.algbw_gbps,
                       figures.busbw_gbps, wrong(figures));
  };
  const bool single = options.compares && row.latency_us.has_value();
  say(fmt::format(
      "  {:>10} {:>13} {:>9} {:>7} {:>7}{}{}{}\n", row.bytes, row.count, info(options.type).name,
      reduction_name(options), has_root(options.kind) ? options.root : -1, half(row),
      row.in_place ? half(*row.in_place)
                   : fmt::format(" {:>9.3f} {:>9.4f}", 8 * row.busbw_gbps, row.messages_per_us),
      single ? fmt::format(" {:>9.2f} {:>9.2f}", row.latency_us->median, row.latency_us->p99)
             : ""));
}

void print_footer(const Options& options, const std::vector<Row>& rows) {
  const std::size_t wrong = total_wrong(rows);
  say(fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED"));
  if (!options.until_file.empty()) {
    const auto add = [](int sum, const Row& row) {
      return sum + row.checks + (row.in_place ? row.in_place->checks : 0);
    };
    say(fmt::format("# Verified runs        : {}, until {} existed\n",
                    std::accumulate(rows.begin(), rows.end(), 0, add), options.until_file));
  }
  if (options.kind == Kind::Latency) return;
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
