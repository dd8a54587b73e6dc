#pragma once
// Limits and timers of a link between two sites, whose paths are long: how much may be in flight,
// and how long to wait. Nothing here applies within a site. Thread: any (pure).

#include <mesh/policy.h>

#include <cstdint>
#include <string>

namespace mesh::engine {

// A link between two sites, as one side sees it.
struct SiteCrossing {
  std::string own, peer;            // site names; empty: unknown, or the host names none
  std::uint64_t round_trip_ns = 0;  // the longest one measured; 0: none was
  bool apart() const noexcept { return !own.empty() && !peer.empty() && own != peer; }
};

// Returns why these hosts may not connect, which is that one names no site; empty if they may.
std::string site_refusal(const std::string& own_host, const std::string& own_site,
                         const std::string& peer_host, const std::string& peer_site);

// Returns how many announcements or work requests may be outstanding on a queue pair. `limit` is
// the device's; 0 means unknown.
std::uint32_t long_depth(std::uint32_t usual, int limit);

// Returns the bytes in flight on a path: those of a path within a site, plus a round trip's worth
// at the port's speed. Only the usual ones if the job has set them, or if speed or round trip are
// not known.
struct LongPath {
  std::uint32_t speed_mbps = 0;
  std::uint64_t round_trip_ns = 0;
  std::uint64_t usual_inflight_bytes = 0;
};
std::uint64_t long_inflight_bytes(const TransferPolicy& policy, const LongPath& path);

// Returns NCCL_IB_TIMEOUT, or if that is less, the least value with which a try outlasts eight
// round trips. 0, which means for ever, stays 0.
int long_ack_timer(int usual, std::uint64_t round_trip_ns);

// Returns NCCL_MESH_PATH_TIMEOUT plus a hundred round trips.
std::uint64_t long_path_timeout_ns(std::uint64_t usual_ns, std::uint64_t round_trip_ns);

}  // namespace mesh::engine
