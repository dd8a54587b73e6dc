#pragma once
// The numbers that decide how messages are cut, signaled and inlined. tuning/ computes them from
// traits and settings; the engine only obeys them. They never change once a context has them. Sizes
// are in bytes, depths in work requests. Thread: any (values). Bound: the constants below.

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

// LL128 needs 128-byte lines whole (NCCL device.h:101).
inline constexpr std::uint32_t kStripeAlign = 128;
// Paths of a peer link. A CTS entry has one rkey for each path of a tier.
inline constexpr std::uint32_t kPathsMax = 8;
inline constexpr std::uint32_t kQpsMax = 32;     // bulk queue pairs of a path
inline constexpr std::uint32_t kSlotsMax = 256;  // the immediate's slot field has 8 bits
// The immediate's channel field has 13 bits. Its last value belongs to no channel.
inline constexpr std::uint32_t kChannelsMax = 8191;

struct TransferPolicy {
  std::uint32_t qps = 4;  // bulk queue pairs of a path
  // A path that comes up with its link has its express queue pair only, and gets the bulk ones with
  // the first message that wants them. The accepting side decides.
  bool late_qps = false;
  // The bulk queue pairs of a path on a link with several halves of one cable; a half carries half
  // of it.
  std::uint32_t half_qps = 2;
  // Every n-th work request of a doorbell chain is signaled.
  std::uint32_t signal_interval = 16;
  std::uint32_t inline_bytes = 220;  // lowered to what the device grants
  std::uint32_t slots = 32;          // requests in flight on a channel, a power of two
  // Requests of a channel that may wait for one doorbell. 1: each is posted at once.
  std::uint32_t batch = 4;
  std::uint32_t rq_depth = 256;  // announcement window of a queue pair, a power of two
  std::uint32_t sq_depth = 256;  // send queue of a queue pair, a power of two
  // A message up to this size goes over the express queue pair, or over an idle bulk one: see
  // near_bytes.
  std::uint64_t express_bytes = 8192;
  // A message up to this size goes over the express queue pair only. One between the two takes a
  // bulk one while others are under way and no stripe is on the path. At 100 Gb/s and a cap of 64 %
  // this many bytes take 77 ns of the queue pair, and 115 ns of the CPU that posts them.
  std::uint64_t near_bytes = 512;
  // A message up to this size goes over one bulk queue pair, or in halves over two while its path
  // has little in flight. A larger one is cut into stripes that are no smaller.
  std::uint64_t stripe_bytes = 65536;
  // No work request is larger. Those of 1 MiB lose 28 % on one queue pair at 400 Gb/s.
  std::uint64_t wr_bytes = 524288;
  std::uint64_t inflight_bytes = 8388608;  // the most on a path
  // A path has no more in flight than its port carries in this time, but always one work request.
  // The halves of one cable share this limit. 0: there is no such limit.
  std::uint32_t inflight_us = 0;
};

// The traits from which tuning derives a policy: the rails of this host, and the worst rail's value
// where they differ. 0 or empty: unknown.
struct FabricTraits {
  std::string fabric;                   // "rdma" or "soft"
  std::vector<std::string> devices;     // those in use, sorted
  std::uint32_t rails = 0;              // ports of these devices, as PCIe functions show them
  std::uint32_t speed_mbps = 0;         // the slowest port's
  std::uint32_t mtu = 0;                // smallest path MTU
  std::uint32_t inline_bytes_max = 0;   // what the devices grant
  std::uint32_t qp_wr_max = 0;          // the device's limit on a send queue
  std::uint32_t message_bytes_max = 0;  // largest work request
};

}  // namespace mesh
