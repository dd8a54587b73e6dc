#pragma once
// The numbers that decide how messages are cut, signaled and inlined. The engine obeys them and
// never computes them; tuning/ does, from traits and settings. Immutable once a context has it.
// Thread: any (values). Sizes in bytes, depths in work requests.

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

inline constexpr std::uint32_t kStripeAlign =
    128;  // LL128 needs 128-byte lines whole (NCCL device.h:101)
inline constexpr std::uint32_t kPathsMax =
    8;  // a peer link's paths; a credit row carries one rkey per peer rail
inline constexpr std::uint32_t kQpsMax = 32;     // bulk queue pairs per path
inline constexpr std::uint32_t kSlotsMax = 256;  // the immediate's slot field has 8 bits
inline constexpr std::uint32_t kChannelsMax =
    8191;  // the immediate's channel field has 13 bits; its last value is nobody's

struct TransferPolicy {
  std::uint32_t qps = 4;  // bulk queue pairs per path
  std::uint32_t signal_interval =
      16;                            // within a doorbell chain, every n-th work request is signaled
  std::uint32_t inline_bytes = 220;  // wanted; lowered to what the device grants
  std::uint32_t slots = 32;          // per channel, a power of two
  std::uint32_t batch =
      4;  // requests of a channel that may wait for one doorbell; 1: each is posted at once
  std::uint32_t rq_depth = 256;        // announcement window per queue pair, a power of two
  std::uint32_t sq_depth = 256;        // send queue per queue pair, a power of two
  std::uint64_t express_bytes = 8192;  // up to here: express queue pair
  std::uint64_t stripe_bytes =
      65536;  // up to here: one bulk queue pair; above: stripes of at least this
  std::uint64_t wr_bytes =
      524288;  // no work request is larger (1 MiB ones lose 28 % on one queue pair at 400 G)
  std::uint64_t inflight_bytes = 8388608;  // per path, at most
  std::uint32_t inflight_us =
      0;  // and no more than its port carries in this time, but one work request; 0: no such limit
};

// What tuning looks at when it derives a policy: the rails of this host, the worst of them where
// they differ. 0 or empty: not told.
struct FabricTraits {
  std::string fabric;                // "rdma" or "soft"
  std::vector<std::string> devices;  // in use, sorted
  std::uint32_t rails = 0;           // ports of these devices, as PCIe functions show them
  std::uint32_t rails_per_cable =
      0;  // most of them that are one port: 2 where a cable is shown once per PCIe half
  std::uint32_t speed_mbps = 0;         // of the slowest port
  std::uint32_t mtu = 0;                // smallest path MTU
  std::uint32_t inline_bytes_max = 0;   // granted by the devices
  std::uint32_t qp_wr_max = 0;          // device limit on a send queue
  std::uint32_t message_bytes_max = 0;  // of one work request
};

}  // namespace mesh
