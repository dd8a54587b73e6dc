#include "perf/mesh_perf/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace mesh::perf {
namespace {

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

}  // namespace

void print_header(const Options& options, const Ground& ground) {
  say(fmt::format(
      "# mesh_perf {}: {} ranks, 1 process each, {} channel(s), over {}\n"
      "# minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} checks: {}\n"
      "# plugin {} driven as ncclNet v{}, first device {}; host memory, reduced by the CPU\n#\n",
      kind_name(options.kind), ground.world, options.channels, ground.sentence(), options.bytes_min, options.bytes_max,
      options.step_factor > 1 ? fmt::format("{}(factor)", options.step_factor) : fmt::format("{}(bytes)", options.step_bytes),
      options.warmup, options.iterations, options.checks, options.plugin.substr(options.plugin.rfind('/') + 1), options.net_version,
      ground.device));
  say(fmt::format("# {:>61}\n# {:>10} {:>13} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6}\n", "out-of-place", "size", "count", "type",
                  "redop", "root", "time", "algbw", "busbw", "#wrong"));
  say(fmt::format("# {:>10} {:>13} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6}\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)",
                  "(GB/s)", ""));
}

void print_row(const Options& options, const Row& row) {
  const std::string wrong = row.checks > 0 ? std::to_string(row.wrong) : "N/A";
  say(fmt::format("  {:>10} {:>13} {:>9} {:>7} {:>7} {:>9.2f} {:>7.3f} {:>7.3f} {:>6}\n", row.bytes, row.count,
                  info(options.type).name, operation_name(options.kind), -1, row.time_us, row.algbw_gbps, row.busbw_gbps, wrong));
}

void print_footer(const std::vector<Row>& rows) {
  const std::size_t wrong = total_wrong(rows);
  say(fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n", wrong, wrong == 0 ? "OK" : "FAILED",
                  mean_busbw(rows)));
  if (rows.empty() || rows.back().memcpy_gbps == 0) return;
  const Row& last = rows.back();
  say(fmt::format("# One-thread memcpy of {} bytes in this run: {:.3f} GB/s; busbw of that size is {:.0f} % of it\n", last.bytes,
                  last.memcpy_gbps, 100 * last.busbw_gbps / last.memcpy_gbps));
}

bool write_json(const Options& options, const Ground& ground, const std::vector<Row>& rows) {
  nlohmann::ordered_json root;
  root["collective"] = kind_name(options.kind);
  root["measured_on"] = ground.sentence();
  root["software_fabric"] = options.soft();
  root["soft_roce"] = ground.soft_roce;
  root["emulated"] = ground.emulated;
  root["fabric"] = options.fabric;
  root["ranks"] = ground.world;
  root["channels"] = options.channels;
  root["net_version"] = options.net_version;
  root["type"] = info(options.type).name;
  root["iterations"] = options.iterations;
  root["warmup"] = options.warmup;
  root["one_way"] = options.one_way;
  for (const Row& row : rows) {
    nlohmann::ordered_json entry{{"size", row.bytes},
                                 {"count", row.count},
                                 {"time_us", row.time_us},
                                 {"time_us_max", row.time_us_max},
                                 {"algbw_gbps", row.algbw_gbps},
                                 {"busbw_gbps", row.busbw_gbps},
                                 {"checks", row.checks},
                                 {"wrong", row.wrong}};
    if (row.memcpy_gbps != 0) entry["memcpy_gbps"] = row.memcpy_gbps;
    root["rows"].push_back(entry);
  }
  root["wrong"] = total_wrong(rows);
  root["mean_busbw_gbps"] = mean_busbw(rows);
  std::ofstream file(options.json_file);
  file << root.dump(2) << '\n';
  file.close();
  if (!file.fail()) return true;
  std::fprintf(stderr, "mesh_perf: %s cannot be written\n", options.json_file.c_str());
  return false;
}

std::size_t total_wrong(const std::vector<Row>& rows) noexcept {
  std::size_t wrong = 0;
  for (const Row& row : rows) wrong += row.wrong;
  return wrong;
}

}  // namespace mesh::perf
