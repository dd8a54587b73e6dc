#include "perf/mesh_rails/report.h"

#include "perf/driver/plugin_log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

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

constexpr std::size_t kColumns = 9;
using Cells = std::array<std::string, kColumns>;

// Writes enough digits to tell 2.5 from 25, and no more.
std::string speed_text(int mbps) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", mbps / 1000.0);
  return text.data();
}

std::string guid_text(std::uint64_t guid) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(guid));
  return text.data();
}

// Returns a rail's rows. The first has everything; the others have its other addresses.
std::vector<Cells> rows_of(const Rail& rail) {
  Cells first{std::to_string(rail.index),
              rail.properties.name,
              "?",
              "?",
              speed_text(rail.properties.speed_mbps),
              "?",
              "?",
              "?",
              guid_text(rail.properties.guid)};
  if (!rail.line) return {first};
  first[5] = std::to_string(rail.line->mtu);
  first[6] = rail.line->numa_node < 0 ? "none" : std::to_string(rail.line->numa_node);
  first[7] = rail.line->pci;
  std::vector<Cells> rows{first};
  for (std::size_t i = 0; i < rail.line->addresses.size(); ++i) {
    if (i > 0) rows.emplace_back();
    rows.back()[2] = rail.line->addresses[i].address;
    rows.back()[3] =
        rail.line->gid_type + " at " + std::to_string(rail.line->addresses[i].gid_index);
  }
  return rows;
}

std::array<std::size_t, kColumns> widths_of(const std::vector<Cells>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Cells& cells : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  return widths;
}

// Returns an empty text if nothing is known of any rail.
std::string ways_table(const Report& report) {
  std::string text;
  for (const Rail& rail : report.rails)
    text += ways_text(report.host, rail.ways, rail.properties.name);
  if (text.empty()) return text;
  return "ways within this host: kind, NCCL's class, width, to\n" + text;
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
    for (Rail& rail : report.rails)
      if (rail.line) add_other_addresses(line, *rail.line);
  }
  return kNetSuccess;
}

std::string table(const Report& report) {
  std::vector<Cells> rows{{"#", "rail", "address", "GID", "Gb/s", "MTU", "NUMA", "PCI", "guid"}};
  for (const Rail& rail : report.rails) {
    for (Cells& cells : rows_of(rail)) rows.push_back(std::move(cells));
  }
  const auto widths = widths_of(rows);
  std::string text = report.plugin + "\n";
  if (report.rails.empty()) rows.clear();
  for (const Cells& cells : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i)
      line += cells[i] + std::string(widths[i] + 2 - cells[i].size(), ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& note : report.notes) text += note + "\n";
  return text + ways_table(report);
}

std::string json(const Report& report) {
  nlohmann::ordered_json root;
  root["plugin"] = report.plugin;
  root["rails"] = nlohmann::ordered_json::array();
  for (const Rail& rail : report.rails) {
    nlohmann::ordered_json each{{"index", rail.index},
                                {"name", rail.properties.name},
                                {"port", rail.properties.port},
                                {"speed_mbps", rail.properties.speed_mbps},
                                {"pci_path", rail.properties.pci_path},
                                {"guid", guid_text(rail.properties.guid)}};
    if (rail.line) {
      each["mtu"] = rail.line->mtu;
      each["numa_node"] = rail.line->numa_node;
      each["gid_type"] = rail.line->gid_type;
      for (const GidAddress& one : rail.line->addresses)
        each["addresses"].push_back({{"address", one.address}, {"gid_index", one.gid_index}});
    }
    add_ways(report.host, rail.ways, each);
    root["rails"].push_back(std::move(each));
  }
  root["notes"] = report.notes;
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mesh::rails
