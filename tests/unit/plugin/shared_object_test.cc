// The built library as a file: what it needs, what it shows, and that it loads where there is
// nothing but libc.

#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace mesh::plugin {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit_status = -1;
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

std::vector<char*> null_terminated(std::vector<std::string>& words) {
  std::vector<char*> pointers(words.size() + 1, nullptr);
  std::transform(words.begin(), words.end(), pointers.begin(),
                 [](std::string& word) { return word.data(); });
  return pointers;
}

// root empty: where we are.
Outcome run(std::vector<std::string> command, const fs::path& root,
            std::vector<std::string> environment) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {};
  std::vector<char*> argv = null_terminated(command);
  std::vector<char*> envp = null_terminated(environment);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    if (!root.empty() && (::chroot(root.c_str()) != 0 || ::chdir("/") != 0)) ::_exit(126);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  Outcome outcome;
  outcome.lines = lines_of(read_all(pipe[0]));
  ::close(pipe[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status))
    outcome.exit_status = WEXITSTATUS(status);
  return outcome;
}

const std::vector<std::string> kPath = {"PATH=/usr/bin:/bin", "LC_ALL=C"};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

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

// The files this process itself was loaded with, by their names.
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
        return 1;  // the program is the first
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
    return run({"/load", "/plugin.so"}, root_, environment);
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
