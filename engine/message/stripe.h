#pragma once
// How one message is cut: pure arithmetic on the policy's numbers. Over one path stripes are even;
// path_spread.h is about several. Thread: any (values). Sizes in bytes.

#include <mesh/policy.h>

#include "engine/message/wire.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace mesh::engine {

inline constexpr std::uint32_t kStripesMax = 64;  // per message; more would only cost announcements

enum class Route : std::uint8_t { Express, Bulk };

// The stripes of a message over several paths, which are not of one size.
struct StripeTable {
  std::array<std::uint64_t, kStripesMax> offset, bytes;
  std::array<std::uint32_t, kStripesMax> position;  // of the queue pair in the link's order
};

struct StripePlan {
  Route route = Route::Express;
  std::uint32_t count = 1;
  // Of every stripe but the last; it is a multiple of kStripeAlign when count > 1.
  std::uint64_t stripe_bytes = 0;
  std::uint64_t total_bytes = 0;
  // Where it is not null it says where the stripes are, and stripe_bytes says nothing.
  const StripeTable* table = nullptr;

  constexpr std::uint64_t offset(std::uint32_t i) const noexcept {
    DCHECK(i < count);
    return table == nullptr ? i * stripe_bytes : table->offset[i];
  }
  constexpr std::uint64_t bytes(std::uint32_t i) const noexcept {
    DCHECK(i < count);
    if (table != nullptr) return table->bytes[i];
    return i + 1 == count ? total_bytes - offset(i) : stripe_bytes;
  }
  constexpr std::uint64_t largest() const noexcept {
    return table == nullptr ? stripe_bytes
                            : *std::max_element(table->bytes.begin(), table->bytes.begin() + count);
  }
};

constexpr StripePlan plan_stripes(std::uint64_t bytes, const TransferPolicy& policy,
                                  std::uint32_t bulk_queue_pairs) noexcept {
  if (bytes <= policy.express_bytes)
    return {.route = Route::Express, .count = 1, .stripe_bytes = bytes, .total_bytes = bytes};
  const std::uint64_t wanted =
      bytes <= policy.stripe_bytes ? 1 : (bytes + policy.stripe_bytes - 1) / policy.stripe_bytes;
  DCHECK(bulk_queue_pairs != 0);
  const std::uint64_t count = std::min<std::uint64_t>({wanted, bulk_queue_pairs, kStripesMax});
  const std::uint64_t even = (bytes + count - 1) / count;
  const std::uint64_t aligned = (even + kStripeAlign - 1) / kStripeAlign * kStripeAlign;
  // Rounding up can leave the last stripes without bytes: an empty announcement would cost a
  // completion for nothing.
  const std::uint64_t needed = (bytes + aligned - 1) / aligned;
  DCHECK(needed >= 1 && needed <= count);
  DCHECK((needed - 1) * aligned < bytes && bytes <= needed * aligned);
  return {.route = Route::Bulk,
          .count = static_cast<std::uint32_t>(needed),
          .stripe_bytes = needed == 1 ? bytes : aligned,
          .total_bytes = bytes};
}

// A message over one path with stripes of one work request each, all as long as the first but the
// last, which say themselves how many they are.
struct UniformPlan {
  std::uint64_t total_bytes = 0;
  std::uint32_t count = 0;  // 0: it is not cut so
  std::uint32_t stripe_bytes = 0, last_bytes = 0;
  // Its immediate is greater by this than that of a message of one stripe.
  std::uint32_t imm_more = 0;
};

constexpr UniformPlan uniform_plan(const StripePlan& plan, std::uint64_t wr_bytes) noexcept {
  if (plan.route != Route::Bulk || plan.table != nullptr || plan.count > kStripesTold ||
      plan.stripe_bytes > wr_bytes)
    return {.total_bytes = plan.total_bytes};
  DCHECK(plan.count != 0);
  DCHECK(plan.bytes(plan.count - 1) != 0 && plan.bytes(plan.count - 1) <= plan.stripe_bytes);
  return {.total_bytes = plan.total_bytes,
          .count = plan.count,
          .stripe_bytes = static_cast<std::uint32_t>(plan.stripe_bytes),
          .last_bytes = static_cast<std::uint32_t>(plan.bytes(plan.count - 1)),
          .imm_more = (plan.count - 1) << kStripesShift};
}

}  // namespace mesh::engine
