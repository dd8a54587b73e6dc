#include "tuning/derive.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace mesh::tuning {

namespace {

// One queue pair fills a clean direct cable, but where a device or a LAG caps one at 64 % two are
// too few as soon as their shares are uneven; four cost nothing on a clean link. Halves of a cable
// each carry half of it and share the four.
constexpr std::uint32_t kQpsPerCable = 4;
constexpr std::uint32_t kQpsPerHalf = 2;
constexpr int kInlineAuto =
    220;  // the largest that keeps a mlx5 work request at four 64-byte blocks: 256 - 16 - 16 - 4
constexpr int kInlineMax = 512;
constexpr int kSignalIntervalMax = 64;
constexpr std::int64_t kMessageMax =
    std::int64_t{1} << 31;  // what one work request may carry (InfiniBand spec, 9.4.1)
constexpr std::int64_t kInflightMax = std::int64_t{1} << 40;
// An acknowledgement may wait behind all that is in flight: this leaves a port 60 times slower than
// it says (soft-RoCE says 2.5 Gb/s) within the default acknowledge timer of 268 ms, and 16 Gb/s and
// more with the 8 MiB of the policy.
constexpr std::uint32_t kInflightUs = 4000;

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

// Rings are indexed by masks. Rounded down, so that a limit stays a limit.
std::uint32_t ring_size(int value, Range range) { return std::bit_floor(clamp_to(value, range)); }

std::uint32_t within_device(std::uint32_t depth, std::uint32_t device_limit) {
  if (device_limit == 0) return depth;
  return std::min(depth, std::bit_floor(device_limit));
}

// A stripe boundary that is no multiple of a line would tear LL128's lines.
std::uint64_t whole_lines(std::int64_t bytes, std::int64_t high) {
  const auto clamped =
      static_cast<std::uint64_t>(std::clamp(bytes, std::int64_t{kStripeAlign}, high));
  return clamped - clamped % kStripeAlign;
}

std::uint32_t queue_pairs(const FabricTraits& traits, const Settings& settings) {
  if (settings.qps != kAuto) return clamp_to(settings.qps, {1, static_cast<int>(kQpsMax)});
  return traits.rails_per_cable > 1 ? kQpsPerHalf : kQpsPerCable;
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
  policy.qps = queue_pairs(traits, settings);
  policy.inline_bytes = inline_limit(traits, settings);
  policy.slots = ring_size(settings.slots, kSlots);
  policy.rq_depth = within_device(ring_size(settings.rq_depth, kReceiveDepth), traits.qp_wr_max);
  policy.sq_depth = within_device(ring_size(settings.sq_depth, kSendDepth), traits.qp_wr_max);
  // Room in the send queue comes back only with a signaled completion: at least four of them per
  // queue.
  const std::uint32_t sparsest = std::max(policy.sq_depth / 4, 1u);
  policy.signal_interval =
      std::min(clamp_to(settings.signal_interval, {1, kSignalIntervalMax}), sparsest);
  policy.wr_bytes =
      std::min(whole_lines(settings.wr_bytes, kMessageMax), longest_work_request(traits));
  policy.stripe_bytes = whole_lines(settings.stripe_bytes, kMessageMax);
  policy.express_bytes =
      static_cast<std::uint64_t>(std::clamp(settings.express_bytes, std::int64_t{0}, kMessageMax));
  // An express message is one work request, and a cap below one work request would never let it go.
  policy.express_bytes = std::min(policy.express_bytes, policy.wr_bytes);
  if (settings.inflight_bytes == kAuto) {
    // Halves of a cable each say the whole cable's speed, and an acknowledgement waits behind the
    // bytes of all of them.
    policy.inflight_us = kInflightUs / std::max(traits.rails_per_cable, 1u);
  } else {
    policy.inflight_bytes = static_cast<std::uint64_t>(
        std::clamp(settings.inflight_bytes, std::int64_t{0}, kInflightMax));
  }
  policy.inflight_bytes = std::max(policy.inflight_bytes, policy.wr_bytes);
  return policy;
}

}  // namespace mesh::tuning
