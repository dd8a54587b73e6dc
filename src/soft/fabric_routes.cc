#include "src/soft/fabric_routes.h"

#include "src/soft/fabric_nics.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace mesh::soft {

namespace {
bool equal(const ibv_gid& a, const ibv_gid& b) noexcept {
  return std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
}
}  // namespace

verbs::Route FabricRoutes::route(const verbs::GidEntry& from, const ibv_gid& to) const {
  const std::vector<NicSpec>& nics = fabric_.hosts[static_cast<std::size_t>(host_)].nics;
  const auto own = std::find_if(nics.begin(), nics.end(), [&from](const NicSpec& nic) {
    return std::memcmp(nic.gid.raw, from.gid.raw, sizeof nic.gid.raw) == 0 &&
           (from.netdev.empty() || nic.name == from.netdev);
  });
  if (own == nics.end()) return {};
  NicRef peer;
  // The kernel's table has no cables: it takes all addresses of the port's subnet for neighbours.
  if (fabric_.find_joined(*own, to, &peer) || on_link(*own, to))
    return {.kind = verbs::RouteKind::ByPort, .netdev = ""};
  for (const NicSpec& nic : nics) {
    if (fabric_.find_joined(nic, to, &peer))
      return {.kind = verbs::RouteKind::Elsewhere, .netdev = nic.name};
  }
  return {.kind = verbs::RouteKind::None, .netdev = ""};
}

int FabricRoutes::resolve(const NicRef& own, const ibv_ah_attr& address, Destination* to) const {
  const NicSpec& nic = fabric_.nic(own);
  const bool global = address.is_global != 0;
  if (nic.layer != LinkLayer::Ethernet)
    return !global && nic.global_header ? EINVAL : resolve_lid(own, address, to);
  if (!global) return EINVAL;
  const ibv_gid& gid = address.grh.dgid;
  *to = {.nic = own};
  if (equal(nic.gid, gid) || equal(link_local_gid(nic), gid)) return 0;
  if (fabric_.find_joined(nic, gid, &to->nic) || find_link_local(own, gid, &to->nic)) return 0;
  to->nobody = true;
  // An address that nothing answers to, on our link or behind a router, ends in a timeout.
  return answers_for(own, gid, &to->nic) ? 0 : ETIMEDOUT;
}

// Finds the port on our own link that has the link-local GID. No router passes it on.
bool FabricRoutes::find_link_local(const NicRef& own, const ibv_gid& gid, NicRef* out) const {
  const int link = fabric_.nic(own).link;
  if (link < 0) return false;
  for (const NicRef end : fabric_.links[static_cast<std::size_t>(link)].ends) {
    if (end == own || !equal(link_local_gid(fabric_.nic(end)), gid)) continue;
    *out = end;
    return true;
  }
  return false;
}

// Finds the NIC with an IPv4 address of our subnet, on another cable of a host on our link. IPv6
// hosts answer only for the addresses of the port that was asked.
bool FabricRoutes::answers_for(const NicRef& own, const ibv_gid& gid, NicRef* out) const {
  const NicSpec& nic = fabric_.nic(own);
  if (!nic.ipv4 || nic.link < 0 || !on_link(nic, gid)) return false;
  for (const NicRef end : fabric_.links[static_cast<std::size_t>(nic.link)].ends) {
    const std::vector<NicSpec>& nics = fabric_.hosts[static_cast<std::size_t>(end.host)].nics;
    for (std::size_t i = 0; end.host != own.host && i < nics.size(); ++i) {
      if (std::memcmp(nics[i].gid.raw, gid.raw, sizeof gid.raw) != 0) continue;
      *out = {end.host, static_cast<int>(i)};
      return true;
    }
  }
  return false;
}

// Finds the NIC by its LID. Nothing is asked on the way: what is sent to a LID that no port has, or
// to an address behind no router, is lost.
int FabricRoutes::resolve_lid(const NicRef& own, const ibv_ah_attr& address,
                              Destination* to) const {
  const NicSpec& nic = fabric_.nic(own);
  *to = {.nic = own, .lid = 0, .nobody = true};
  if (nic.link < 0) return 0;
  for (const NicRef end : fabric_.links[static_cast<std::size_t>(nic.link)].ends) {
    if (fabric_.nic(end).lid != (address.dlid & kLidsMax)) continue;
    const ibv_gid& gid = fabric_.nic(end).gid;
    if (address.is_global != 0 && std::memcmp(gid.raw, address.grh.dgid.raw, sizeof gid.raw) != 0)
      continue;
    *to = {.nic = end, .lid = address.dlid, .nobody = false};
    return 0;
  }
  NicRef far;
  if (address.is_global == 0 || !fabric_.find_joined(nic, address.grh.dgid, &far)) return 0;
  if (fabric_.nic(far).link != nic.link) *to = {.nic = far, .lid = 0, .nobody = false};
  return 0;
}

}  // namespace mesh::soft
