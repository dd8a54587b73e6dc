#pragma once
// The settings that a measurement may choose: one table with their names and places in Settings.
// Thread: any (values). Bound: kKnobCount.

#include <mesh/config.h>
#include <mesh/policy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mesh::tuning {

enum class Knob : std::uint8_t {
  Qps,
  SignalInterval,
  InlineBytes,
  ExpressBytes,
  StripeBytes,
  WrBytes,
  InflightBytes
};
inline constexpr std::size_t kKnobCount = 7;

struct KnobInfo {
  Knob knob;
  const char* key;      // in a line and a table
  const char* setting;  // in the environment
};
const std::array<KnobInfo, kKnobCount>& knob_table() noexcept;
const KnobInfo& info(Knob knob) noexcept;

// A value or none for each knob.
class KnobValues {
 public:
  const std::optional<std::int64_t>& operator[](Knob knob) const noexcept {
    return values_[static_cast<std::size_t>(knob)];
  }
  std::optional<std::int64_t>& operator[](Knob knob) noexcept {
    return values_[static_cast<std::size_t>(knob)];
  }
  bool operator==(const KnobValues&) const = default;

 private:
  std::array<std::optional<std::int64_t>, kKnobCount> values_;
};

void set_value(Settings& settings, Knob knob, std::int64_t value) noexcept;

// Returns the values that the engine obeys, first those that are set, such as "set: qps 2; default:
// signal_interval 16, ...".
std::string policy_text(const TransferPolicy& policy, const Settings& settings);

}  // namespace mesh::tuning
