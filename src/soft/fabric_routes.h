#pragma once
// Finds the NIC to which an address leads, seen from one host: as its kernel resolves it on
// Ethernet, and as LIDs and global headers do on InfiniBand. As in Linux by default, a host answers
// for each of its IPv4 addresses on each of its ports, so a neighbour's address is resolved over a
// wrong cable, too. What is sent there is lost. Thread: any (immutable). Bound: the fabric file's.

#include "src/soft/fabric_file.h"
#include "src/verbs/provider.h"

#include <cstdint>

namespace mesh::soft {

struct Destination {
  NicRef nic;
  std::uint16_t lid = 0;  // InfiniBand, in our own link
  bool nobody = false;    // what is sent there is lost
};

class FabricRoutes {
 public:
  FabricRoutes(const FabricFile& fabric, int host) : fabric_(fabric), host_(host) {}

  verbs::Route route(const verbs::GidEntry& from, const ibv_gid& to) const;
  // Returns 0, or an errno value as modify_qp would.
  int resolve(const NicRef& own, const ibv_ah_attr& address, Destination* to) const;

 private:
  bool find_link_local(const NicRef& own, const ibv_gid& gid, NicRef* out) const;
  bool answers_for(const NicRef& own, const ibv_gid& gid, NicRef* out) const;
  int resolve_lid(const NicRef& own, const ibv_ah_attr& address, Destination* to) const;

  const FabricFile& fabric_;
  const int host_;
};

}  // namespace mesh::soft
