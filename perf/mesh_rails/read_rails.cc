#include "perf/mesh_rails/read_rails.h"

#include "perf/driver/plugin_log.h"

namespace mesh::rails {
namespace {

using driver::kNetSuccess;
using driver::PluginLog;

std::string refusal_of(int result) {
  if (tell_of_no_rail(PluginLog::instance().texts())) return {};
  std::string why = driver::net_result_name(result);
  for (const std::string& line : PluginLog::instance().warning_texts()) why += "; " + line;
  return why;
}

int ask(driver::NetApi& api, Report& report) {
  void* context = nullptr;
  if (const int refused = api.init(1, &context); refused != kNetSuccess) {
    report.refusal = refusal_of(refused);
    return kNetSuccess;
  }
  int count = 0;
  int result = api.devices(&count);
  for (int index = 0; index < count && result == kNetSuccess; ++index) {
    Rail& rail = report.rails.emplace_back();
    rail.index = index;
    result = api.properties(index, &rail.properties);
  }
  const int closed = api.finalize(context);
  return result != kNetSuccess ? result : closed;
}

}  // namespace

int read_rails(driver::NetApi& api, Report& report) {
  report.plugin = std::string(api.name()) + " (ncclNet v" + std::to_string(api.version()) + ")";
  if (const int result = ask(api, report); result != kNetSuccess) return result;
  const std::vector<std::string> lines = PluginLog::instance().texts();
  report.notes = port_notes(lines);
  for (const std::string& line : lines) {
    std::optional<RailLine> parsed = parse_rail_line(line);
    const auto at = static_cast<std::size_t>(parsed ? parsed->index : -1);
    if (at < report.rails.size() && parsed->name == report.rails[at].properties.name)
      report.rails[at].line = std::move(parsed);
  }
  return kNetSuccess;
}

}  // namespace mesh::rails
