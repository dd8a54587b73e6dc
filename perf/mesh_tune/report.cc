#include "perf/mesh_tune/report.h"

#include "perf/mesh_tune/conf.h"
#include "src/base/log_time.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace mesh::tune {
namespace {

using nlohmann::ordered_json;

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Better: return "better";
    case Verdict::Same: return "same";
    case Verdict::Worse: return "worse";
  }
  return "";
}

std::string points_text(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) text += (text.empty() ? "" : ", ") + point_name(point);
  return text;
}

std::string verdict_text(const PointVerdict& each) {
  return fmt::format("{} {:.3f} {}", point_name(each.point), each.comparison.ratio,
                     verdict_name(each.verdict));
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_stage(const StageReport& report) {
  const char* const key = tuning::info(report.stage.knob).key;
  const auto& winner = report.choice.winner;
  const std::string chosen =
      winner ? std::to_string(report.choice.candidates[*winner].value) : "stays";
  print(fmt::format("{}: {} ({})\n", key, chosen, report.choice.why));
  for (const Candidate& candidate : report.choice.candidates) {
    std::string line = fmt::format("  {:>9}", candidate.value);
    for (const PointVerdict& each : candidate.points) line += "   " + verdict_text(each);
    print(line + "\n");
  }
}

ordered_json json_of(const PointVerdict& each) {
  return {{"bytes", each.point.bytes},
          {"figure", figure_name(each.point.figure)},
          {"ratio", each.comparison.ratio},
          {"ratio_q1", each.comparison.low},
          {"ratio_q3", each.comparison.high},
          {"noise", each.noise},
          {"verdict", verdict_name(each.verdict)}};
}

ordered_json json_of(const StageReport& report) {
  ordered_json stage{{"setting", tuning::info(report.stage.knob).key},
                     {"rounds", report.rounds},
                     {"why", report.choice.why}};
  stage["chosen"] = report.choice.winner
                        ? ordered_json(report.choice.candidates[*report.choice.winner].value)
                        : nullptr;
  stage["candidates"] = ordered_json::array();
  for (const Candidate& candidate : report.choice.candidates) {
    ordered_json entry{{"value", candidate.value}, {"points", ordered_json::array()}};
    for (const PointVerdict& each : candidate.points) entry["points"].push_back(json_of(each));
    stage["candidates"].push_back(entry);
  }
  return stage;
}

std::string now_text() { return log_time().substr(0, 19) + "Z"; }  // to a second

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file.fail()) std::fprintf(stderr, "mesh_tune: %s cannot be written\n", path.c_str());
  return !file.fail();
}

}  // namespace

void print_plan(const Options& options) {
  const Plan plan = options.plan();
  print(fmt::format(
      "# mesh_tune would measure {} stages of {} rounds each for at most {} s, and then compare "
      "once more\n",
      plan.stages.size(), options.model_file.empty() ? plan.rounds : 1, options.limit_s));
  for (const Stage& stage : plan.stages)
    print(fmt::format("{}: {}\n    at {}\n", tuning::info(stage.knob).key,
                      fmt::join(stage.values, ", "), points_text(stage.points)));
  print(fmt::format("all winners compared with the defaults at {}\n",
                    points_text(plan.final_points)));
  if (!options.fixed.empty())
    print(fmt::format("# set in the environment, and not swept: {}\n",
                      fmt::join(options.fixed, ", ")));
  print(fmt::format("# the winners would be written to {}\n", options.output));
}

void print_report(const Options& options, const Report& report) {
  print(fmt::format("# mesh_tune, measured on: {}\n", report.measured.label));
  print("# time of a message divided by its time with the present setting; below 1 is faster\n");
  for (const StageReport& stage : report.stages) print_stage(stage);
  if (!report.whole.empty()) print("all winners compared with the defaults:\n");
  for (const PointVerdict& each : report.whole)
    print(fmt::format("  {}, noise {:.3f}\n", verdict_text(each), each.noise));
  print(fmt::format("# {}\n# lines for nccl.conf: {}\n", report.verdict, options.output));
}

bool write_files(const Options& options, const Report& report) {
  const std::string how = fmt::format("mesh_tune {}", fmt::join(options.arguments, " "));
  if (!write_text(options.output, conf_text(report, now_text(), how))) return false;
  if (options.json_file.empty()) return true;
  ordered_json root{{"format", "nccl-mesh-tune"}, {"version", 2}, {"verdict", report.verdict}};
  root["measured"] = {{"label", report.measured.label},
                      {"devices", report.measured.devices},
                      {"rails", report.measured.rails},
                      {"speed_mbps", report.measured.speed_mbps},
                      {"mtu", report.measured.mtu}};
  root["settings"] = ordered_json::object();
  for (const tuning::KnobInfo& each : tuning::knob_table())
    if (report.settings[each.knob]) root["settings"][each.setting] = *report.settings[each.knob];
  root["stages"] = ordered_json::array();
  for (const StageReport& stage : report.stages) root["stages"].push_back(json_of(stage));
  root["whole"] = ordered_json::array();
  for (const PointVerdict& each : report.whole) root["whole"].push_back(json_of(each));
  return write_text(options.json_file,
                    root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace mesh::tune
