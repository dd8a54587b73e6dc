#include "plugin/policy_choice.h"

#include "src/base/random.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/tuning/profile_text.h"

#include <gtest/gtest.h>

#include <fstream>

namespace mesh::plugin {
namespace {

using mesh::testkit::LogCapture;
using tuning::testkit::right_profile;

std::string file_with(const std::string& content) {
  std::string path = testing::TempDir() + "mesh_profile_" + std::to_string(random_u64());
  std::ofstream(path) << content;
  return path;
}

Settings naming(const std::string& profile) {
  Settings settings;
  settings.profile = profile;
  return settings;
}

FabricTraits rails() {
  FabricTraits traits;
  traits.fabric = "rdma";
  traits.devices = {"d0"};
  traits.rails = 2;
  traits.speed_mbps = 100'000;
  traits.mtu = 4096;
  return traits;
}

TEST(PolicyChoice, NothingNamedAndNothingThereIsNoProfile) {
  const LogCapture log;
  Settings settings;
  settings.profile_places = {"/nonexistent/a.json", "/nonexistent/b.json"};
  const Result<ProfileChoice> choice = load_profile(settings);
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->profile);
  EXPECT_EQ(log.joined(), "");
}

TEST(PolicyChoice, ANamedProfileMustBeThereAndRight) {
  auto wrong = right_profile();
  wrong["settings"]["qps"] = 64;
  const std::string text = wrong.dump(), key = "\"qps\":";
  const std::string file = file_with(text);
  struct Case {
    std::string profile, said;
  };
  for (const Case& each :
       {Case{"/nonexistent/p.json", "/nonexistent/p.json: it does not exist"},
        Case{"/proc", "/proc: it is not a regular file"},
        Case{file, fmt::format("{}: line 1, column {}: settings: qps is 64; wanted: 1..32", file,
                               text.find(key) + key.size() + 1)}}) {
    const LogCapture log;
    EXPECT_EQ(load_profile(naming(each.profile)).code(), Errc::InvalidArgument);
    ASSERT_EQ(log.all().size(), 1u) << log.joined();
    EXPECT_EQ(log.count(LogLevel::Warn, "NCCL_MESH_PROFILE " + each.said), 1) << log.joined();
  }
}

TEST(PolicyChoice, TheFirstUsualPlaceIsTakenAndNoneLeavesThemOut) {
  Settings settings;
  settings.profile_places = {"/nonexistent/a.json", file_with(right_profile().dump()), "/proc"};
  Result<ProfileChoice> choice = load_profile(settings);
  ASSERT_TRUE(choice.ok());
  ASSERT_TRUE(choice->profile);
  EXPECT_EQ(choice->file, settings.profile_places[1]);
  EXPECT_FALSE(choice->named);
  settings.profile = "none";
  choice = load_profile(settings);
  EXPECT_TRUE(choice.ok() && !choice->profile);
}

TEST(PolicyChoice, AWrongOneAtAUsualPlaceIsOneLineAndNoProfile) {
  const LogCapture log;
  Settings settings;
  settings.profile_places = {file_with("{"), file_with(right_profile().dump())};
  const Result<ProfileChoice> choice = load_profile(settings);
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->profile) << "a later place would be a surprise";
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Warn,
                      settings.profile_places[0] + " is ignored: line 1, column 2: it is not JSON"),
            1)
      << log.joined();
}

TEST(PolicyChoice, EachValueAndItsOriginIsToldOnce) {
  const LogCapture log;
  Settings settings = naming(file_with(right_profile().dump()));
  settings.wr_bytes = 524288;
  settings.given = {"NCCL_MESH_WR_BYTES"};
  const Result<ProfileChoice> choice = load_profile(settings);
  ASSERT_TRUE(choice.ok());
  const TransferPolicy policy = choose_policy(settings, *choice, rails());
  EXPECT_EQ(policy.qps, 2u);
  EXPECT_EQ(policy.wr_bytes, 524288u);
  ASSERT_EQ(log.all().size(), 2u) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info, "policy: set: wr 512K; profile: qps 2"), 1) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info,
                      "profile " + choice->file + ": measured 2026-11-21T01:02:03Z on rdma"),
            1)
      << log.joined();
}

TEST(PolicyChoice, OfOtherRailsIsLeftAsideWithALine) {
  Settings settings;
  const std::string file = file_with(right_profile().dump());
  FabricTraits traits = rails();
  traits.speed_mbps = 25'000;
  for (const bool named : {false, true}) {
    if (named) settings.profile = file;
    settings.profile_places = {file};
    const LogCapture log;
    EXPECT_EQ(choose_policy(settings, *load_profile(settings), traits).qps, 4u);
    const std::string line =
        "profile " + file + " is ignored: it was measured at 100000 Mb/s, here it is 25000";
    EXPECT_EQ(log.count(named ? LogLevel::Warn : LogLevel::Info, line), 1) << log.joined();
    EXPECT_EQ(log.count(LogLevel::Info, "policy: default: "), 1) << log.joined();
  }
}

}  // namespace
}  // namespace mesh::plugin
