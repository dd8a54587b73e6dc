#include "src/base/config.h"
#include "tests/unit/tuning/profile_text.h"
#include "tuning/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mesh::tuning {
namespace {

using nlohmann::json;
using testkit::right_profile;

TEST(ProfileJson, WhatIsWrittenIsRead) {
  Profile written;
  written.measured = {.ground = Ground::Model,
                      .when = "now",
                      .how = "mesh_tune --quick \"x\"",
                      .label = "model of a cable",
                      .devices = {"a", "b"},
                      .rails = 2,
                      .speed_mbps = 400'000,
                      .mtu = 1024};
  for (const KnobInfo& each : knob_table()) written.settings[each.knob] = each.max;
  written.sizes.push_back(
      {.bytes = 8, .figure = "one way", .default_us = 2.5, .tuned_us = 2.25, .spread = 0.125});
  std::string why;
  const std::optional<Profile> read = parse_profile(to_json(written), why);
  ASSERT_TRUE(read) << why;
  EXPECT_EQ(read->settings, written.settings);
  EXPECT_EQ(to_json(*read), to_json(written));
  EXPECT_EQ(read->measured.devices, written.measured.devices);
  EXPECT_EQ(read->sizes.at(0).spread, 0.125);
}

TEST(ProfileJson, AbsentSettingsStayTheDefaults) {
  json root = right_profile();
  root["settings"] = json::object();
  root.erase("sizes");
  std::string why;
  const std::optional<Profile> profile = parse_profile(root.dump(), why);
  ASSERT_TRUE(profile) << why;
  EXPECT_EQ(profile->settings, KnobValues());
}

std::string complaint(const std::string& text) {
  std::string why;
  EXPECT_FALSE(parse_profile(text, why)) << text;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  EXPECT_LT(why.size(), 400u) << why;
  return why;
}

struct Wrong {
  const char* place;  // a JSON pointer
  const char* value;  // JSON; empty: the member is removed
  const char* said;
};
class ProfileWrong : public testing::TestWithParam<Wrong> {};

TEST_P(ProfileWrong, IsOneLineThatNamesKeyValueAndRange) {
  json root = right_profile();
  const json::json_pointer place(GetParam().place);
  if (*GetParam().value == '\0') {
    root[place.parent_pointer()].erase(place.back());
  } else {
    root[place] = json::parse(GetParam().value);
  }
  const std::string why = complaint(root.dump());
  EXPECT_NE(why.find(GetParam().said), std::string::npos) << why;
}

INSTANTIATE_TEST_SUITE_P(
    EachKey, ProfileWrong,
    testing::Values(
        Wrong{"/format", R"("other")", R"(the file: format is "other"; wanted: nccl-mesh-profile)"},
        Wrong{"/format", "", "the file: format is missing"},
        Wrong{"/version", "2", "the file: version is 2; wanted: 1"},
        Wrong{"/version", "\"1\"", "the file: version is \"1\""},
        Wrong{"/version", "1.5", "the file: version is 1.5"},
        Wrong{"/more", "1", "unknown key \"more\""},
        Wrong{"/measured", "", "the file: measured is missing"},
        Wrong{"/measured", "[]", "measured is []; wanted: an object"},
        Wrong{"/measured/kind", "\"air\"",
              "measured: kind is \"air\"; wanted: model, soft or rdma"},
        Wrong{"/measured/kind", "7", "measured: kind is 7"},
        Wrong{"/measured/when", "", "measured: when is missing"},
        Wrong{"/measured/colour", "1", "measured has the unknown key \"colour\""},
        Wrong{"/measured/rails", "0", "measured: rails is 0; wanted: 1..64"},
        Wrong{"/measured/speed_mbps", "-1", "measured: speed_mbps is -1"},
        Wrong{"/measured/devices", "[1]", "measured: devices is [1]"},
        Wrong{"/measured/devices", "\"d0\"", "measured: devices is \"d0\""},
        Wrong{"/settings", "3", "settings is 3; wanted: an object"},
        Wrong{"/settings/qps", "0", "settings: qps is 0; wanted: 1..32"},
        Wrong{"/settings/qps", "33", "settings: qps is 33; wanted: 1..32"},
        Wrong{"/settings/qps", "\"4\"", "settings: qps is \"4\"; wanted: 1..32"},
        Wrong{"/settings/qps", "4.0", "settings: qps is 4.0; wanted: 1..32"},
        Wrong{"/settings/qps", "null", "settings: qps is null; wanted: 1..32"},
        Wrong{"/settings/qps", "18446744073709551615", "settings: qps is 18446744073709551615"},
        Wrong{"/settings/qps", "1e300", "settings: qps is 1e+300"},
        Wrong{"/settings/stripe_bytes", "1000",
              "settings: stripe_bytes is 1000; wanted: 128..1073741824, a multiple of 128"},
        Wrong{"/settings/threads", "1",
              "settings has the unknown key \"threads\"; wanted: qps, signal_interval"},
        Wrong{"/settings/inflight_bytes", "65536",
              "settings: inflight_bytes is 65536; wanted: at least wr_bytes, 262144"},
        Wrong{"/sizes", "{}", "sizes is {}; wanted: a list"},
        Wrong{"/sizes/0", "1", "sizes[0] is 1; wanted: an object"},
        Wrong{"/sizes/0/bytes", "-1", "sizes[0]: bytes is -1"},
        Wrong{"/sizes/0/spread", "\"x\"", "sizes[0]: spread is \"x\""}));

TEST(ProfileJson, WhatIsNoProfileAtAllIsSaid) {
  EXPECT_EQ(complaint(""), "line 1, column 1: it is not JSON");
  EXPECT_EQ(complaint("{\n\"format\": "), "line 2, column 11: it is not JSON");
  EXPECT_EQ(complaint("[1]"), "line 1, column 1: it is no JSON object");
  EXPECT_EQ(complaint("null"), "line 1, column 1: it is no JSON object");
  EXPECT_NE(complaint(std::string(kProfileBytesMax + 1, ' ')).find("bytes; wanted: up to"),
            std::string::npos);
}

// The log prints texts of a profile, and a line of the log must stay one line.
TEST(ProfileJson, ControlCharactersAreRefusedAndShownEscaped) {
  for (const char* const place : {"/measured/when", "/measured/label", "/measured/how",
                                  "/measured/devices/0", "/sizes/0/figure"}) {
    for (const char* const text : {"a\nINFO all is well", "\x1b[2J", "\x7f",
                                   "\xc2\x9b"
                                   "2J"}) {
      json root = right_profile();
      root[json::json_pointer(place)] = text;
      const std::string why = complaint(root.dump());
      EXPECT_TRUE(std::all_of(why.begin(), why.end(), [](char c) { return c >= ' ' && c <= '~'; }))
          << place << ": " << why;
    }
  }
  json root = right_profile();
  root["a\x1b[2J"] = 1;
  EXPECT_NE(complaint(root.dump()).find("unknown key \"a\\u001b[2J\""), std::string::npos)
      << complaint(root.dump());
  root = right_profile();
  root["format"] = "a\xc2\x9b";
  EXPECT_NE(complaint(root.dump()).find("\\u009b"), std::string::npos) << complaint(root.dump());
  root = right_profile();
  root["measured"]["label"] = "gr\xc3\xbc\xc3\x9f";  // other languages are welcome
  std::string why;
  EXPECT_TRUE(parse_profile(root.dump(), why)) << why;
}

TEST(ProfileJson, KeyThatStandsTwiceIsRefused) {
  const std::string right = right_profile().dump();
  for (const std::string key : {"\"version\":", "\"rails\":", "\"bytes\":"}) {
    std::string twice = right;
    const std::size_t at = twice.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    twice.insert(at, key + "1,");
    EXPECT_NE(complaint(twice).find("the key " + key.substr(0, key.size() - 1) + " stands twice"),
              std::string::npos)
        << key;
  }
  const json root = right_profile();
  std::string why;
  json two_sizes = root;
  two_sizes["sizes"].push_back(root["sizes"][0]);
  EXPECT_TRUE(parse_profile(two_sizes.dump(), why)) << "the same keys in two objects: " << why;
}

TEST(ProfileJson, NestingEndsSoon) {
  constexpr std::size_t kDeep = 100'000;
  EXPECT_NE(complaint(std::string(kDeep, '[') + std::string(kDeep, ']')).find("nested"),
            std::string::npos);
}

// Any prefix of a valid file, and any change of one byte, gives a profile or one line, never a
// crash.
TEST(ProfileJson, BrokenFilesAreLines) {
  const std::string right = right_profile().dump();
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::string why;
    EXPECT_FALSE(parse_profile(right.substr(0, i), why)) << i;
    EXPECT_FALSE(why.empty());
    std::string bent = right;
    for (const char other : {'\0', '9', '"', '{', '\xff', '-'}) {
      bent[i] = other;
      why.clear();
      const bool read = parse_profile(bent, why).has_value();
      EXPECT_EQ(read, why.empty()) << i;
    }
  }
}

// The ranges equal those of the settings: a profile accepts the least and the greatest value that
// config.cc accepts, and nothing beyond them.
TEST(ProfileJson, RangesAreThoseOfTheSettings) {
  for (const KnobInfo& each : knob_table()) {
    const auto by_settings = [&](std::int64_t value) {
      Environment environment{{each.setting, std::to_string(value)}};
      if (each.knob == Knob::WrBytes) environment["NCCL_MESH_INFLIGHT_BYTES"] = "64G";
      if (each.knob == Knob::InflightBytes) environment["NCCL_MESH_WR_BYTES"] = "4K";
      return load_settings(environment).ok();
    };
    for (const std::int64_t value :
         {each.min, each.max, each.min + 1, each.max - 1, each.max + 1, each.max + each.multiple})
      EXPECT_EQ(in_range(each, value), by_settings(value)) << each.key << " " << value;
    // -1 means "auto" in the environment. A profile says that by omitting the key.
    if (each.min == 0) continue;
    EXPECT_EQ(in_range(each, each.min - 1), by_settings(each.min - 1)) << each.key;
  }
}

}  // namespace
}  // namespace mesh::tuning
