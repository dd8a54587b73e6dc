#pragma once
// Cuts one message into stripes: pure arithmetic on the policy's numbers. On one path all stripes
// have one size; path_spread.h handles several paths. Thread: any (values). Sizes in bytes.

#include <mesh/policy.h>

#include "engine/message/wire.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace mesh::engine {

inline constexpr std::uint32_t kStripesMax = 64;  // per message; more would only cost announcements

enum class Route : std::uint8_t { Express, Bulk };

// The place of a stripe in its message.
struct StripeSpan {
  std::uint64_t offset = 0, bytes = 0;
};

// The stripes of a message over several paths. They have different sizes.
struct PlacedStripe {
  StripeSpan span;
  std::uint32_t position = 0;  // of the queue pair, in BulkOrder
};
struct StripeTable {
  std::uint32_t count = 0;
  std::array<PlacedStripe, kStripesMax> stripes;
};

// The stripes of a message over one path: all of one size, and the last one with the rest.
struct StripePlan {
  Route route = Route::Express;
  std::uint32_t count = 0;  // a message that is cut has one stripe at least
  // Size of every stripe but the last; a multiple of kStripeAlign if count > 1.
  std::uint64_t stripe_bytes = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t total_bytes = 0;

  constexpr StripeSpan span(std::uint32_t i) const noexcept {
    DCHECK(i < count);
    return {.offset = i * stripe_bytes, .bytes = i + 1 == count ? last_bytes : stripe_bytes};
  }
  // Returns true if each stripe is one work request on a bulk queue pair and the immediate tells
  // count.
  constexpr bool uniform(std::uint64_t wr_bytes) const noexcept {
    return route == Route::Bulk && count <= kStripesTold && stripe_bytes <= wr_bytes;
  }
  // Returns how much greater its immediates are than the immediate of a message of one stripe.
  constexpr std::uint32_t imm_more() const noexcept {
    DCHECK(count != 0 && count <= kStripesTold);
    return (count - 1) << kStripesShift;
  }
};

// Cuts a message for bulk queue pairs into stripes that are as a rule no smaller than stripe_bytes.
constexpr StripePlan plan_bulk(std::uint64_t bytes, std::uint64_t stripe_bytes,
                               std::uint32_t bulk_queue_pairs) noexcept {
  const std::uint64_t wanted =
      bytes <= stripe_bytes ? 1 : (bytes + stripe_bytes - 1) / stripe_bytes;
  DCHECK(bulk_queue_pairs != 0);
  const std::uint64_t count = std::min<std::uint64_t>({wanted, bulk_queue_pairs, kStripesMax});
  const std::uint64_t share = (bytes + count - 1) / count;
  const std::uint64_t aligned = (share + kStripeAlign - 1) / kStripeAlign * kStripeAlign;
  // Rounding up can leave the last stripes without bytes; the announcement of an empty stripe would
  // cost a completion for nothing.
  const std::uint64_t needed = (bytes + aligned - 1) / aligned;
  DCHECK(needed >= 1 && needed <= count);
  DCHECK((needed - 1) * aligned < bytes && bytes <= needed * aligned);
  return {.route = Route::Bulk,
          .count = static_cast<std::uint32_t>(needed),
          .stripe_bytes = needed == 1 ? bytes : aligned,
          .last_bytes = bytes - (needed - 1) * aligned,
          .total_bytes = bytes};
}

// Leaves a message whole, for the express queue pair.
constexpr StripePlan plan_express(std::uint64_t bytes) noexcept {
  return {.route = Route::Express,
          .count = 1,
          .stripe_bytes = bytes,
          .last_bytes = bytes,
          .total_bytes = bytes};
}

constexpr StripePlan plan_stripes(std::uint64_t bytes, const TransferPolicy& policy,
                                  std::uint32_t bulk_queue_pairs) noexcept {
  if (bytes <= policy.express_bytes) return plan_express(bytes);
  return plan_bulk(bytes, policy.stripe_bytes, bulk_queue_pairs);
}

}  // namespace mesh::engine
