#include "tuning/profile.h"

#include "tests/unit/tuning/profile_text.h"
#include "tuning/derive.h"

#include <gtest/gtest.h>

namespace mesh::tuning {
namespace {

Profile right() {
  std::string why;
  return parse_profile(testkit::right_profile().dump(), why).value();
}

FabricTraits same_rails() {
  FabricTraits traits;
  traits.fabric = "rdma";
  traits.devices = {"d0", "d1"};
  traits.rails = 2;
  traits.speed_mbps = 100'000;
  traits.mtu = 4096;
  return traits;
}

TEST(Profile, HoldsForRailsLikeThoseItWasTakenOn) {
  EXPECT_EQ(mismatch(right().measured, same_rails()), "");
}

TEST(Profile, AnyOtherRailIsNamed) {
  const Measured measured = right().measured;
  FabricTraits traits = same_rails();
  traits.fabric = "soft";
  EXPECT_EQ(mismatch(measured, traits), "it was measured on fabric rdma, this is soft");
  traits = same_rails();
  traits.devices = {"d0", "d2"};
  EXPECT_EQ(mismatch(measured, traits), "it was measured on d0, d1, and d2 is in use here");
  traits = same_rails();
  traits.rails = 1;
  EXPECT_EQ(mismatch(measured, traits), "it was measured on 2 rails, here are 1");
  traits = same_rails();
  traits.speed_mbps = 200'000;
  EXPECT_EQ(mismatch(measured, traits), "it was measured at 100000 Mb/s, here it is 200000");
  traits = same_rails();
  traits.mtu = 1024;
  EXPECT_EQ(mismatch(measured, traits), "it was measured with MTU 4096, here it is 1024");
}

TEST(Profile, OfAModelHoldsForAnyDeviceOfThatSpeed) {
  Measured measured = right().measured;
  measured.ground = Ground::Model;
  measured.devices.clear();
  FabricTraits traits = same_rails();
  EXPECT_EQ(mismatch(measured, traits), "");
  traits.speed_mbps = 200'000;
  EXPECT_NE(mismatch(measured, traits), "");
}

TEST(Profile, StandsBetweenWhatIsSetAndTheDefault) {
  const Profile profile = right();
  Settings settings;
  settings.qps = 8;
  settings.given = {"NCCL_MESH_QPS"};
  const Origins origins = apply_profile(&profile, settings);
  EXPECT_EQ(settings.qps, 8) << "set explicitly";
  EXPECT_EQ(settings.express_bytes, 4096) << "from the profile";
  EXPECT_EQ(settings.signal_interval, 16) << "the default";
  const std::string text = choice_text(derive_policy(same_rails(), settings), origins);
  EXPECT_EQ(text,
            "set: qps 8; profile: express 4K, wr 256K, inflight 4M; default: signal_interval 16, "
            "inline 220, stripe 64K");
}

TEST(Profile, TheQueuePairsOfHalvesAreNamedWhereTheyDiffer) {
  Settings settings;
  const Origins origins = apply_profile(nullptr, settings);
  const std::string text = choice_text(derive_policy(same_rails(), settings), origins);
  EXPECT_EQ(text.rfind("default: qps 4 (2 on a half cable), ", 0), 0u) << text;
}

TEST(Profile, AnExplicitAutoIsExplicit) {
  const Profile profile = right();
  Settings settings;
  settings.given = {"NCCL_MESH_QPS", "NCCL_MESH_INFLIGHT_BYTES"};
  apply_profile(&profile, settings);
  EXPECT_EQ(settings.qps, kAuto);
  EXPECT_EQ(settings.inflight_bytes, kAuto);
}

TEST(Profile, NoneLeavesEverythingAsItWas) {
  Settings settings;
  settings.given = {"NCCL_MESH_INLINE"};
  const Origins origins = apply_profile(nullptr, settings);
  EXPECT_EQ(settings.qps, kAuto);
  EXPECT_EQ(origins.of[static_cast<std::size_t>(Knob::InlineBytes)], Origin::Set);
  EXPECT_EQ(origins.of[static_cast<std::size_t>(Knob::Qps)], Origin::Default);
}

// With less in flight than one work request, the profile's value gives way.
TEST(Profile, WhereSettingsAndProfileContradictTheSettingHolds) {
  Profile profile = right();
  Settings settings;
  settings.inflight_bytes = 100'000;
  settings.given = {"NCCL_MESH_INFLIGHT_BYTES"};
  apply_profile(&profile, settings);
  EXPECT_EQ(settings.inflight_bytes, 100'000);
  EXPECT_EQ(settings.wr_bytes, 99'968) << "whole lines";
  Settings other;
  other.wr_bytes = 8 << 20;
  other.given = {"NCCL_MESH_WR_BYTES"};
  apply_profile(&profile, other);
  EXPECT_EQ(other.wr_bytes, 8 << 20);
  EXPECT_EQ(other.inflight_bytes, 8 << 20);
}

}  // namespace
}  // namespace mesh::tuning
