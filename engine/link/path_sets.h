#pragma once
// Chooses the paths of one link among all that two hosts could have. NCCL names a device when it
// connects, and named one on the peer when it listened. The cable between the two carries the link
// (the primary paths), and other paths stand by. Both sides compute this alike from HELLO and
// WELCOME, so the set of primary paths is a link's key: connects with one set share a link. Thread:
// any (values). Bound: kPathsMax paths of both classes together.

#include "engine/control/frames.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh::engine {

struct PathSets {
  // Both lists are without queue pairs. Primary is empty only if no rails meet, or if only the
  // asked cable may be used and meets nothing.
  std::vector<WirePath> primary, standby;
};
// `meet`: every pair of rails that meet, in the order of choose_paths(). A cable is all rails of
// one guid and port, such as both PCIe halves. Primary is the asked cable to the cable listened on.
// If these do not meet, it is the asked cable to whatever it meets; if that is nothing, all that
// meet. RailsWish::Asked stops before the last step and leaves no standby path; with RailsWish::All
// everything that meets is primary. Primary paths of the asked rail come first, and paths with a
// port that is down last. Standby paths are in the order of their use: first those that share
// neither end's cable with a primary path, then the faster ones, then the rails that follow the
// asked one, so that links of several rails do not all lean on one.
PathSets path_sets(std::span<const WirePath> meet, const std::vector<WireRail>& connector_rails,
                   const std::vector<WireRail>& acceptor_rails, const AskedRails& asked);

// The pairs of rails of a link's primary paths, sorted: connector's rail, acceptor's rail.
using PathKey = std::vector<std::pair<std::uint8_t, std::uint8_t>>;
PathKey key_of(std::span<const WirePath> primary);

// Returns true if both rails of a host belong to one cable.
bool same_cable(const std::vector<WireRail>& rails, std::size_t a, std::size_t b);

// Returns true if some of these paths are halves of one cable of either host.
bool has_halves(std::span<const WirePath> paths, const std::vector<WireRail>& connector_rails,
                const std::vector<WireRail>& acceptor_rails);

// Reads a value of NCCL_MESH_RAILS.
RailsWish rails_wish(std::string_view setting);

}  // namespace mesh::engine
