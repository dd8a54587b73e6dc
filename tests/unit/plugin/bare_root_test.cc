// The built library loads in a root directory with nothing but libc.

#include "tests/unit/plugin/program.h"

#include "tests/prelude.h"

#include <link.h>

namespace mesh::plugin {
namespace {

namespace fs = std::filesystem;

using testkit::joined, testkit::Outcome;

// Returns the path of the library with that name in this process.
fs::path loaded_file(const std::string& name) {
  struct Search {
    std::string name;
    fs::path found;
  } search{name, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto* const wanted = static_cast<Search*>(argument);
        if (fs::path(info->dlpi_name).filename() == wanted->name) wanted->found = info->dlpi_name;
        return 0;
      },
      &search);
  return search.found;
}

std::string program_interpreter() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type == PT_INTERP) {
            *static_cast<std::string*>(argument) =
                reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          }
        }
        return 1;  // the program comes first
      },
      &path);
  return path;
}

// A root directory with libc, libm, the loader, the plugin and load_main, and no /sys, /proc, /dev
// or /etc.
class BareRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
    std::string pattern = (fs::temp_directory_path() / "mesh-root-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    const fs::path interpreter = program_interpreter();
    ASSERT_FALSE(interpreter.empty());
    put(interpreter, interpreter);
    for (const char* const name : {"libc.so.6", "libm.so.6"}) {
      const fs::path file = loaded_file(name);
      ASSERT_FALSE(file.empty()) << name;
      put(file, fs::path("/lib") / name);
    }
    put(MESH_PLUGIN_FILE, "/plugin.so");
    put(MESH_LOAD_FILE, "/load");
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }

  void put(const fs::path& file, const fs::path& as) {
    const fs::path target = root_ / as.relative_path();
    fs::create_directories(target.parent_path());
    fs::copy_file(file, target);
  }
  Outcome load(std::vector<std::string> environment) const {
    environment.emplace_back("LD_LIBRARY_PATH=/lib");
    return testkit::run({"/load", "/plugin.so"}, root_, environment);
  }
  static long count(const Outcome& outcome, const std::string& start, const std::string& word) {
    return std::count_if(outcome.lines.begin(), outcome.lines.end(), [&](const std::string& line) {
      return line.starts_with(start) && line.find(word) != std::string::npos;
    });
  }

  fs::path root_;
};

TEST_F(BareRoot, WithoutLibibverbsInitFailsQuietlyInOneLine) {
  const Outcome outcome = load({});
  const std::string text = joined(outcome.lines);
  ASSERT_EQ(outcome.exit_status, 0) << text;
  EXPECT_EQ(count(outcome, "loaded 2 0", ""), 1) << text;
  EXPECT_EQ(count(outcome, "INFO", "libibverbs"), 1) << text;
  EXPECT_EQ(count(outcome, "WARN", ""), 0) << text;
}

TEST_F(BareRoot, OnTheSoftwareFabricItRunsAndMissesHwlocInOneLine) {
  std::ofstream(root_ / "fabric.json") << R"({"name": "pair",
    "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.1.1/24"}]},
              {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.1.2/24"}]}],
    "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";
  const Outcome outcome =
      load({"NCCL_MESH_FABRIC=soft:/fabric.json", "NCCL_MESH_HOST=a", "NCCL_MESH_THREADS=1"});
  const std::string text = joined(outcome.lines);
  ASSERT_EQ(outcome.exit_status, 0) << text;
  EXPECT_EQ(count(outcome, "loaded 0 1", ""), 1) << text;
  EXPECT_EQ(count(outcome, "INFO", "hwloc"), 1) << text;
  EXPECT_EQ(count(outcome, "WARN", ""), 0) << text;
}

}  // namespace
}  // namespace mesh::plugin
