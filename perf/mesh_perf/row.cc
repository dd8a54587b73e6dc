#include "perf/mesh_perf/row.h"

#include "perf/collectives/ring_channel.h"
#include "perf/mesh_perf/ceiling.h"
#include "perf/results/result_file.h"

#include <charconv>

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

}  // namespace mesh::perf
