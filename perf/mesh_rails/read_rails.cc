#include "perf/mesh_rails/read_rails.h"

#include "perf/driver/plugin_log.h"

namespace mesh::rails {
namespace {

using driver::kNetSuccess;

int ask(driver::NetApi& api, Report& report) {
  void* context = nullptr;
  if (api.init(1, &context) != kNetSuccess) return kNetSuccess;
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
  const std::vector<std::string> lines = driver::PluginLog::instance().texts();
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
