#include "perf/mesh_rails/report.h"

#include "perf/driver/text_table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

namespace mesh::rails {
namespace {

using driver::kNetSuccess;

// Returns true if the plugin has looked at all ports and found no rail.
bool found_none(const Snapshot& snapshot) {
  return snapshot.start == errc_name(Errc::NotFound) && !snapshot.fabric.empty();
}

std::string refusal_of(int result, const Snapshot& snapshot) {
  if (found_none(snapshot) || !snapshot.no_rdma.empty()) return {};
  std::string why = driver::net_result_name(result);
  for (const std::string& line : snapshot.warnings) why += "; " + line;
  return why;
}

std::string text_of(const std::vector<RefusedPort>& ports) {
  std::string text;
  for (const RefusedPort& each : ports)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.port, each.reason);
  return text.empty() ? "there is no device" : text;
}

int ask(driver::NetApi& api, Report& report) {
  void* context = nullptr;
  if (const int refused = api.init(1, &context); refused != kNetSuccess) {
    report.snapshot = api.snapshot();
    report.refusal = refusal_of(refused, report.snapshot);
    return kNetSuccess;
  }
  int count = 0;
  int result = api.devices(&count);
  for (int index = 0; index < count && result == kNetSuccess; ++index) {
    Rail& rail = report.rails.emplace_back();
    rail.index = index;
    result = api.properties(index, &rail.properties);
  }
  report.snapshot = api.snapshot();
  const int closed = api.finalize(context);
  return result != kNetSuccess ? result : closed;
}

using Rows = driver::Rows<9>;

std::string guid_text(std::uint64_t guid) { return fmt::format("{:016x}", guid); }

// Returns a rail's rows. The first has everything; the others have its other addresses.
Rows rows_of(const Rail& rail) {
  Rows::value_type first{std::to_string(rail.index),
                         rail.properties.name,
                         "?",
                         "?",
                         fmt::format("{:g}", rail.properties.speed_mbps / 1000.0),
                         "?",
                         "?",
                         "?",
                         guid_text(rail.properties.guid)};
  if (!rail.known) return {first};
  first[5] = std::to_string(rail.known->mtu);
  first[6] = rail.known->numa_node < 0 ? "none" : std::to_string(rail.known->numa_node);
  first[7] = rail.known->pci.empty() ? "none" : rail.known->pci;
  Rows rows{first};
  for (std::size_t i = 0; i < rail.known->addresses.size(); ++i) {
    if (i > 0) rows.emplace_back();
    rows.back()[2] = rail.known->addresses[i].address;
    rows.back()[3] =
        rail.known->gid_type + " at " + std::to_string(rail.known->addresses[i].gid_index);
  }
  return rows;
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
  report.notes = notes_of(report.snapshot);
  for (Rail& rail : report.rails) {
    const auto& known = report.snapshot.engine.rails;
    const auto found = std::find_if(known.begin(), known.end(), [&rail](const RailSnapshot& each) {
      return each.offered && each.name == rail.properties.name;
    });
    if (found != known.end()) rail.known = *found;
  }
  return kNetSuccess;
}

// A setting that leaves out every port has its own warning.
std::vector<std::string> notes_of(const Snapshot& snapshot) {
  if (!snapshot.no_rdma.empty()) return {"no RDMA: " + snapshot.no_rdma};
  const EngineSnapshot& shot = snapshot.engine;
  const auto left_out = [](const RefusedPort& port) { return port.kind == RefusalKind::LeftOut; };
  if (found_none(snapshot)) {
    const bool all = !shot.refused_ports.empty() &&
                     std::all_of(shot.refused_ports.begin(), shot.refused_ports.end(), left_out);
    if (all) return {};
    return {fmt::format("no usable rail on {} (fabric {}): {}", shot.host, snapshot.fabric,
                        text_of(shot.refused_ports))};
  }
  std::vector<std::string> notes;
  if (!shot.refused_ports.empty())
    notes.push_back("ports not used: " + text_of(shot.refused_ports));
  for (std::size_t i = 0; i < shot.rails.size(); ++i) {
    if (shot.rails[i].offered) continue;
    notes.push_back(
        fmt::format("rail {} {}: {}, its port is down; it takes its place when it comes up", i,
                    shot.rails[i].name, shot.rails[i].address));
  }
  notes.insert(notes.end(), shot.notes.begin(), shot.notes.end());
  return notes;
}

std::string table(const Report& report) {
  Rows rows{{"#", "rail", "address", "GID", "Gb/s", "MTU", "NUMA", "PCI", "guid"}};
  for (const Rail& rail : report.rails) {
    for (auto& row : rows_of(rail)) rows.push_back(std::move(row));
  }
  std::string text = report.plugin + "\n";
  if (!report.rails.empty()) text += driver::text_table(rows);
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
    if (rail.known) {
      each["mtu"] = rail.known->mtu;
      each["numa_node"] = rail.known->numa_node;
      each["gid_type"] = rail.known->gid_type;
      for (const AddressSnapshot& one : rail.known->addresses)
        each["addresses"].push_back({{"address", one.address}, {"gid_index", one.gid_index}});
    }
    add_ways(report.host, rail.ways, each);
    root["rails"].push_back(std::move(each));
  }
  root["notes"] = report.notes;
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mesh::rails
