// The built library as a file: the libraries it needs and the symbols it exports.

#include "tests/unit/plugin/program.h"

#include "tests/prelude.h"

#include <link.h>

namespace mesh::plugin {
namespace {

namespace fs = std::filesystem;

using testkit::joined, testkit::Outcome, testkit::run;

// The symbols that NCCL finds if one-shot all-reduce is asked for.
const std::vector<std::string> kOnDemand = {
    "ncclCollNetPlugin_v8",  "ncclCollNetPlugin_v9",  "ncclCollNetPlugin_v10",
    "ncclCollNetPlugin_v11", "ncclCollNetPlugin_v12", "ncclTunerPlugin_v3",
    "ncclTunerPlugin_v4",    "ncclTunerPlugin_v5",    "ncclTunerPlugin_v6"};

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

// NCCL unloads the library with its last communicator while a thread of ours may still run in it.
TEST(SharedObject, StaysLoadedAndResolvesAtOnce) {
  const std::string text = joined(run({"readelf", "-d", MESH_PLUGIN_FILE}, {}, kPath).lines);
  EXPECT_NE(text.find("NODELETE"), std::string::npos) << text;
  EXPECT_NE(text.find("BIND_NOW"), std::string::npos) << text;
}

TEST(SharedObject, ShowsOnlyTheTablesAndTheSnapshot) {
  const Outcome nm = run({"nm", "-D", "--defined-only", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(nm.exit_status, 0) << joined(nm.lines);
  std::set<std::string> shown;
  for (const std::string& line : nm.lines) shown.insert(line.substr(line.rfind(' ') + 1));
  std::set<std::string> expected;
  for (int version = 5; version <= 12; ++version)
    expected.insert("ncclNetPlugin_v" + std::to_string(version));
  expected.insert("nccl_mesh_snapshot");
  for (const std::string& name : kOnDemand) expected.insert(name);
  EXPECT_EQ(shown, expected);
}

// The loader allocates such memory for each thread of the application that touches it.
TEST(SharedObject, HasNoThreadLocalMemoryOfItsOwn) {
  const Outcome readelf = run({"readelf", "-sW", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(readelf.exit_status, 0) << joined(readelf.lines);
  std::set<std::string> variables;
  for (const std::string& line : readelf.lines) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (line.find(" TLS ") != std::string::npos && name.find("4mesh") != std::string::npos)
      variables.insert(name);
  }
  EXPECT_EQ(variables, std::set<std::string>());
}

// A CollNet or a tuner that NCCL finds changes what NCCL does.
TEST(SharedObject, HidesCollNetAndTunerUnlessTheyAreAskedFor) {
  void* const library = ::dlopen(MESH_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const std::string& name : kOnDemand) {
    ::unsetenv("NCCL_MESH_ONESHOT_BYTES");
    EXPECT_EQ(::dlsym(library, name.c_str()), nullptr) << name;
    for (const char* nothing : {"", "0", "0K", "0x0"}) {
      ::setenv("NCCL_MESH_ONESHOT_BYTES", nothing, 1);
      EXPECT_EQ(::dlsym(library, name.c_str()), nullptr) << name << " for '" << nothing << "'";
    }
    ::setenv("NCCL_MESH_ONESHOT_BYTES", "64K", 1);
    const void* const table = ::dlsym(library, name.c_str());
    ASSERT_NE(table, nullptr) << name;
    const char* named = nullptr;  // each table begins with a name
    std::memcpy(&named, table, sizeof(named));
    EXPECT_EQ(std::string(named).substr(0, 4), "Mesh");
  }
  ::unsetenv("NCCL_MESH_ONESHOT_BYTES");
  ::dlclose(library);
}

// Checks the name and the number of arguments of each probe, as a tracer finds them.
TEST(SharedObject, HasProbesForATracer) {
#if !__has_include(<sys/sdt.h>)
  GTEST_SKIP() << "built without sys/sdt.h (systemtap-sdt-dev)";
#endif
  const Outcome readelf = run({"readelf", "--notes", "--wide", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(readelf.exit_status, 0) << joined(readelf.lines);
  std::map<std::string, std::set<std::ptrdiff_t>> arguments;
  std::string provider, name;
  for (const std::string& line : readelf.lines) {
    if (const std::size_t at = line.find("Provider: "); at != std::string::npos)
      provider = line.substr(at + 10);
    if (const std::size_t at = line.find("Name: "); at != std::string::npos)
      name = line.substr(at + 6);
    const std::size_t at = line.find("Arguments: ");
    if (at == std::string::npos || provider != "nccl_mesh") continue;
    arguments[name].insert(
        std::count(line.begin() + static_cast<std::ptrdiff_t>(at), line.end(), '@'));
  }
  const std::map<std::string, std::set<std::ptrdiff_t>> expected{
      {"posted", {4}}, {"completed", {3}}, {"path_lost", {3}}, {"path_back", {3}}};
  EXPECT_EQ(arguments, expected) << joined(readelf.lines);
}

// The library must load with glibc 2.34 and later: many containers have Ubuntu 22.04 with 2.35.
TEST(SharedObject, NeedsNoSymbolOfAGlibcAbove2_34) {
  const Outcome readelf = run({"readelf", "--version-info", "--wide", MESH_PLUGIN_FILE}, {}, kPath);
  ASSERT_EQ(readelf.exit_status, 0) << joined(readelf.lines);
  const std::string text = joined(readelf.lines);
  const std::regex version("GLIBC_(\\d+)\\.(\\d+)");
  int found = 0;
  for (std::sregex_iterator each(text.begin(), text.end(), version), end; each != end; ++each) {
    ++found;
    EXPECT_EQ((*each)[1], "2") << each->str();
    EXPECT_LE(std::stoi((*each)[2]), 34) << each->str();
  }
  EXPECT_GT(found, 0) << text;
}

// A malformed file throws an exception inside the library, which must be caught there.
TEST(SharedObject, ThrowsAndCatchesWithItsOwnUnwinder) {
  const fs::path file = fs::path(testing::TempDir()) / "mesh_malformed_fabric.json";
  std::ofstream(file) << "{\"hosts\": [ {\"name\": 7} ]}";
  std::vector<std::string> environment = kPath;
  environment.push_back("NCCL_MESH_FABRIC=soft:" + file.string());
  const Outcome outcome = run({MESH_LOAD_FILE, MESH_PLUGIN_FILE}, {}, environment);
  fs::remove(file);
  EXPECT_EQ(outcome.exit_status, 0) << joined(outcome.lines);
  EXPECT_NE(joined(outcome.lines).find("WARN NET/Mesh : "), std::string::npos)
      << joined(outcome.lines);
  EXPECT_EQ(joined(outcome.lines).find("loaded 0"), std::string::npos) << joined(outcome.lines);
  EXPECT_NE(joined(outcome.lines).find("loaded "), std::string::npos) << joined(outcome.lines);
}

std::set<std::string> installed_with(const std::vector<std::string>& options) {
  const fs::path root = fs::path(testing::TempDir()) / "mesh_install_test";
  fs::remove_all(root);
  std::vector<std::string> command = {MESH_CMAKE_FILE, "-DCMAKE_INSTALL_PREFIX=/usr/local",
                                      "-DCMAKE_INSTALL_COMPONENT=library"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"-P", MESH_INSTALL_FILE});
  std::vector<std::string> environment = kPath;
  environment.push_back("DESTDIR=" + root.string());
  const Outcome outcome = run(command, {}, environment);
  EXPECT_EQ(outcome.exit_status, 0) << joined(outcome.lines);
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_directory()) names.insert(entry.path().filename());
  }
  fs::remove_all(root);
  return names;
}

// NCCL loads libnccl-net.so without being asked.
TEST(Install, NcclsDefaultNameIsThereOnlyForThoseWhoAsk) {
  EXPECT_EQ(installed_with({}), (std::set<std::string>{"libnccl-net-mesh.so", "nccl-net-mesh.pc"}));
  EXPECT_EQ(installed_with({"-DMESH_INSTALL_AS_DEFAULT=ON"}),
            (std::set<std::string>{"libnccl-net-mesh.so", "libnccl-net.so", "nccl-net-mesh.pc"}));
}

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !DLFO_STRUCT_HAS_EH_DBASE && !DLFO_STRUCT_HAS_EH_COUNT

// The library's own _dl_find_object, linked into this program, compared with glibc's.
using Find = int (*)(void*, dl_find_object*);

TEST(FindObject, AnswersAsGlibcDoes) {
  const auto glibcs = reinterpret_cast<Find>(::dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35"));
  if (glibcs == nullptr) GTEST_SKIP() << "this glibc has none";
  ASSERT_NE(glibcs, &::_dl_find_object) << "ours is not linked in";
  int here = 0;
  const auto throwing = static_cast<int (*)(const std::string&, std::size_t*, int)>(std::stoi);
  for (void* const address :
       {reinterpret_cast<void*>(&::dlopen), reinterpret_cast<void*>(throwing),
        reinterpret_cast<void*>(static_cast<void (*)(int*, char**)>(&::testing::InitGoogleTest))}) {
    dl_find_object ours{}, theirs{};
    ASSERT_EQ(::_dl_find_object(address, &ours), 0);
    ASSERT_EQ(glibcs(address, &theirs), 0);
    EXPECT_EQ(ours.dlfo_eh_frame, theirs.dlfo_eh_frame);
    EXPECT_LE(ours.dlfo_map_start, address);
    EXPECT_GT(ours.dlfo_map_end, address);
  }
  dl_find_object none{};
  EXPECT_EQ(::_dl_find_object(&here, &none), -1) << "the stack is in no object";
  EXPECT_EQ(::_dl_find_object(nullptr, &none), -1);
}

#endif

}  // namespace
}  // namespace mesh::plugin
