#include "tuning/knob.h"

#include "src/base/setting_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace mesh::tuning {

namespace {

constexpr std::array<KnobInfo, kKnobCount> kTable{{
    {Knob::Qps, "qps", "NCCL_MESH_QPS"},
    {Knob::SignalInterval, "signal_interval", "NCCL_MESH_SIGNAL_INTERVAL"},
    {Knob::InlineBytes, "inline_bytes", "NCCL_MESH_INLINE"},
    {Knob::ExpressBytes, "express_bytes", "NCCL_MESH_EXPRESS_BYTES"},
    {Knob::StripeBytes, "stripe_bytes", "NCCL_MESH_STRIPE_BYTES"},
    {Knob::WrBytes, "wr_bytes", "NCCL_MESH_WR_BYTES"},
    {Knob::InflightBytes, "inflight_bytes", "NCCL_MESH_INFLIGHT_BYTES"},
}};

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

// Returns a value as the log shows it, such as "express 8K": its key says that it is bytes.
std::string value_text(const TransferPolicy& policy, const KnobInfo& knob) {
  constexpr std::string_view kBytes = "_bytes";
  std::string_view key = knob.key;
  if (key.ends_with(kBytes)) key.remove_suffix(kBytes.size());
  const bool halves = knob.knob == Knob::Qps && policy.half_qps != policy.qps;
  return fmt::format("{} {}{}", key, bytes_text(value_of(policy, knob.knob)),
                     halves ? fmt::format(" ({} on a half cable)", policy.half_qps) : "");
}

}  // namespace

const std::array<KnobInfo, kKnobCount>& knob_table() noexcept { return kTable; }

const KnobInfo& info(Knob knob) noexcept { return kTable[static_cast<std::size_t>(knob)]; }

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

std::string policy_text(const TransferPolicy& policy, const Settings& settings) {
  std::vector<std::string> set, defaults;
  for (const KnobInfo& each : knob_table()) {
    const bool given = std::find(settings.given.begin(), settings.given.end(), each.setting) !=
                       settings.given.end();
    (given ? set : defaults).push_back(value_text(policy, each));
  }
  std::string text;
  if (!set.empty()) text = fmt::format("set: {}", fmt::join(set, ", "));
  if (!set.empty() && !defaults.empty()) text += "; ";
  if (!defaults.empty()) text += fmt::format("default: {}", fmt::join(defaults, ", "));
  return text;
}

}  // namespace mesh::tuning
