#pragma once
// A profile: settings that a measurement found better than the defaults, and the rails on which it
// was made. It is JSON with a version and checked as a whole. It is used only on rails like those.
// Thread: any (pure). Bound: kProfileBytesMax of text, kSizesMax size classes.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "tuning/knob.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::tuning {

inline constexpr const char* kProfileFormat = "nccl-mesh-profile";
inline constexpr int kProfileVersion = 1;
inline constexpr std::size_t kProfileBytesMax = 256 * 1024;
inline constexpr std::size_t kSizesMax = 256;

enum class Ground : std::uint8_t { Model, Soft, Rdma };
const char* ground_name(Ground ground) noexcept;  // "model", "soft", "rdma"

struct Measured {
  Ground ground = Ground::Soft;
  std::string when;   // "2026-11-21T01:02:03Z"
  std::string how;    // the command that measured
  std::string label;  // for people: "software fabric on this host, not RDMA (pair.json)"
  std::vector<std::string> devices;  // devices of both hosts; empty for a model
  std::uint32_t rails = 1;           // rails of each host
  std::uint32_t speed_mbps = 0;      // the slowest rail's
  std::uint32_t mtu = 0;             // the smallest of all rails
};

// The gain of the settings with messages of one size, for people; the plugin does not read it.
struct SizeClass {
  std::uint64_t bytes = 0;  // measured with messages of this size
  std::string figure;       // "one way" or "8 in flight"
  double default_us = 0;    // median time of a message
  double tuned_us = 0;
  double spread = 0;  // between runs, as a share of the median
};

struct Profile {
  Measured measured;
  KnobValues settings;  // no value: nothing was better than the default
  std::vector<SizeClass> sizes;
};

// Returns nothing if the text is wrong; `why` names the key, its value, and what would be right.
std::optional<Profile> parse_profile(std::string_view text, std::string& why);
std::string to_json(const Profile& profile);

// Returns in a few words how these rails differ from the profile's; empty if they do not.
std::string mismatch(const Measured& measured, const FabricTraits& traits);

enum class Origin : std::uint8_t { Set, Profile, Default };
struct Origins {
  std::array<Origin, kKnobCount> of{};
};
// Sets what was not given explicitly to the profile's values. A null profile has none.
Origins apply_profile(const Profile* profile, Settings& settings);
// Returns the values that the engine obeys by their origins, such as "set: qps 2; default:
// signal_interval 16, ...".
std::string choice_text(const TransferPolicy& policy, const Origins& origins);

}  // namespace mesh::tuning
