#pragma once
// The settings that a measurement may choose: one table with their names, ranges and places in
// Settings. The ranges are those of src/base/settings_table.cc; a test compares them. Thread: any
// (values). Bound: kKnobCount.

#include <mesh/config.h>
#include <mesh/policy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  const char* key;      // in a profile
  const char* setting;  // in the environment
  std::int64_t min, max;
  std::int64_t multiple;  // a value must be a multiple of this
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

bool in_range(const KnobInfo& knob, std::int64_t value) noexcept;
std::string range_text(const KnobInfo& knob);  // "128..1073741824, a multiple of 128"

void set_value(Settings& settings, Knob knob, std::int64_t value) noexcept;
std::int64_t value_of(const TransferPolicy& policy, Knob knob) noexcept;

}  // namespace mesh::tuning
