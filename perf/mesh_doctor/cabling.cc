#include "perf/mesh_doctor/cabling.h"

#include "src/base/socket.h"
#include "src/topo/pairing.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace mesh::engine {

static void to_json(nlohmann::json& json, const WireAddress& address) {
  json = {{"gid", address.gid}, {"prefix", address.prefix_len}};
}
static void from_json(const nlohmann::json& json, WireAddress& address) {
  json.at("gid").get_to(address.gid);
  json.at("prefix").get_to(address.prefix_len);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WireRail, addresses, ethernet, port, mtu, up, leaves_site,
                                   gid_type, partition, identity, speed_mbps, guid, name)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WirePlace, address, ipv4, port)

// As much of a path as a meeting tells.
static void to_json(nlohmann::json& json, const WirePath& path) {
  json = {path.connector_rail, path.acceptor_rail, path.mtu};
}
static void from_json(const nlohmann::json& json, WirePath& path) {
  json.at(0).get_to(path.connector_rail);
  json.at(1).get_to(path.acceptor_rail);
  json.at(2).get_to(path.mtu);
}

}  // namespace mesh::engine

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;

topo::SubnetMember member_of(const engine::WireRail& rail) {
  const engine::WireAddress& first = rail.addresses.front();
  return {SocketAddress::from_gid(first.gid), first.prefix_len};
}

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

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RailPace, bus_gbps, known)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostRails, host, site, host_id, soft, rails, paces, places,
                                   nonce)

std::string to_text(const HostRails& rails) {
  return Json(rails).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<HostRails> rails_from(const std::string& text) {
  try {
    HostRails rails = Json::parse(text).get<HostRails>();
    const bool whole =
        rails.paces.size() == rails.rails.size() && rails.places.size() == rails.rails.size() &&
        std::none_of(rails.rails.begin(), rails.rails.end(),
                     [](const engine::WireRail& each) { return each.addresses.empty(); });
    if (whole) return rails;
  } catch (const Json::exception&) {
  }
  return Errc::Protocol;
}

void tell_apart(std::vector<HostRails>& hosts) {
  std::vector<std::size_t> twins;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto same = [&](const HostRails& other) { return other.host == hosts[i].host; };
    if (std::count_if(hosts.begin(), hosts.end(), same) > 1) twins.push_back(i);
  }
  for (const std::size_t i : twins) hosts[i].host += fmt::format("#{}", i);
}

std::string rail_text(const HostRails& host, std::size_t rail) {
  return host.host + "/" + host.rails[rail].name;
}

std::string address_of(const engine::WireRail& rail) {
  const topo::SubnetMember member = member_of(rail);
  return fmt::format("{}/{}", member.address.text(), member.prefix_len);
}

std::uint32_t mtu_bytes(std::uint8_t code) { return 128u << std::min<unsigned>(code, 5); }

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

engine::Hello hello_of(const HostRails& host) {
  engine::Hello hello;
  hello.host = host.host;
  hello.host_id = host.host_id;
  hello.site = host.site;
  hello.rails = host.rails;
  return hello;
}

Meeting meeting_of(const HostRails& connector, const HostRails& acceptor,
                   const engine::AskRoute& ask, const topo::CableProof* proof) {
  if (connector.rails.empty() || acceptor.rails.empty()) return {};
  return engine::choose_paths(hello_of(connector),
                              {acceptor.rails, acceptor.site, 0, acceptor.host_id}, ask, proof)
      .meet;
}

std::string meetings_text(const std::vector<Meeting>& meetings) { return Json(meetings).dump(); }

Result<std::vector<Meeting>> meetings_from(const std::string& text, std::size_t hosts) {
  try {
    auto meetings = Json::parse(text).get<std::vector<Meeting>>();
    if (meetings.size() == hosts) return meetings;
  } catch (const Json::exception&) {
  }
  return Errc::Protocol;
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
