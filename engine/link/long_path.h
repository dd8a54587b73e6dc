#pragma once
// What is different for a link between two sites, whose paths are long: how much may be in flight,
// and how long to wait. Within a site nothing of this applies. Thread: any (pure).

#include <mesh/policy.h>

#include <cstdint>
#include <string>

namespace mesh::engine {

// A link between two sites, as one side sees it.
struct SiteCrossing {
  std::string own, peer;            // their names; empty: unknown, or none is named
  std::uint64_t round_trip_ns = 0;  // the longest that was measured; 0: none was
  bool apart() const noexcept { return !own.empty() && !peer.empty() && own != peer; }
};

// Why hosts with these sites may not connect: one of them names none. Empty: they may.
std::string site_refusal(const std::string& own_host, const std::string& own_site,
                         const std::string& peer_host, const std::string& peer_site);

// Announcements or work requests outstanding on a queue pair. limit: the device's; 0: unknown.
std::uint32_t long_depth(std::uint32_t usual, int limit);

// Bytes in flight on a path: what a path within a site has, behind what is on the way for a round
// trip at the port's speed. The usual ones if the job has set them, or if speed or round trip are
// not known.
struct LongPath {
  std::uint32_t speed_mbps = 0;
  std::uint64_t round_trip_ns = 0;
  std::uint64_t usual_inflight_bytes = 0;
};
std::uint64_t long_inflight_bytes(const TransferPolicy& policy, const LongPath& path);

// NCCL_IB_TIMEOUT, or the least value with which a try outlasts eight round trips. 0 stays: for
// ever.
int long_ack_timer(int usual, std::uint64_t round_trip_ns);

// NCCL_MESH_PATH_TIMEOUT and a hundred round trips.
std::uint64_t long_path_timeout_ns(std::uint64_t usual_ns, std::uint64_t round_trip_ns);

}  // namespace mesh::engine
