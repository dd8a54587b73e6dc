#include "tuning/derive.h"

#include "tests/prelude.h"
#include "tuning/knob.h"

namespace mesh::tuning {
namespace {

TransferPolicy derive_from(const Settings& settings) {
  return derive_policy(FabricTraits{}, settings);
}

TEST(DerivePolicy, DefaultsOfSettingsAreDefaultsOfPolicy) {
  const TransferPolicy derived = derive_from(Settings{});
  const TransferPolicy expected;
  EXPECT_EQ(derived.qps, expected.qps);
  EXPECT_EQ(derived.signal_interval, expected.signal_interval);
  EXPECT_EQ(derived.inline_bytes, expected.inline_bytes);
  EXPECT_EQ(derived.slots, expected.slots);
  EXPECT_EQ(derived.rq_depth, expected.rq_depth);
  EXPECT_EQ(derived.sq_depth, expected.sq_depth);
  EXPECT_EQ(derived.express_bytes, expected.express_bytes);
  EXPECT_EQ(derived.stripe_bytes, expected.stripe_bytes);
  EXPECT_EQ(derived.wr_bytes, expected.wr_bytes);
  EXPECT_EQ(derived.inflight_bytes, expected.inflight_bytes);
  EXPECT_EQ(derived.inflight_us, 4000u);
}

TEST(DerivePolicy, EverySettingReachesThePolicy) {
  Settings settings;
  settings.qps = 7;
  settings.signal_interval = 5;
  settings.inline_bytes = 64;
  settings.slots = 128;
  settings.rq_depth = 32;
  settings.sq_depth = 1024;
  settings.express_bytes = 4096;
  settings.stripe_bytes = 131072;
  settings.wr_bytes = 262144;
  settings.inflight_bytes = 1 << 20;
  const TransferPolicy policy = derive_from(settings);
  EXPECT_EQ(policy.qps, 7u);
  EXPECT_EQ(policy.signal_interval, 5u);
  EXPECT_EQ(policy.inline_bytes, 64u);
  EXPECT_EQ(policy.slots, 128u);
  EXPECT_EQ(policy.rq_depth, 32u);
  EXPECT_EQ(policy.sq_depth, 1024u);
  EXPECT_EQ(policy.express_bytes, 4096u);
  EXPECT_EQ(policy.stripe_bytes, 131072u);
  EXPECT_EQ(policy.wr_bytes, 262144u);
  EXPECT_EQ(policy.inflight_bytes, 1u << 20);
  EXPECT_EQ(policy.inflight_us, 0u) << "bytes that were asked for do not depend on the port";
}

TEST(DerivePolicy, QpsStayWithinOneAndTheMost) {
  Settings settings;
  settings.qps = -7;
  EXPECT_EQ(derive_from(settings).qps, 1u);
  settings.qps = 33;
  EXPECT_EQ(derive_from(settings).qps, 32u);
}

TEST(DerivePolicy, InlineIsAtMostWhatTheDeviceGrants) {
  FabricTraits traits;
  traits.inline_bytes_max = 60;
  Settings settings;
  EXPECT_EQ(derive_policy(traits, settings).inline_bytes, 60u);
  settings.inline_bytes = 512;
  EXPECT_EQ(derive_policy(traits, settings).inline_bytes, 60u);
  settings.inline_bytes = 32;
  EXPECT_EQ(derive_policy(traits, settings).inline_bytes, 32u);
  settings.inline_bytes = 0;
  EXPECT_EQ(derive_policy(traits, settings).inline_bytes, 0u);
}

TEST(DerivePolicy, HalvesOfACableShareItsQueuePairs) {
  EXPECT_EQ(derive_policy({}, Settings{}).qps, 4u);
  EXPECT_EQ(derive_policy({}, Settings{}).half_qps, 2u);
  Settings settings;
  settings.qps = 8;
  EXPECT_EQ(derive_policy({}, settings).half_qps, 8u) << "what the user says holds";
}

TEST(DerivePolicy, NoWorkRequestIsLongerThanThePortTakes) {
  FabricTraits traits;
  traits.message_bytes_max = 5000;
  Settings settings;
  settings.express_bytes = 1 << 20;
  const TransferPolicy policy = derive_policy(traits, settings);
  EXPECT_EQ(policy.wr_bytes, 4992u);
  EXPECT_EQ(policy.express_bytes, 4992u);
  traits.message_bytes_max = 1;
  EXPECT_EQ(derive_policy(traits, settings).wr_bytes, 128u);
}

TEST(DerivePolicy, DepthsStayWithinTheDeviceAndPowersOfTwo) {
  FabricTraits traits;
  traits.qp_wr_max = 200;
  const TransferPolicy policy = derive_policy(traits, Settings{});
  EXPECT_EQ(policy.sq_depth, 128u);
  EXPECT_EQ(policy.rq_depth, 128u);
}

TEST(DerivePolicy, RingsAreRoundedDownToPowersOfTwo) {
  Settings settings;
  settings.slots = 65;
  settings.rq_depth = 1000;
  settings.sq_depth = 127;
  const TransferPolicy policy = derive_from(settings);
  EXPECT_EQ(policy.slots, 64u);
  EXPECT_EQ(policy.rq_depth, 512u);
  EXPECT_EQ(policy.sq_depth, 64u);
}

TEST(DerivePolicy, FourSignalsFitInASendQueue) {
  FabricTraits traits;
  traits.qp_wr_max = 16;
  Settings settings;
  settings.signal_interval = 64;
  EXPECT_EQ(derive_policy(traits, settings).signal_interval, 4u);
}

TEST(DerivePolicy, CutsAreWholeLines) {
  Settings settings;
  settings.stripe_bytes = 1000;
  settings.wr_bytes = 5000;
  const TransferPolicy policy = derive_from(settings);
  EXPECT_EQ(policy.stripe_bytes, 896u);
  EXPECT_EQ(policy.wr_bytes, 4992u);
}

TEST(DerivePolicy, OneWorkRequestAlwaysFitsInTheWindow) {
  Settings settings;
  settings.inflight_bytes = 1;
  settings.express_bytes = 1 << 30;
  const TransferPolicy policy = derive_from(settings);
  EXPECT_EQ(policy.inflight_bytes, policy.wr_bytes);
  EXPECT_EQ(policy.express_bytes, policy.wr_bytes);
}

void fill(Settings& settings, int value) {
  settings.qps = settings.signal_interval = settings.inline_bytes = settings.slots = value;
  settings.rq_depth = settings.sq_depth = value;
  settings.express_bytes = settings.stripe_bytes = settings.wr_bytes = settings.inflight_bytes =
      value;
}

TEST(DerivePolicy, AbsurdSettingsGiveAUsablePolicy) {
  for (const int value :
       {std::numeric_limits<int>::min(), -1, 0, 1, std::numeric_limits<int>::max()}) {
    Settings settings;
    fill(settings, value);
    const TransferPolicy policy = derive_from(settings);
    EXPECT_TRUE(policy.qps >= 1 && policy.qps <= kQpsMax) << value;
    EXPECT_TRUE(policy.signal_interval >= 1 && policy.signal_interval <= 64) << value;
    EXPECT_LE(policy.inline_bytes, 512u) << value;
    EXPECT_TRUE(std::has_single_bit(policy.slots) && policy.slots <= kSlotsMax) << value;
    EXPECT_TRUE(std::has_single_bit(policy.rq_depth) && std::has_single_bit(policy.sq_depth))
        << value;
    EXPECT_GE(policy.wr_bytes, kStripeAlign) << value;
    EXPECT_GE(policy.stripe_bytes, kStripeAlign) << value;
    EXPECT_GE(policy.inflight_bytes, policy.wr_bytes) << value;
  }
}

TEST(PolicyText, WhatIsSetComesBeforeTheDefaults) {
  Settings settings;
  settings.qps = 8;
  settings.wr_bytes = 262144;
  settings.given = {"NCCL_MESH_QPS", "NCCL_MESH_WR_BYTES"};
  EXPECT_EQ(policy_text(derive_policy({}, settings), settings),
            "set: qps 8, wr 256K; default: signal_interval 16, inline 220, express 8K, stripe 64K, "
            "inflight 8M");
}

TEST(PolicyText, TheQueuePairsOfHalvesAreNamedWhereTheyDiffer) {
  const std::string text = policy_text(derive_policy({}, {}), {});
  EXPECT_EQ(text.rfind("default: qps 4 (2 on a half cable), ", 0), 0u) << text;
}

TEST(PolicyText, AnExplicitAutoIsExplicit) {
  Settings settings;
  for (const KnobInfo& each : knob_table()) settings.given.emplace_back(each.setting);
  const std::string text = policy_text(derive_policy({}, settings), settings);
  EXPECT_EQ(text.rfind("set: qps 4 (2 on a half cable), ", 0), 0u) << text;
  EXPECT_EQ(text.find("default"), std::string::npos) << text;
}

}  // namespace
}  // namespace mesh::tuning
