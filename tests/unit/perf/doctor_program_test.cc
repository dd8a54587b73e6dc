// The program mesh_doctor on two hosts of the software fabric, with faults planted into their
// files. A fault of one host is reported on that host and nowhere else.
#include "perf/driver/command_line.h"
#include "perf/mesh_doctor/report.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/perf/planted_host.h"
#include "tests/unit/perf/shell.h"

#include <nlohmann/json.hpp>

namespace mesh::doctor {
namespace {

using driver::kUsage;

using testkit::Ran;
using Names = std::vector<std::string>;

Ran run(const std::string& arguments, const std::string& settings = {}) {
  return testkit::run_line("env -u NCCL_NET_PLUGIN -u LD_LIBRARY_PATH -u LD_PRELOAD " + settings +
                           " " MESH_DOCTOR_FILE " " + arguments + " 2>/dev/null");
}

class DoctorProgram : public testing::Test {
 protected:
  DoctorProgram() {
    a_.remove_cards();  // the fabric has the cards
    b_.remove_cards();
  }

  // Returns each finding as "name on host".
  Names look(const std::string& settings = "NCCL_NET_PLUGIN=/opt/mesh/libnccl-net-mesh.so") {
    const Ran ran = run(
        "--fabric " MESH_FABRIC_DIR "/pair.json --quick --json --root " + folder_.root(), settings);
    code_ = ran.code;
    const auto report = nlohmann::json::parse(ran.text, nullptr, false);
    if (!report.is_object()) return {"no report: " + ran.text};
    Names found;
    for (const auto& each : report["findings"])
      found.push_back(each["name"].get<std::string>() + " on " + each["host"].get<std::string>());
    return found;
  }

  testkit::Folder folder_;
  PlantedHost a_{folder_.path("a")}, b_{folder_.path("b")};
  int code_ = -1;
};

TEST_F(DoctorProgram, ASmallLimitOfLockedMemoryIsNamedOnItsHost) {
  a_.write("proc/self/limits", "Max locked memory         65536                65536      bytes");
  EXPECT_EQ(look(), Names{"memlock-small on a"});
  EXPECT_EQ(code_, kBroken);
}

TEST_F(DoctorProgram, AFileOfSettingsReachesThePluginAsInAJob) {
  a_.write("etc/nccl.conf", "NCCL_IB_HCA==nothing");
  const Ran ran = run("--root " + folder_.root() + " --json",
                      "NCCL_MESH_FABRIC=soft:" MESH_FABRIC_DIR "/pair.json NCCL_MESH_HOST=a");
  EXPECT_EQ(ran.code, kBroken);
  EXPECT_NE(ran.text.find("NCCL_IB_HCA==nothing leaves no port of a"), std::string::npos)
      << ran.text;
}

// mesh_doctor must neither replace the job's page nor leave another one.
TEST_F(DoctorProgram, HealthyHostsHaveNoFindingAndNoPageOfMetricsIsLeft) {
  const std::string page = folder_.path("job.prom");
  EXPECT_EQ(look("NCCL_NET_PLUGIN=/opt/mesh/libnccl-net-mesh.so NCCL_MESH_STATS=" + page), Names{});
  EXPECT_EQ(code_, kHealthy);
  EXPECT_FALSE(std::filesystem::exists(page));
}

TEST_F(DoctorProgram, ASettingThatThePluginRefusesIsNamed) {
  const Ran ran = run("--root " + folder_.root() + " --json",
                      "NCCL_MESH_FABRIC=soft:" MESH_FABRIC_DIR
                      "/pair.json NCCL_MESH_HOST=a "
                      "NCCL_MESH_QPS=99 NCCL_NET_PLUGIN=/opt/mesh/libnccl-net-mesh.so");
  EXPECT_EQ(ran.code, kBroken);
  const auto report = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_TRUE(report.is_object()) << ran.text;
  ASSERT_EQ(report["findings"].size(), 1u) << ran.text;
  const auto& found = report["findings"][0];
  EXPECT_EQ(found["name"], "no-plugin");
  EXPECT_NE(found["evidence"].get<std::string>().find("NCCL_MESH_QPS: '99'"), std::string::npos);
  EXPECT_EQ(found["remedy"].get<std::string>().find("lspci"), std::string::npos);
}

// The plugin knows a port that is down and has an address: no driver is missing.
TEST_F(DoctorProgram, APortThatIsDownIsNotTakenForOneWithoutADriver) {
  a_.write("sys/class/infiniband/mesh1/ports/1/state", "1: DOWN");
  a_.write("fabric.json", R"({"name": "down", "hosts": [
      {"name": "a", "nics": [{"name": "mesh0", "address": "10.0.1.1/24"},
                             {"name": "mesh1", "address": "10.0.2.1/24"}]},
      {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.1.2/24"}]}],
      "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})");
  const Ran ran = run("--json --root " + folder_.root(),
                      "NCCL_NET_PLUGIN=/opt/mesh/libnccl-net-mesh.so NCCL_MESH_HOST=a "
                      "NCCL_MESH_FABRIC=soft:" +
                          a_.root() + "/fabric.json");
  const auto report = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_TRUE(report.is_object()) << ran.text;
  EXPECT_EQ(report["findings"], nlohmann::json::array()) << ran.text;
}

TEST_F(DoctorProgram, AFileThatCannotBeWrittenIsNoSuccess) {
  const std::string fabric = "--fabric " MESH_FABRIC_DIR "/pair.json --quick --root ";
  EXPECT_EQ(run(fabric + folder_.root() + " --write-map /no/such/folder/map").code, kUsage);
}

TEST(DoctorUsage, WithoutAPluginItSaysSo) {
  const Ran ran = run("--quick --plugin /no/such/plugin.so --root " + testing::TempDir());
  EXPECT_EQ(ran.code, kBroken);
  EXPECT_NE(ran.text.find("BROKEN  no-plugin: "), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace mesh::doctor
