#include "tuning/knob.h"

#include "tests/prelude.h"
#include "tuning/derive.h"

namespace mesh::tuning {
namespace {

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
