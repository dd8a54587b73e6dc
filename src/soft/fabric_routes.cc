#include "src/soft/fabric_routes.h"

#include "src/base/check.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace mesh::soft {

verbs::Route FabricRoutes::route(const verbs::GidEntry& from, const ibv_gid& to) const {
  NicRef own, peer;
  if (!fabric_.find_gid(from.gid, &own) || own.host != host_) return {};
  if (!fabric_.find_gid(to, &peer)) return {.kind = verbs::RouteKind::None, .netdev = ""};
  if (fabric_.joins(fabric_.nic(own), fabric_.nic(peer)))
    return {.kind = verbs::RouteKind::ByPort, .netdev = ""};
  for (const NicSpec& nic : fabric_.hosts[static_cast<std::size_t>(host_)].nics) {
    if (fabric_.joins(nic, fabric_.nic(peer)))
      return {.kind = verbs::RouteKind::Elsewhere, .netdev = nic.name};
  }
  return {.kind = verbs::RouteKind::None, .netdev = ""};
}

int FabricRoutes::resolve(const NicRef& own, const ibv_ah_attr& address, Destination* to) const {
  const NicSpec& nic = fabric_.nic(own);
  const bool global = address.is_global != 0;
  if (nic.layer != LinkLayer::Ethernet)
    return !global && nic.global_header ? EINVAL : resolve_lid(own, address, to);
  // An address that nothing answers to, on our link or behind a router, ends in a timeout.
  if (!global) return EINVAL;
  if (!fabric_.find_gid(address.grh.dgid, &to->nic)) return ETIMEDOUT;
  DCHECK(to->nic.host >= 0 && to->nic.nic >= 0);
  if (to->nic.host == own.host && to->nic.nic == own.nic) return 0;
  return fabric_.joins(nic, fabric_.nic(to->nic)) ? 0 : ETIMEDOUT;
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
  if (address.is_global == 0 || !fabric_.find_gid(address.grh.dgid, &far)) return 0;
  const bool behind_router = fabric_.nic(far).link != nic.link;
  if (behind_router && fabric_.joins(nic, fabric_.nic(far)))
    *to = {.nic = far, .lid = 0, .nobody = false};
  return 0;
}

}  // namespace mesh::soft
