#include "engine/link/long_path.h"

#include "src/base/timeouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace mesh::engine {

namespace {
// 8 times the default. 4 queue pairs with stripes of 64 KiB then hold 512 MiB, which a path of 100
// Gb/s carries in 43 ms.
constexpr std::uint32_t kLongDepth = 2048;
constexpr std::uint64_t kTimerRoundTrips = 8;
constexpr std::uint64_t kTimeoutRoundTrips = 100;
constexpr int kAckTimerMax = 31;
}  // namespace

std::string site_refusal(const std::string& own_host, const std::string& own_site,
                         const std::string& peer_host, const std::string& peer_site) {
  if (own_site.empty() == peer_site.empty()) return {};
  const bool own = !own_site.empty();
  return fmt::format(
      "host {} is at site {} and host {} names none: set NCCL_MESH_SITE on every host or on none",
      own ? own_host : peer_host, own ? own_site : peer_site, own ? peer_host : own_host);
}

std::uint32_t long_depth(std::uint32_t usual, int limit) {
  const std::uint32_t wanted = std::max(usual, kLongDepth);
  if (limit <= 0) return wanted;
  return std::max(std::min(wanted, std::bit_floor(static_cast<std::uint32_t>(limit))), usual);
}

std::uint64_t long_inflight_bytes(const TransferPolicy& policy, const LongPath& path) {
  if (policy.inflight_us == 0 || path.speed_mbps == 0) return path.usual_inflight_bytes;
  // Mb/s times us gives bits.
  return path.usual_inflight_bytes + path.round_trip_ns / 1000 * path.speed_mbps / 8;
}

int long_ack_timer(int usual, std::uint64_t round_trip_ns) {
  if (usual == 0) return 0;
  const std::uint64_t units = kTimerRoundTrips * round_trip_ns / kAckTimerUnitNs;
  return std::clamp(static_cast<int>(std::bit_width(units)), usual, std::max(usual, kAckTimerMax));
}

std::uint64_t long_path_timeout_ns(std::uint64_t usual_ns, std::uint64_t round_trip_ns) {
  return usual_ns + kTimeoutRoundTrips * round_trip_ns;
}

}  // namespace mesh::engine
