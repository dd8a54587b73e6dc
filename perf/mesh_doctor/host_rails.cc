#include "perf/mesh_doctor/host_rails.h"

#include "src/base/socket.h"
#include "src/topo/subnet.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace mesh::engine {

static void to_json(nlohmann::json& json, const WireAddress& address) {
  json = {{"gid", address.gid}, {"prefix", address.prefix_len}};
}
static void from_json(const nlohmann::json& json, WireAddress& address) {
  json.at("gid").get_to(address.gid);
  json.at("prefix").get_to(address.prefix_len);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WireRail, addresses, ethernet, port, mtu, up, leaves_site,
                                   identity, speed_mbps, guid, name)

}  // namespace mesh::engine

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;

topo::SubnetMember member_of(const engine::WireRail& rail) {
  const engine::WireAddress& first = rail.addresses.front();
  return {SocketAddress::from_gid(first.gid), first.prefix_len};
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RailPace, bus_gbps, known)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostRails, host, site, soft, rails, paces)

std::string to_text(const HostRails& rails) {
  return Json(rails).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<HostRails> rails_from(const std::string& text) {
  try {
    HostRails rails = Json::parse(text).get<HostRails>();
    const bool whole =
        rails.paces.size() == rails.rails.size() &&
        std::none_of(rails.rails.begin(), rails.rails.end(),
                     [](const engine::WireRail& each) { return each.addresses.empty(); });
    if (whole) return rails;
  } catch (const Json::exception&) {
    return Errc::Protocol;
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

}  // namespace mesh::doctor
