#include "tuning/profile.h"

#include "src/base/json_fields.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh::tuning {

namespace {

constexpr JsonBounds kBounds{.bytes = kProfileBytesMax, .depth = 8};
constexpr std::size_t kTextMax = 1024;
constexpr std::size_t kDevicesMax = 64;
constexpr std::int64_t kMbpsMax = 100'000'000;
constexpr double kFigureMax = 1e15;  // microseconds, and shares of them

// Returns true if a log line may show the text as it is: without line ends and control characters.
bool is_plain(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0))
      return false;  // the last two bytes are U+0080 to U+009F
  }
  return true;
}

bool is_text(const Json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  return text.size() <= kTextMax && is_plain(text);
}

std::string plain_text_of(const Json& object, const std::string& what, const char* key) {
  if (is_text(member_of(object, what, key))) return text_of(object, what, key);
  refuse(object, what, key,
         fmt::format("up to {} characters, none of them a control character", kTextMax));
}

std::int64_t integer_of(const Json& object, const std::string& what, const KnobInfo& range) {
  const Json& value = member_of(object, what, range.key);
  const bool whole = value.is_number_integer();
  const bool huge =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (whole && !huge && in_range(range, value.get<std::int64_t>()))
    return value.get<std::int64_t>();
  refuse(object, what, range.key, range_text(range));
}

std::int64_t integer_of(const Json& object, const std::string& what, const char* key,
                        std::pair<std::int64_t, std::int64_t> range) {
  return integer_of(object, what, KnobInfo{{}, key, "", range.first, range.second, 1});
}

double positive_of(const Json& object, const std::string& what, const char* key) {
  static_cast<void>(member_of(object, what, key));
  return number_of(object, what, key, {0, kFigureMax, 0});
}

Ground ground_of(const Json& object, const std::string& what) {
  const std::string kind = plain_text_of(object, what, "kind");
  for (const Ground ground : {Ground::Model, Ground::Soft, Ground::Rdma})
    if (kind == ground_name(ground)) return ground;
  refuse(object, what, "kind", "model, soft or rdma");
}

Measured read_measured(const Json& json) {
  const std::string what = "measured";
  check_keys(json, what, {"kind", "when", "how", "label", "devices", "rails", "speed_mbps", "mtu"});
  Measured measured;
  measured.ground = ground_of(json, what);
  measured.when = plain_text_of(json, what, "when");
  measured.how = plain_text_of(json, what, "how");
  measured.label = plain_text_of(json, what, "label");
  measured.rails = static_cast<std::uint32_t>(integer_of(json, what, "rails", {1, 64}));
  measured.speed_mbps =
      static_cast<std::uint32_t>(integer_of(json, what, "speed_mbps", {0, kMbpsMax}));
  measured.mtu = static_cast<std::uint32_t>(integer_of(json, what, "mtu", {0, 65536}));
  const Json& devices = member_of(json, what, "devices");
  if (!devices.is_array() || devices.size() > kDevicesMax ||
      !std::all_of(devices.begin(), devices.end(), is_text))
    refuse(json, what, "devices", fmt::format("up to {} names", kDevicesMax));
  measured.devices = devices.get<std::vector<std::string>>();
  return measured;
}

KnobValues read_settings(const Json& json) {
  const std::string what = "settings";
  std::vector<const char*> keys;
  for (const KnobInfo& each : knob_table()) keys.push_back(each.key);
  check_keys(json, what, keys);
  KnobValues values;
  for (const KnobInfo& each : knob_table())
    if (json.contains(each.key)) values[each.knob] = integer_of(json, what, each);
  const auto &inflight = values[Knob::InflightBytes], &request = values[Knob::WrBytes];
  if (inflight && request && *inflight < *request)
    refuse(json, what, "inflight_bytes", fmt::format("at least wr_bytes, {}", *request));
  return values;
}

std::vector<SizeClass> read_sizes(const Json& root) {
  std::vector<SizeClass> sizes;
  const Json& list = list_of(root, "the file", "sizes");
  if (list.size() > kSizesMax)
    refuse(root, "the file", "sizes", fmt::format("up to {} size classes", kSizesMax));
  for (const Json& entry : list) {
    const std::string what = fmt::format("sizes[{}]", sizes.size());
    SizeClass& size = sizes.emplace_back();
    check_keys(entry, what, {"bytes", "figure", "default_us", "tuned_us", "spread"});
    size.bytes =
        static_cast<std::uint64_t>(integer_of(entry, what, "bytes", {0, std::int64_t{1} << 40}));
    size.figure = plain_text_of(entry, what, "figure");
    size.default_us = positive_of(entry, what, "default_us");
    size.tuned_us = positive_of(entry, what, "tuned_us");
    size.spread = positive_of(entry, what, "spread");
  }
  return sizes;
}

// The version comes before the keys, because a later version may have others.
void check_format(const Json& root) {
  if (!root.is_object()) fail("it is no JSON object");
  if (plain_text_of(root, "the file", "format") != kProfileFormat)
    refuse(root, "the file", "format", kProfileFormat);
  const std::int64_t version =
      integer_of(root, "the file", "version", {1, std::numeric_limits<int>::max()});
  if (version != kProfileVersion)
    refuse(root, "the file", "version", std::to_string(kProfileVersion));
}

}  // namespace

std::optional<Profile> parse_profile(std::string_view text, std::string& why) {
  Profile profile;
  why = read_json(text, kBounds, [&profile](const Json& root) {
    check_format(root);
    check_keys(root, "the file", {"format", "version", "measured", "settings", "sizes"});
    profile.measured = read_measured(member_of(root, "the file", "measured"));
    profile.settings = read_settings(member_of(root, "the file", "settings"));
    profile.sizes = read_sizes(root);
  });
  if (!why.empty()) return std::nullopt;
  return profile;
}

std::string to_json(const Profile& profile) {
  const Measured& measured = profile.measured;
  Json root;
  root["format"] = kProfileFormat;
  root["version"] = kProfileVersion;
  root["measured"] = {{"kind", ground_name(measured.ground)},
                      {"when", measured.when},
                      {"how", measured.how},
                      {"label", measured.label},
                      {"devices", Json::array()},
                      {"rails", measured.rails},
                      {"speed_mbps", measured.speed_mbps},
                      {"mtu", measured.mtu}};
  for (const std::string& device : measured.devices) root["measured"]["devices"].push_back(device);
  root["settings"] = Json::object();
  for (const KnobInfo& each : knob_table()) {
    if (profile.settings[each.knob]) root["settings"][each.key] = *profile.settings[each.knob];
  }
  root["sizes"] = Json::array();
  for (const SizeClass& size : profile.sizes) {
    root["sizes"].push_back({{"bytes", size.bytes},
                             {"figure", size.figure},
                             {"default_us", size.default_us},
                             {"tuned_us", size.tuned_us},
                             {"spread", size.spread}});
  }
  return root.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace mesh::tuning
