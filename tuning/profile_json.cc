#include "tuning/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mesh::tuning {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepthMax = 8;
constexpr std::size_t kTextMax = 1024;
constexpr std::size_t kDevicesMax = 64;
constexpr std::int64_t kMbpsMax = 100'000'000;

// Returns a value as text for a log line, cut to a bound.
std::string shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

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

// Finds keys that occur twice in the objects that are being read.
class Keys {
 public:
  void begin_object(int depth) { seen_[place(depth) + 1].clear(); }
  bool is_new(int depth, const std::string& key) { return seen_[place(depth)].insert(key).second; }

 private:
  static std::size_t place(int depth) {
    return static_cast<std::size_t>(std::clamp(depth, 0, kDepthMax));
  }

  std::array<std::set<std::string>, kDepthMax + 2> seen_;
};

// Reads values from the document and checks them. It keeps the first complaint.
class Reader {
 public:
  const std::string& why() const noexcept { return why_; }
  bool ok() const noexcept { return why_.empty(); }
  void complain(std::string what) {
    if (why_.empty()) why_ = std::move(what);
  }

  // Returns true if this is an object that has no other keys.
  bool object(const Json& value, const std::string& where,
              std::initializer_list<const char*> keys) {
    if (!value.is_object())
      complain(fmt::format("{} is {}; wanted: an object", where, shown(value)));
    if (!value.is_object()) return false;
    for (const auto& [key, unused] : value.items()) {
      const bool known = std::any_of(keys.begin(), keys.end(),
                                     [&key = key](const char* each) { return key == each; });
      if (!known)
        complain(fmt::format("{} has the unknown key {}; wanted: {}", where, shown(key),
                             fmt::join(keys, ", ")));
    }
    return ok();
  }

  // Returns the member, or null if it is missing, which is a complaint.
  const Json* member(const Json& object, const std::string& where, const char* key) {
    const auto found = object.find(key);
    if (found != object.end()) return &*found;
    complain(fmt::format("{}.{} is missing", where, key));
    return nullptr;
  }

  std::string text(const Json& object, const std::string& where, const char* key) {
    const Json* const value = member(object, where, key);
    if (value == nullptr) return {};
    if (is_text(*value)) return value->get<std::string>();
    complain(
        fmt::format("{}.{} is {}; wanted: up to {} characters, none of them a control character",
                    where, key, shown(*value), kTextMax));
    return {};
  }

  std::int64_t integer(const Json& value, const std::string& where, const KnobInfo& range) {
    const bool whole = value.is_number_integer();
    const bool huge =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    if (whole && !huge && in_range(range, value.get<std::int64_t>()))
      return value.get<std::int64_t>();
    complain(fmt::format("{} is {}; wanted: {}", where, shown(value), range_text(range)));
    return range.min;
  }

  std::int64_t integer(const Json& object, const std::string& where, const char* key,
                       std::pair<std::int64_t, std::int64_t> range) {
    const Json* const value = member(object, where, key);
    if (value == nullptr) return range.first;
    return integer(*value, fmt::format("{}.{}", where, key),
                   {{}, key, "", range.first, range.second, 1});
  }

  double positive(const Json& object, const std::string& where, const char* key) {
    const Json* const value = member(object, where, key);
    if (value == nullptr) return 0;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() >= 0)
      return value->get<double>();
    complain(fmt::format("{}.{} is {}; wanted: a number of 0 or more", where, key, shown(*value)));
    return 0;
  }

 private:
  std::string why_;
};

Measured read_measured(Reader& reader, const Json& json) {
  const std::string where = "measured";
  Measured measured;
  if (!reader.object(json, where,
                     {"kind", "when", "how", "label", "devices", "rails", "speed_mbps", "mtu"}))
    return measured;
  const std::string kind = reader.text(json, where, "kind");
  bool known = false;
  for (const Ground ground : {Ground::Model, Ground::Soft, Ground::Rdma}) {
    if (kind != ground_name(ground)) continue;
    measured.ground = ground;
    known = true;
  }
  if (!known)
    reader.complain(fmt::format("measured.kind is {}; wanted: model, soft or rdma", shown(kind)));
  measured.when = reader.text(json, where, "when");
  measured.how = reader.text(json, where, "how");
  measured.label = reader.text(json, where, "label");
  measured.rails = static_cast<std::uint32_t>(reader.integer(json, where, "rails", {1, 64}));
  measured.speed_mbps =
      static_cast<std::uint32_t>(reader.integer(json, where, "speed_mbps", {0, kMbpsMax}));
  measured.mtu = static_cast<std::uint32_t>(reader.integer(json, where, "mtu", {0, 65536}));
  const Json* const devices = reader.member(json, where, "devices");
  if (devices == nullptr) return measured;
  bool names = devices->is_array() && devices->size() <= kDevicesMax;
  for (const Json& device : names ? *devices : Json::array()) {
    names = names && is_text(device);
    if (names) measured.devices.push_back(device.get<std::string>());
  }
  if (!names)
    reader.complain(fmt::format("measured.devices is {}; wanted: up to {} names", shown(*devices),
                                kDevicesMax));
  return measured;
}

std::string knob_keys() {
  std::string keys;
  for (const KnobInfo& each : knob_table())
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", each.key);
  return keys;
}

KnobValues read_settings(Reader& reader, const Json& json) {
  KnobValues values;
  if (!json.is_object())
    reader.complain(fmt::format("settings is {}; wanted: an object", shown(json)));
  if (!json.is_object()) return values;
  for (const auto& [key, value] : json.items()) {
    const std::optional<Knob> knob = find_knob(key);
    if (knob) values[*knob] = reader.integer(value, "settings." + key, info(*knob));
    if (knob) continue;
    reader.complain(
        fmt::format("settings has the unknown key {}; wanted: {}", shown(key), knob_keys()));
  }
  const auto &inflight = values[Knob::InflightBytes], &request = values[Knob::WrBytes];
  if (inflight && request && *inflight < *request)
    reader.complain(fmt::format("settings.inflight_bytes is {}; wanted: at least wr_bytes, {}",
                                *inflight, *request));
  return values;
}

std::vector<SizeClass> read_sizes(Reader& reader, const Json& json) {
  std::vector<SizeClass> sizes;
  if (!json.is_array() || json.size() > kSizesMax) {
    reader.complain(fmt::format("sizes is {}; wanted: a list of up to {} size classes", shown(json),
                                kSizesMax));
    return sizes;
  }
  for (const Json& entry : json) {
    const std::string where = fmt::format("sizes[{}]", sizes.size());
    SizeClass& size = sizes.emplace_back();
    if (!reader.object(entry, where, {"bytes", "figure", "default_us", "tuned_us", "spread"}))
      return sizes;
    size.bytes = static_cast<std::uint64_t>(
        reader.integer(entry, where, "bytes", {0, std::int64_t{1} << 40}));
    size.figure = reader.text(entry, where, "figure");
    size.default_us = reader.positive(entry, where, "default_us");
    size.tuned_us = reader.positive(entry, where, "tuned_us");
    size.spread = reader.positive(entry, where, "spread");
  }
  return sizes;
}

// The version comes before the keys, because a later version may have others.
void check_format(Reader& reader, const Json& root) {
  if (!root.is_object()) return reader.complain("it is no JSON object");
  const std::string format = reader.text(root, "the file", "format");
  if (format != kProfileFormat)
    return reader.complain(
        fmt::format("format is {}; wanted: \"{}\"", shown(format), kProfileFormat));
  const auto version =
      reader.integer(root, "the file", "version", {1, std::numeric_limits<int>::max()});
  if (reader.ok() && version != kProfileVersion)
    reader.complain(fmt::format("version is {}; wanted: {}", version, kProfileVersion));
}

void read_document(Reader& reader, const Json& root, Profile& profile) {
  check_format(reader, root);
  if (!reader.ok()) return;
  if (!reader.object(root, "the file", {"format", "version", "measured", "settings", "sizes"}))
    return;
  if (const Json* const measured = reader.member(root, "the file", "measured"))
    profile.measured = read_measured(reader, *measured);
  if (const Json* const settings = reader.member(root, "the file", "settings"))
    profile.settings = read_settings(reader, *settings);
  if (root.contains("sizes")) profile.sizes = read_sizes(reader, root["sizes"]);
}

}  // namespace

std::optional<Profile> parse_profile(std::string_view text, std::string& why) {
  Reader reader;
  Profile profile;
  if (text.size() > kProfileBytesMax) {
    reader.complain(
        fmt::format("it has {} bytes; wanted: up to {}", text.size(), kProfileBytesMax));
  } else {
    const Json root = Json::parse(
        text,
        [&reader, keys = Keys()](int depth, Json::parse_event_t event, Json& parsed) mutable {
          if (event == Json::parse_event_t::object_start) keys.begin_object(depth);
          if (event == Json::parse_event_t::key && depth <= kDepthMax &&
              !keys.is_new(depth, parsed.get_ref<const std::string&>())) {
            reader.complain(fmt::format("the key {} stands twice in one object", shown(parsed)));
          }
          if (depth > kDepthMax) reader.complain("it is nested deeper than any profile");
          return depth <= kDepthMax;  // deeper values are dropped, so that every walk is bounded
        },
        false);
    if (root.is_discarded()) reader.complain("it is not JSON");
    if (reader.ok()) read_document(reader, root, profile);
  }
  why = reader.why();
  if (!reader.ok()) return std::nullopt;
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
