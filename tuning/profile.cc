#include "tuning/profile.h"

#include "src/base/setting_value.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mesh::tuning {

namespace {

bool given(const Settings& settings, Knob knob) {
  return std::find(settings.given.begin(), settings.given.end(), info(knob).setting) !=
         settings.given.end();
}

const char* origin_name(Origin origin) noexcept {
  switch (origin) {
    case Origin::Set: return "set";
    case Origin::Profile: return "profile";
    case Origin::Default: return "default";
  }
  return "";
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

// Makes the limit on bytes in flight at least one work request, because a lower one would stop
// everything. If the user gave the limit, the work request shrinks instead.
void reconcile(Settings& settings) {
  if (settings.inflight_bytes == kAuto || settings.inflight_bytes >= settings.wr_bytes) return;
  if (given(settings, Knob::InflightBytes)) {
    settings.wr_bytes = settings.inflight_bytes - settings.inflight_bytes % kStripeAlign;
  } else {
    settings.inflight_bytes = settings.wr_bytes;
  }
}

}  // namespace

const char* ground_name(Ground ground) noexcept {
  switch (ground) {
    case Ground::Model: return "model";
    case Ground::Soft: return "soft";
    case Ground::Rdma: return "rdma";
  }
  return "";
}

std::string mismatch(const Measured& measured, const FabricTraits& traits) {
  if (measured.ground != Ground::Model) {
    if (traits.fabric != ground_name(measured.ground))
      return fmt::format("it was measured on fabric {}, this is {}", ground_name(measured.ground),
                         traits.fabric);
    for (const std::string& device : traits.devices) {
      if (std::find(measured.devices.begin(), measured.devices.end(), device) ==
          measured.devices.end())
        return fmt::format("it was measured on {}, and {} is in use here",
                           fmt::join(measured.devices, ", "), device);
    }
  }
  if (measured.rails != traits.rails)
    return fmt::format("it was measured on {} rails, here are {}", measured.rails, traits.rails);
  if (measured.speed_mbps != traits.speed_mbps)
    return fmt::format("it was measured at {} Mb/s, here it is {}", measured.speed_mbps,
                       traits.speed_mbps);
  if (measured.mtu != traits.mtu)
    return fmt::format("it was measured with MTU {}, here it is {}", measured.mtu, traits.mtu);
  return {};
}

Origins apply_profile(const Profile* profile, Settings& settings) {
  Origins origins;
  for (const KnobInfo& each : knob_table()) {
    Origin& origin = origins.of[static_cast<std::size_t>(each.knob)];
    origin = given(settings, each.knob) ? Origin::Set : Origin::Default;
    if (origin == Origin::Set || profile == nullptr || !profile->settings[each.knob]) continue;
    set_value(settings, each.knob, *profile->settings[each.knob]);
    origin = Origin::Profile;
  }
  reconcile(settings);
  return origins;
}

std::string choice_text(const TransferPolicy& policy, const Origins& origins) {
  std::string text;
  for (const Origin origin : {Origin::Set, Origin::Profile, Origin::Default}) {
    std::string values;
    for (const KnobInfo& each : knob_table()) {
      if (origins.of[static_cast<std::size_t>(each.knob)] != origin) continue;
      values += values.empty() ? "" : ", ";
      values += value_text(policy, each);
    }
    if (values.empty()) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", origin_name(origin), values);
  }
  return text;
}

}  // namespace mesh::tuning
