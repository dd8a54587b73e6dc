#include "src/base/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace mesh {
namespace {

TEST(PluginPage, HoldsTheSettingsTableAsGenerated) {
  std::ifstream file(MESH_PLUGIN_PAGE_FILE);
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty()) << MESH_PLUGIN_PAGE_FILE;
  EXPECT_NE(text.str().find(settings_markdown()), std::string::npos)
      << "paste the output of mesh_settings --markdown";
}

}  // namespace
}  // namespace mesh
