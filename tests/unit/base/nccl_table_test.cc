#include "src/base/nccl_table.h"
#include "src/base/settings_table.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(NcclTable, HonouredAreExactlyThoseThatAreReadAndHaveAnEffect) {
  std::set<std::string_view> honoured;
  for (const NcclSetting& setting : nccl_table()) {
    if (setting.standing == Standing::Honoured) honoured.insert(setting.name);
  }
  std::set<std::string_view> read;
  for (const Setting& setting : settings_table()) {
    if (std::string_view(setting.doc).ends_with("No effect yet.")) continue;
    for (const char* name : {setting.name, setting.fallback}) {
      if (name != nullptr && std::string_view(name).starts_with("NCCL_IB_")) read.insert(name);
    }
  }
  EXPECT_EQ(honoured, read);
}

// NCCL 2.30.7 has 46 settings: each NCCL_PARAM whose name begins with IB_, and three texts (the HCA
// and two for addresses). Six more are known of 2.31.2 and 2.32.
TEST(NcclTable, NamesEachSettingOnceInOrder) {
  EXPECT_EQ(nccl_table().size(), 46u + 6u);
  std::string_view before;
  for (const NcclSetting& setting : nccl_table()) {
    EXPECT_LT(before, setting.name);
    before = setting.name;
  }
}

}  // namespace
}  // namespace mesh
