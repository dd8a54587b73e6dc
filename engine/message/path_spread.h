#pragma once
// Shares the bytes of a message out over several paths, so that all would be done at the same
// moment, by their speeds and the bytes still in flight on them. A path that is slower than its
// port says keeps more in flight and is given less. The bytes of a path over other hosts are stored
// there before they go on. Pure arithmetic in whole 128-byte lines. Thread: any (values). Bounds:
// kPathsMax paths, kStripesMax stripes, messages of 2^40 bytes.

#include "engine/message/stripe.h"

#include <cstdint>
#include <span>

namespace mesh::engine {

struct PathLoad {
  std::uint64_t bytes = 0;  // in flight; over other hosts: plus what it carries in its extra delay
  std::uint32_t speed_mbps = 1;  // above 0
  std::uint32_t next_qp = 0;  // the path's bulk queue pair for the next stripe, modulo their number
  std::uint32_t hosts_between = 0;
};

// Returns the path that would first be done with this many more bytes; of equal paths, the first
// one from `from` on.
std::uint32_t earliest_path(std::uint64_t bytes, std::span<const PathLoad> paths,
                            std::uint32_t from) noexcept;

struct SpreadSizes {
  std::uint64_t stripe_bytes = 0;
  std::uint32_t qps = 0;  // bulk queue pairs of each path
};

// Cuts a message above stripe_bytes into parts for the paths, and each part into stripes for the
// path's queue pairs. A path whose part would be too small gets none, and no more paths get a part
// than the message has stripes of stripe_bytes.
void spread_stripes(std::uint64_t bytes, const SpreadSizes& sizes, std::span<const PathLoad> paths,
                    StripeTable& table) noexcept;

}  // namespace mesh::engine
