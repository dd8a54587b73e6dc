#include "tuning/knob.h"

#include <algorithm>

#include <fmt/format.h>

namespace mesh::tuning {

namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

constexpr std::array<KnobInfo, kKnobCount> kTable{{
    {Knob::Qps, "qps", "NCCL_MESH_QPS", 1, 32, 1},
    {Knob::SignalInterval, "signal_interval", "NCCL_MESH_SIGNAL_INTERVAL", 1, 64, 1},
    {Knob::InlineBytes, "inline_bytes", "NCCL_MESH_INLINE", 0, 512, 1},
    {Knob::ExpressBytes, "express_bytes", "NCCL_MESH_EXPRESS_BYTES", 0, kMiB, 1},
    {Knob::StripeBytes, "stripe_bytes", "NCCL_MESH_STRIPE_BYTES", 128, kGiB, 128},
    {Knob::WrBytes, "wr_bytes", "NCCL_MESH_WR_BYTES", 4 * kKiB, kGiB, 128},
    {Knob::InflightBytes, "inflight_bytes", "NCCL_MESH_INFLIGHT_BYTES", 64 * kKiB, 64 * kGiB, 1},
}};

}  // namespace

const std::array<KnobInfo, kKnobCount>& knob_table() noexcept { return kTable; }

const KnobInfo& info(Knob knob) noexcept { return kTable[static_cast<std::size_t>(knob)]; }

bool in_range(const KnobInfo& knob, std::int64_t value) noexcept {
  return value >= knob.min && value <= knob.max && value % knob.multiple == 0;
}

std::string range_text(const KnobInfo& knob) {
  const std::string range = fmt::format("{}..{}", knob.min, knob.max);
  return knob.multiple == 1 ? range : fmt::format("{}, a multiple of {}", range, knob.multiple);
}

void set_value(Settings& settings, Knob knob, std::int64_t value) noexcept {
  switch (knob) {
    case Knob::Qps: settings.qps = static_cast<int>(value); return;
    case Knob::SignalInterval: settings.signal_interval = static_cast<int>(value); return;
    case Knob::InlineBytes: settings.inline_bytes = static_cast<int>(value); return;
    case Knob::ExpressBytes: settings.express_bytes = value; return;
    case Knob::StripeBytes: settings.stripe_bytes = value; return;
    case Knob::WrBytes: settings.wr_bytes = value; return;
    case Knob::InflightBytes: settings.inflight_bytes = value; return;
  }
}

std::int64_t value_of(const TransferPolicy& policy, Knob knob) noexcept {
  switch (knob) {
    case Knob::Qps: return policy.qps;
    case Knob::SignalInterval: return policy.signal_interval;
    case Knob::InlineBytes: return policy.inline_bytes;
    case Knob::ExpressBytes: return static_cast<std::int64_t>(policy.express_bytes);
    case Knob::StripeBytes: return static_cast<std::int64_t>(policy.stripe_bytes);
    case Knob::WrBytes: return static_cast<std::int64_t>(policy.wr_bytes);
    case Knob::InflightBytes: return static_cast<std::int64_t>(policy.inflight_bytes);
  }
  return 0;
}

}  // namespace mesh::tuning
