// The built library as a file: what it needs, and what it shows.

#include "tests/unit/plugin/program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace mesh::plugin {
namespace {

namespace fs = std::filesystem;

using testkit::joined;
using testkit::Outcome;
using testkit::run;

const std::vector<std::string> kPath = {"PATH=/usr/bin:/bin", "LC_ALL=C"};

TEST(SharedObject, NeedsNothingButLibc) {
  const Outcome readelf = run({"readelf", "-d", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(readelf.exit_status, 0) << joined(readelf.lines);
  const std::set<std::string> allowed = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2",
                                         "ld-linux-aarch64.so.1"};
  std::set<std::string> needed;
  for (const std::string& line : readelf.lines) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const std::size_t open = line.find('[');
    needed.insert(line.substr(open + 1, line.find(']') - open - 1));
  }
  EXPECT_TRUE(needed.contains("libc.so.6"));
  for (const std::string& name : needed) EXPECT_TRUE(allowed.contains(name)) << name;
}

// NCCL unloads the library with its last communicator, while a thread of ours may be about to
// return.
TEST(SharedObject, StaysLoadedAndResolvesAtOnce) {
  const std::string text = joined(run({"readelf", "-d", MESH_PLUGIN_FILE}, {}, kPath).lines);
  EXPECT_NE(text.find("NODELETE"), std::string::npos) << text;
  EXPECT_NE(text.find("BIND_NOW"), std::string::npos) << text;
}

TEST(SharedObject, ShowsOnlyTheTables) {
  const Outcome nm = run({"nm", "-D", "--defined-only", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(nm.exit_status, 0) << joined(nm.lines);
  std::set<std::string> shown;
  for (const std::string& line : nm.lines) shown.insert(line.substr(line.rfind(' ') + 1));
  std::set<std::string> expected;
  for (int version = 5; version <= 12; ++version)
    expected.insert("ncclNetPlugin_v" + std::to_string(version));
  EXPECT_EQ(shown, expected);
}

TEST(SharedObject, LiesUnderNcclsDefaultNameToo) {
  const fs::path link = fs::path(MESH_PLUGIN_FILE).parent_path() / "libnccl-net.so";
  std::error_code error;
  EXPECT_TRUE(fs::equivalent(link, MESH_PLUGIN_FILE, error)) << error.message();
}

}  // namespace
}  // namespace mesh::plugin
