#pragma once
// Where the bytes of a message go when a link has several paths: so much to each that all would be
// done at the same moment, by what the ports say they carry and what is still in flight on them. A
// path slower than its port says keeps more in flight and is given less. What leads over hosts
// between is stored there before it goes on. Pure arithmetic in whole 128-byte lines. Thread: any
// (values). Bounds: kPathsMax paths, kStripesMax stripes, messages of 2^40 bytes.

#include "engine/message/stripe.h"

#include <cstdint>
#include <span>

namespace mesh::engine {

struct PathLoad {
  std::uint64_t bytes = 0;       // in flight, or what it carries in the time by which it is later
  std::uint32_t speed_mbps = 1;  // above 0
  std::uint32_t next_qp = 0;     // of the path's bulk queue pairs, whose turn it is; any number
  std::uint32_t hosts_between = 0;
};

// The path that would be done first with so many bytes more; of equal ones the first from `from`
// on.
std::uint32_t earliest_path(std::uint64_t bytes, std::span<const PathLoad> paths,
                            std::uint32_t from) noexcept;

// A message above stripe_bytes over the paths, and each path's part over its queue pairs. A path
// for which too little would be left takes no part, and there are no more paths than stripes of
// stripe_bytes.
void spread_stripes(std::uint64_t bytes, const TransferPolicy& policy,
                    std::span<const PathLoad> paths, StripeTable& table) noexcept;

}  // namespace mesh::engine
