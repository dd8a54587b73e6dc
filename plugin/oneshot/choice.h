#pragma once
// The choice of all-reduces that go in one exchange, and of their chunks. All hosts must choose
// alike, so these are functions of the message and the setting alone, and of nothing that a host
// has measured. Thread: any (pure). Bound: none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mesh::oneshot {

// A row of NCCL's table of costs, or all of it: a negative cost is no choice.
using Costs = std::span<float>;

constexpr bool any_choice(std::span<const float> costs) noexcept {
  return std::any_of(costs.begin(), costs.end(), [](float cost) { return cost >= 0; });
}

struct Cluster {
  std::size_t hosts = 0;
  bool cuts_chunks = false;  // NCCL asks for chunks below 32 KiB, as 2.30 and later do
};

// Returns the bytes from which on one exchange is faster than a ring of NCCL's LL protocol, whose
// kernel starts sooner (measured on a GPU: plugin/README.md). Without small chunks the least
// message costs as much as one of 32 KiB.
constexpr std::size_t least_bytes(const Cluster& cluster) noexcept {
  constexpr std::size_t kKiB = 1024;
  if (!cluster.cuts_chunks) return 16 * kKiB + 1;
  return cluster.hosts <= 2 ? 8 * kKiB + 1 : 4 * kKiB + 1;
}

// NCCL cuts a message of a CollNet into chunks of 32 KiB and more, and sends whole chunks. Chunks
// are a multiple of this.
inline constexpr std::size_t kChunkGrainBytes = 512;
// NCCL's kernel fills one chunk while the last one is under way; up to here one is faster.
inline constexpr std::size_t kOneChunkBytesMax = std::size_t{64} << 10;

// Returns the chunk for a message of which each channel carries a part. NCCL's own chunk tells what
// its buffers hold if it is below 32 KiB.
constexpr std::size_t chunk_bytes(std::size_t bytes, std::size_t channels,
                                  std::size_t nccls) noexcept {
  constexpr std::size_t kNcclsLeast = std::size_t{32} << 10;
  const std::size_t part = (bytes + channels - 1) / channels;
  if (part > kOneChunkBytesMax) return nccls;
  const std::size_t whole =
      (std::max<std::size_t>(part, 1) + kChunkGrainBytes - 1) / kChunkGrainBytes * kChunkGrainBytes;
  return nccls < kNcclsLeast ? std::min(whole, nccls) : whole;
}

}  // namespace mesh::oneshot
