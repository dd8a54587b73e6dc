#pragma once
// Which of the paths that two hosts could have make up one link. NCCL names a device when it
// connects, and the peer named one when it listened. The cable between the two carries the link
// (the primary paths), and what else meets stands by. Both sides compute this alike from what HELLO
// and WELCOME say, so that the set of primary paths is a link's key: connects with one set share a
// link. Thread: any (values). Bound: kPathsMax paths of both classes together.

#include "engine/control/frames.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh::engine {

struct PathSets {
  // Both without queue pairs. Primary is empty only where nothing meets, or where only the asked
  // cable may be used and meets nothing.
  std::vector<WirePath> primary, standby;
};
// meet: every pair of rails that meet, in the order of choose_paths(). A cable is all rails of one
// guid and port, such as both PCIe halves. Primary is the asked cable to the cable listened on. If
// these do not meet: the asked cable to whatever it meets. If that is nothing: all that meet.
// RailsWish::Asked stops before the last step and leaves nothing to stand by; with RailsWish::All
// everything that meets is primary. The rails asked for come first, and paths with a port that is
// down last. What stands by is in the order in which it is used: what needs neither end's cable of
// the primary ones first, then the faster ones, then the rails that follow the asked one, so that
// links of several rails do not all lean on the same.
PathSets path_sets(std::span<const WirePath> meet, const std::vector<WireRail>& connector_rails,
                   const std::vector<WireRail>& acceptor_rails, const AskedRails& asked);

// The rails of a link's primary paths, in order: connector's and acceptor's.
using PathKey = std::vector<std::pair<std::uint8_t, std::uint8_t>>;
PathKey key_of(std::span<const WirePath> primary);

// All rails of a host that one cable of it has.
bool same_cable(const std::vector<WireRail>& rails, std::size_t a, std::size_t b);

// Whether some of these paths are halves of one cable, of either host's.
bool has_halves(std::span<const WirePath> paths, const std::vector<WireRail>& connector_rails,
                const std::vector<WireRail>& acceptor_rails);

// Of NCCL_MESH_RAILS.
RailsWish rails_wish(std::string_view setting);

}  // namespace mesh::engine
