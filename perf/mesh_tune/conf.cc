#include "perf/mesh_tune/conf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mesh::tune {
namespace {

// A line end in a file's name would begin a line that is no comment.
std::string comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; },
      '?');
  return "# " + text + "\n";
}

std::string gain_text(const Gain& gain) {
  return fmt::format("{}: {:.3f} us with the defaults, {:.3f} us with these, noise {:.3f}",
                     point_name(gain.point), gain.default_us, gain.tuned_us, gain.noise);
}

}  // namespace

std::string conf_text(const Report& report, const std::string& when, const std::string& how) {
  const MeasuredOn& on = report.measured;
  std::string text = comment(fmt::format("Measured {} on {}, by: {}", when, on.label, how));
  text += comment(fmt::format("Each host: {} rails, the slowest {} Mb/s, MTU {}{}{}", on.rails,
                              on.speed_mbps, on.mtu, on.devices.empty() ? "" : "; devices ",
                              fmt::join(on.devices, ", ")));
  text += comment("These lines hold for rails like these; nothing checks that. Measure again when");
  text += comment("cards, cables or the MTU change. Both hosts need the same lines.");
  text += comment(report.verdict);
  for (const Gain& gain : report.gains) text += comment(gain_text(gain));
  for (const tuning::KnobInfo& each : tuning::knob_table()) {
    if (const auto& value = report.settings[each.knob])
      text += fmt::format("{}={}\n", each.setting, *value);
  }
  return text;
}

}  // namespace mesh::tune
