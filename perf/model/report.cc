#include "perf/model/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

namespace mesh::model {
namespace {

std::string topology_of(const Options& options) {
  if (!options.fabric_file.empty())
    return options.fabric_file.substr(options.fabric_file.rfind('/') + 1);
  const FabricSpec& spec = options.spec;
  std::string text =
      fmt::format("two hosts, {} Gb/s, MTU {}", fmt::join(spec.paths, " + "), spec.mtu);
  if (spec.half > 0) text += fmt::format(", two halves of {} Gb/s", spec.half);
  if (spec.qp_cap > 0) text += fmt::format(", {} Gb/s a queue pair", spec.qp_cap);
  return text + fmt::format(", {} ns, quantum {}", spec.delay_ns, spec.quantum_bytes);
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Report::Report(const Options& options, const Experiment& experiment,
               const std::vector<std::string>& arguments)
    : options_(options),
      arguments_(arguments),
      topology_(topology_of(options)),
      qps_(options.spec.half > 0 ? experiment.policy.half_qps : experiment.policy.qps),
      ceiling_(soft::goodput_between(experiment.fabric, {0, 1}).value_or(soft::Goodput{})) {}

void Report::print_header() const {
  const Settings& settings = options_.settings;
  say(fmt::format(
      "# mesh_model sendrecv{}: {} channel(s), {} outstanding, MODEL, not measured: {}{}\n",
      options_.one_way ? " one way" : "", options_.channels, options_.outstanding, topology_,
      options_.spec.via == 0 ? "" : fmt::format(", over {} hosts between", options_.spec.via)));
  say(fmt::format(
      "# queue pairs per path {}, signal interval {}, inline {}; CPU ns: start {}, test {}\n", qps_,
      settings.signal_interval,
      settings.inline_bytes == kAuto ? "auto" : std::to_string(settings.inline_bytes),
      options_.calls.start_ns, options_.calls.test_ns));
  if (ceiling_.gbytes_per_s > 0)
    say(fmt::format("# the {} goodput is {:.3f} GB/s one way\n",
                    ceiling_.slots_bind ? "cards' slots bind: their" : "wire's",
                    ceiling_.gbytes_per_s));
  const std::string beside = options_.beside_bytes == 0
                                 ? "one at a time"
                                 : fmt::format("beside {} bytes", options_.beside_bytes);
  say(fmt::format("#\n# {:>54}   {:>40}\n", "", "latency one way, " + beside + " (us)"));
  say(fmt::format("# {:>10} {:>9} {:>9} {:>8} {:>9} {:>8}   {:>9} {:>9} {:>9} {:>9}\n", "size",
                  "messages", "algbw", "of limit", "rate", "doorb.", "min", "median", "p99",
                  "p99.9"));
  say(fmt::format("# {:>10} {:>9} {:>9} {:>8} {:>9} {:>8}\n", "(B)", "", "(GB/s)", "(%)",
                  "(msg/us)", "(/msg)"));
}

void Report::add(const Row& row) {
  rows_.push_back(row);
  const Throughput& t = row.throughput;
  const results::Latency& l = row.latency_us;
  const std::string share =
      ceiling_.gbytes_per_s > 0
          ? fmt::format("{:.1f}", 100 * t.gbytes_per_s / ceiling_.gbytes_per_s)
          : "-";
  say(fmt::format(
      "  {:>10} {:>9} {:>9.3f} {:>8} {:>9.3f} {:>8.2f}   {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n",
      row.bytes, row.load.messages, t.gbytes_per_s, share, t.messages_per_us,
      t.doorbells_per_message, l.min, l.median, l.p99, l.p999));
}

results::Series Report::series(const std::string& operation, std::uint32_t outstanding) const {
  results::Series series;
  series.operation = operation;
  const Settings defaults, &settings = options_.settings;
  results::Settings& to = series.settings;
  if (settings.qps != defaults.qps) to.qps = static_cast<std::uint64_t>(settings.qps);
  if (settings.signal_interval != defaults.signal_interval)
    to.signal_interval = static_cast<std::uint64_t>(settings.signal_interval);
  if (settings.inline_bytes != kAuto)
    to.inline_bytes = static_cast<std::uint64_t>(settings.inline_bytes);
  to.channels = options_.channels;
  to.outstanding = outstanding;
  to.via = options_.spec.via;
  return series;
}

results::File Report::file() const {
  results::File file;
  file.kind = results::Kind::Model;
  file.label = "model, not measured (" + topology_ + ")";
  file.tool = "mesh_model";
  file.arguments = arguments_;
  file.place.topology = topology_;
  file.place.ranks = 2;
  results::Series bandwidth =
      series(options_.one_way ? "sendrecv one way" : "sendrecv", options_.outstanding);
  results::Series latency = series("latency", 1);
  latency.settings.channels = 1;
  if (options_.beside_bytes != 0)
    latency.operation += fmt::format(" beside {} bytes", options_.beside_bytes);
  for (const Row& row : rows_) {
    results::Point point;
    point.bytes = row.bytes;
    point.iterations = row.load.messages;
    point.bandwidth = results::Bandwidth{.gbytes_per_s = row.throughput.gbytes_per_s,
                                         .bus_gbytes_per_s = row.throughput.gbytes_per_s,
                                         .ceiling_gbytes_per_s = std::nullopt,
                                         .slots_bind = ceiling_.slots_bind};
    if (ceiling_.gbytes_per_s > 0) point.bandwidth->ceiling_gbytes_per_s = ceiling_.gbytes_per_s;
    point.extra["doorbells_per_message"] = row.throughput.doorbells_per_message;
    point.extra["send_completions_per_message"] = row.throughput.completions_per_message;
    bandwidth.points.push_back(point);
    results::Point one;
    one.bytes = row.bytes;
    one.iterations = row.latency_us.samples;
    one.latency_us = row.latency_us;
    latency.points.push_back(one);
  }
  file.series = {bandwidth, latency};
  return file;
}

bool Report::finish() const {
  if (options_.json_file.empty()) return true;
  std::string why;
  if (results::write_file(options_.json_file, file(), why)) return true;
  std::fprintf(stderr, "mesh_model: %s\n", why.c_str());
  return false;
}

}  // namespace mesh::model
