#pragma once
// Finds out what a device grants, at discovery, so that no connect finds out. Thread: any, at
// start-up. Bound: one queue pair and one completion queue at a time.

#include <mesh/config.h>
#include <mesh/snapshot.h>

#include "src/verbs/provider.h"

#include <cstdint>
#include <string>

namespace mesh::verbs {

// The bytes of the largest CTS entry (a credit in the sender's memory), which goes inline.
inline constexpr std::uint32_t kInlineNeeded = 64;
// The shallowest queue that the engine works with.
inline constexpr std::uint32_t kDepthNeeded = 16;
// Room for some 60 default queue pairs, and one entry less than a power of two, to which mlx5
// rounds up n + 1. The devices' maximum can cost 256 MB.
inline constexpr std::uint32_t kQueueEntries = 16383;

// The wishes to a device: its queues are as deep as the settings say.
struct DeviceWish {
  std::uint32_t depth = 0;     // work requests of a queue
  std::uint32_t elements = 1;  // gather elements of a work request
};
DeviceWish device_wish(const Settings& settings) noexcept;

// The limits of a device, or the reason why it cannot be used.
struct DeviceGrant {
  std::string refusal{};  // empty: it can be used
  RefusalKind kind = RefusalKind::Unusable;
  std::uint32_t inline_bytes = 0;
  int depth_max = 0;    // work requests of a queue
  int entries_max = 0;  // of a completion queue
};
// Makes and destroys a completion queue and reliable queue pairs as the engine will ask for them,
// with less and less (kInlineTried, then half the depth) until the device grants one: its limits
// are those of single values, and no query tells what it grants together.
DeviceGrant probe_device(Provider& provider, ibv_context* context, const ibv_device_attr& limits,
                         const DeviceWish& wish);

}  // namespace mesh::verbs
