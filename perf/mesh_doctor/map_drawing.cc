#include "perf/mesh_doctor/map.h"

#include "perf/driver/text_table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mesh::doctor {
namespace {

constexpr std::size_t kPeersShown = 8;  // of one port, on a switch

std::string peers_text(const Cabling& cabling, const End& end) {
  const std::vector<End> others = cabling.met_by(end);
  if (others.empty()) return "-";
  std::string text;
  for (std::size_t i = 0; i < std::min(others.size(), kPeersShown); ++i)
    text += (i == 0 ? "" : ", ") + cabling.text(others[i]);
  if (others.size() > kPeersShown) text += fmt::format(", {} more", others.size() - kPeersShown);
  return text;
}

std::string speed_text(const engine::WireRail& rail) {
  return rail.up == 0 ? "down" : fmt::format("{:g} Gb/s", rail.speed_mbps / 1000.0);
}

std::string rate(double gbps) { return fmt::format("{:.3g}", gbps); }

std::string step_text(const Cabling& cabling, const Step& step) {
  const Cable& cable = cabling.cables[step.cable];
  if (step.half) return cabling.text(cable.halves[*step.half]);
  if (cable.halves.size() == 1) return cabling.text(cable);
  return fmt::format("{} -- {}, both halves", cabling.hosts[cable.a()].host,
                     cabling.hosts[cable.b()].host);
}

std::array<std::string, 5> rate_row(const Cabling& cabling, const Measured& measured) {
  std::array<std::string, 5> row{step_text(cabling, measured.step), "-", "-", "-", "-"};
  const double expected = expected_gbps(cabling, measured.step);
  if (expected > 0) row[3] = rate(expected);
  if (!measured.passed()) {
    row[1] = "nothing passed";
    return row;
  }
  row[1] = rate(measured.to_b_gbps());
  row[2] = rate(measured.to_a_gbps());
  row[4] = fmt::format("{:.1f}", measured.at_a.latency_us);
  return row;
}

}  // namespace

std::string map_text(const Cabling& cabling) {
  std::string text =
      "# Ports that meet, one pair a line: HOST/PORT HOST/PORT (mesh_doctor --expect FILE)\n";
  for (const Cable& cable : cabling.cables) {
    for (const Half& half : cable.halves)
      text += fmt::format("{} {}\n", cabling.text(half.a), cabling.text(half.b));
  }
  return text;
}

std::string map_section(const MapView& view) {
  const Cabling& cabling = view.cabling;
  driver::Rows<6> rows{{"host", "port", "address", "speed", "MTU", "meets"}};
  for (std::size_t host = 0; host < cabling.hosts.size(); ++host) {
    const HostRails& each = cabling.hosts[host];
    for (std::size_t i = 0; i < each.rails.size(); ++i) {
      const engine::WireRail& rail = each.rails[i];
      rows.push_back({i == 0 ? each.host : "", rail.name, address_of(rail), speed_text(rail),
                      std::to_string(mtu_bytes(rail.mtu)), peers_text(cabling, {host, i})});
    }
    if (each.rails.empty()) rows.push_back({each.host, "no rail", "", "", "", ""});
  }
  return "Cabling map: each port, and the port at the other end\n" + driver::text_table(rows, "  ");
}

std::string rates_section(const MapView& view) {
  if (view.measured.empty()) return {};
  driver::Rows<5> rows{{"A -- B", "A to B", "B to A", "expected", "latency us"}};
  for (const Measured& each : view.measured) rows.push_back(rate_row(view.cabling, each));
  return "Cables, both directions at once, Gb/s of payload\n" + driver::text_table(rows, "  ");
}

nlohmann::ordered_json cables_json(const MapView& view) {
  using Json = nlohmann::ordered_json;
  Json cables = Json::array();
  for (std::size_t i = 0; i < view.cabling.cables.size(); ++i) {
    Json cable{{"halves", Json::array()}, {"measured", Json::array()}};
    for (const Half& half : view.cabling.cables[i].halves) {
      cable["halves"].push_back({{"a", view.cabling.text(half.a)},
                                 {"b", view.cabling.text(half.b)},
                                 {"mtu", half.mtu},
                                 {"up", half.up}});
    }
    for (const Measured& each : view.measured) {
      if (each.step.cable != i) continue;
      const double expected = expected_gbps(view.cabling, each.step);
      Json one{{"half", nullptr},
               {"passed", each.passed()},
               {"a_to_b_gbps", each.to_b_gbps()},
               {"b_to_a_gbps", each.to_a_gbps()},
               {"expected_gbps", nullptr},
               {"latency_us", each.at_a.latency_us}};
      if (each.step.half) one["half"] = *each.step.half;
      if (expected > 0) one["expected_gbps"] = expected;
      cable["measured"].push_back(std::move(one));
    }
    cables.push_back(std::move(cable));
  }
  return cables;
}

}  // namespace mesh::doctor
