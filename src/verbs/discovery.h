#pragma once
// Finds the usable rails of this host: devices filtered by NCCL_IB_HCA, active ports, their GIDs
// chosen by type and address (never by a fixed index), subnets and MTU. Thread: any, at start-up.

#include <mesh/config.h>
#include <mesh/engine.h>
#include <mesh/status.h>

#include "src/verbs/handle.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::verbs {

inline constexpr std::size_t kRailsMax =
    64;  // of a host: as many as a peer hears of (engine/control/frames.h)

struct Rail {
  RailInfo info;
  ContextHandle context;  // one open device context per rail, so that rails share nothing
  // At least one, the preferred first; which one speaks to a peer is the pairing's choice.
  // prefix_len is filled, from the net device or NCCL_MESH_PREFIX_LEN.
  std::vector<GidEntry> gids;
  std::uint16_t lid = 0;
  bool ethernet = true;  // link layer
  ibv_mtu active_mtu = IBV_MTU_1024;
  int cq_entries_max = 0;
  int qp_wr_max = 0;
  std::uint32_t message_bytes_max = 0;  // of one work request
};

// At most kRailsMax rails, sorted by device name and port. NotFound: none usable; one INFO line
// says what was looked at and why each fell out.
Result<std::vector<Rail>> discover(Provider& provider, const Settings& settings);

}  // namespace mesh::verbs
