#include "tuning/derive.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

namespace mesh::tuning {

namespace {

// One queue pair fills a clean direct cable. If a device or a LAG caps each at 64 %, two are too
// few as soon as their shares differ, and four cost nothing on a clean link. The halves of a cable
// share the four.
constexpr std::uint32_t kQpsPerCable = 4;
constexpr std::uint32_t kQpsPerHalf = 2;
// The largest inline size that keeps a mlx5 work request at four 64-byte blocks: 256 - 16 - 16 - 4.
constexpr int kInlineAuto = 220;
constexpr int kInlineMax = 512;
constexpr int kSignalIntervalMax = 64;
// The most that one work request may carry (InfiniBand specification, 9.4.1).
constexpr std::int64_t kMessageMax = std::int64_t{1} << 31;
constexpr std::int64_t kInflightMax = std::int64_t{1} << 40;

struct Range {
  int low;
  int high;
};
constexpr Range kSlots{32, static_cast<int>(kSlotsMax)};
constexpr Range kReceiveDepth{16, 4096};
constexpr Range kSendDepth{64, 4096};

std::uint32_t clamp_to(int value, Range range) {
  return static_cast<std::uint32_t>(std::clamp(value, range.low, range.high));
}

// Rings are indexed by masks, so sizes are powers of two. They are rounded down, so that a limit is
// never exceeded.
std::uint32_t ring_size(int value, Range range) { return std::bit_floor(clamp_to(value, range)); }

std::uint32_t within_device(std::uint32_t depth, std::uint32_t device_limit) {
  if (device_limit == 0) return depth;
  return std::min(depth, std::bit_floor(device_limit));
}

// A stripe boundary that is no multiple of a line would tear the lines of LL128.
std::uint64_t whole_lines(std::int64_t bytes, std::int64_t high) {
  const auto clamped =
      static_cast<std::uint64_t>(std::clamp(bytes, std::int64_t{kStripeAlign}, high));
  return clamped - clamped % kStripeAlign;
}

std::uint32_t queue_pairs(const Settings& settings, std::uint32_t automatic) {
  return settings.qps == kAuto ? automatic : clamp_to(settings.qps, {1, static_cast<int>(kQpsMax)});
}

std::uint64_t longest_work_request(const FabricTraits& traits) {
  const std::uint64_t told = traits.message_bytes_max == 0 ? kMessageMax : traits.message_bytes_max;
  return std::max(told - told % kStripeAlign, std::uint64_t{kStripeAlign});
}

std::uint32_t inline_limit(const FabricTraits& traits, const Settings& settings) {
  const int wanted = settings.inline_bytes == kAuto ? kInlineAuto : settings.inline_bytes;
  const std::uint32_t asked = clamp_to(wanted, {0, kInlineMax});
  return traits.inline_bytes_max == 0 ? asked : std::min(asked, traits.inline_bytes_max);
}

}  // namespace

TransferPolicy derive_policy(const FabricTraits& traits, const Settings& settings) noexcept {
  TransferPolicy policy;
  policy.qps = queue_pairs(settings, kQpsPerCable);
  policy.half_qps = queue_pairs(settings, kQpsPerHalf);
  policy.late_qps = settings.late_qps != 0;
  policy.inline_bytes = inline_limit(traits, settings);
  policy.slots = ring_size(settings.slots, kSlots);
  policy.rq_depth = within_device(ring_size(settings.rq_depth, kReceiveDepth), traits.qp_wr_max);
  policy.sq_depth = within_device(ring_size(settings.sq_depth, kSendDepth), traits.qp_wr_max);
  // Only a signaled completion gives room in the send queue back, so a queue has at least four.
  const std::uint32_t sparsest = std::max(policy.sq_depth / 4, 1u);
  policy.signal_interval =
      std::min(clamp_to(settings.signal_interval, {1, kSignalIntervalMax}), sparsest);
  policy.wr_bytes =
      std::min(whole_lines(settings.wr_bytes, kMessageMax), longest_work_request(traits));
  policy.stripe_bytes = whole_lines(settings.stripe_bytes, kMessageMax);
  policy.express_bytes =
      static_cast<std::uint64_t>(std::clamp(settings.express_bytes, std::int64_t{0}, kMessageMax));
  // An express message is one work request, so it can be no larger than one.
  policy.express_bytes = std::min(policy.express_bytes, policy.wr_bytes);
  if (settings.inflight_bytes == kAuto) {
    // An acknowledgement may wait behind all bytes in flight. With this limit a port that is 60
    // times slower than it says (soft-RoCE says 2.5 Gb/s) stays within the default acknowledge
    // timer of 268 ms. Ports of 16 Gb/s and more have the 8 MiB of the policy.
    policy.inflight_us = 4000;
  } else {
    policy.inflight_bytes = static_cast<std::uint64_t>(
        std::clamp(settings.inflight_bytes, std::int64_t{0}, kInflightMax));
  }
  // A limit below one work request would never let any work request go.
  policy.inflight_bytes = std::max(policy.inflight_bytes, policy.wr_bytes);
  assert(std::has_single_bit(policy.slots) && policy.slots <= kSlotsMax);
  assert(policy.qps >= 1 && policy.qps <= kQpsMax && policy.signal_interval >= 1);
  assert(policy.wr_bytes % kStripeAlign == 0 && policy.stripe_bytes % kStripeAlign == 0);
  return policy;
}

}  // namespace mesh::tuning
