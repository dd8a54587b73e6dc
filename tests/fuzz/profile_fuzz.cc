// Reads profiles. One that parses is written as text that parses and is written as that text again.
#include "tuning/profile.h"

#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string why;
  const auto profile = tuning::parse_profile({reinterpret_cast<const char*>(data), size}, why);
  fuzz::expect(profile.has_value() == why.empty(), "a refusal without a reason");
  if (!profile) return 0;
  const std::string once = tuning::to_json(*profile);
  const auto again = tuning::parse_profile(once, why);
  fuzz::expect(again.has_value(), "a profile that we write and do not read");
  fuzz::expect(tuning::to_json(*again) == once, "a profile that changes on its way");
  Settings settings;
  const tuning::Origins origins = tuning::apply_profile(&*profile, settings);
  fuzz::expect(!tuning::choice_text({}, origins).empty(), "nothing to say about a choice");
  static_cast<void>(tuning::mismatch(profile->measured, {}));
  return 0;
}

}  // namespace mesh
