#include "perf/mesh_doctor/cabling.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;

bool of_one_cable(const Cabling& cabling, const Half& one, const Half& other) {
  return engine::same_cable(cabling.hosts[one.a.host].rails, one.a.rail, other.a.rail) &&
         engine::same_cable(cabling.hosts[one.b.host].rails, one.b.rail, other.b.rail);
}

void add_half(Cabling& cabling, std::size_t first_of_pair, const Half& half) {
  for (std::size_t i = first_of_pair; i < cabling.cables.size(); ++i) {
    if (!of_one_cable(cabling, cabling.cables[i].halves.front(), half)) continue;
    cabling.cables[i].halves.push_back(half);
    return;
  }
  cabling.cables.push_back({{half}});
}

void sort_halves(std::vector<Half>& halves) {
  std::sort(halves.begin(), halves.end(), [](const Half& one, const Half& other) {
    return std::pair(one.a, one.b) < std::pair(other.a, other.b);
  });
}

}  // namespace

std::string Cabling::text(const Cable& cable) const { return text(cable.halves.front()); }

std::string Cabling::hosts_of(const Cable& cable) const {
  return hosts[cable.a()].host + " and " + hosts[cable.b()].host;
}

std::vector<End> Cabling::met_by(const End& end) const {
  std::vector<End> ends;
  for (const Cable& cable : cables) {
    for (const Half& half : cable.halves) {
      if (half.a == end) ends.push_back(half.b);
      if (half.b == end) ends.push_back(half.a);
    }
  }
  return ends;
}

std::vector<End> Cabling::ports_of(const End& end) const {
  std::vector<End> ports;
  const std::vector<engine::WireRail>& rails = hosts[end.host].rails;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if (engine::same_cable(rails, end.rail, rail)) ports.push_back({end.host, rail});
  }
  return ports;
}

bool Cabling::joined(std::size_t host, std::size_t other) const {
  const auto joins = [&](const Cable& cable) {
    const bool up = std::any_of(cable.halves.begin(), cable.halves.end(),
                                [](const Half& half) { return half.up; });
    return up && cable.a() == std::min(host, other) && cable.b() == std::max(host, other);
  };
  return std::any_of(cables.begin(), cables.end(), joins);
}

Meeting meeting_of(const HostRails& connector, const HostRails& acceptor,
                   const engine::AskRoute& ask) {
  if (connector.rails.empty() || acceptor.rails.empty()) return {};
  engine::Hello hello;
  hello.host = connector.host;
  hello.site = connector.site;
  hello.rails = connector.rails;
  return engine::choose_paths(hello, {acceptor.rails, acceptor.site}, ask).meet;
}

std::string meetings_text(const std::vector<Meeting>& meetings) {
  Json all = Json::array();
  for (const Meeting& meeting : meetings) {
    Json pairs = Json::array();
    for (const engine::WirePath& path : meeting)
      pairs.push_back({path.connector_rail, path.acceptor_rail, path.mtu});
    all.push_back(std::move(pairs));
  }
  return all.dump();
}

Result<std::vector<Meeting>> meetings_from(const std::string& text, std::size_t hosts) {
  std::vector<Meeting> meetings;
  try {
    for (const Json& pairs : Json::parse(text)) {
      Meeting& meeting = meetings.emplace_back();
      for (const Json& pair : pairs) {
        engine::WirePath& path = meeting.emplace_back();
        path.connector_rail = pair.at(0).get<std::uint8_t>();
        path.acceptor_rail = pair.at(1).get<std::uint8_t>();
        path.mtu = pair.at(2).get<std::uint8_t>();
      }
    }
  } catch (const Json::exception&) {
    return Errc::Protocol;
  }
  if (meetings.size() != hosts) return Errc::Protocol;
  return meetings;
}

Cabling cabling_of(std::vector<HostRails> hosts,
                   const std::vector<std::vector<Meeting>>& meetings) {
  Cabling cabling{.hosts = std::move(hosts), .cables = {}};
  for (std::size_t i = 0; i < cabling.hosts.size(); ++i) {
    for (std::size_t j = i + 1; j < cabling.hosts.size(); ++j) {
      std::vector<Half> halves;
      for (const engine::WirePath& path : meetings[j][i]) {
        if (path.connector_rail >= cabling.hosts[i].rails.size()) continue;  // another host's index
        if (path.acceptor_rail >= cabling.hosts[j].rails.size()) continue;   // is not trusted
        Half& half = halves.emplace_back(Half{.a = {i, path.connector_rail},
                                              .b = {j, path.acceptor_rail},
                                              .mtu = mtu_bytes(path.mtu)});
        half.up = cabling.rail(half.a).up != 0 && cabling.rail(half.b).up != 0;
      }
      sort_halves(halves);
      const std::size_t first = cabling.cables.size();
      for (const Half& half : halves) add_half(cabling, first, half);
    }
  }
  return cabling;
}

}  // namespace mesh::doctor
