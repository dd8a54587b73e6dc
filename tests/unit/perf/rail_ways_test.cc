// mesh_rails: its lines about the ways within a host, and the program on a host that does not
// exist.
#include "perf/mesh_rails/rail_ways.h"

#include "src/topo/ways.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/perf/shell.h"
#include "tests/unit/topo/hwloc_xml.h"

#include <nlohmann/json.hpp>

namespace mesh::rails {
namespace {

using testkit::HwlocXml;

topo::HostParts two_sockets() {
  using topo::PartKind;
  return {.parts =
              {{.kind = PartKind::Package, .name = "CPU package 0"},
               {.kind = PartKind::Package, .name = "CPU package 1"},
               {.kind = PartKind::Memory, .name = "memory node 0"},
               {.kind = PartKind::Memory, .name = "memory node 1"},
               {.kind = PartKind::HostBridge, .name = "host bridge 0"},
               {.kind = PartKind::Device, .name = "0000:14:00.0"},
               {.kind = PartKind::Device, .name = "0000:12:00.0", .gpu = true, .os_name = "cuda0"}},
          .joints = {{0, 2, topo::kWide},
                     {1, 3, topo::kWide},
                     {0, 1, 0},
                     {4, 3, topo::kWide},
                     {5, 4, 252.06},
                     {6, 4, 7.877}}};
}

TEST(RailWays, OfOneKindAndWidthShareALineNearestFirst) {
  const topo::HostParts host = two_sockets();
  RailWays ways = ways_of(host, "0000:14:00.0");
  ways.poller_cpu = 31;
  EXPECT_EQ(ways_text(host, ways, "mlx5_0:1"),
            "mlx5_0:1    host bridge       PHB  252 Gb/s        CPU package 1, memory node 1\n"
            "            host bridge       PHB  7.9 Gb/s        GPU 0000:12:00.0 (cuda0)\n"
            "            two sockets       SYS  up to 252 Gb/s  CPU package 0, memory node 0\n"
            "            a poller goes to CPU 31; host buffers are nearest on memory node 1\n");
}

TEST(RailWays, JsonHasThemOneByOne) {
  const topo::HostParts host = two_sockets();
  nlohmann::ordered_json rail;
  add_ways(host, ways_of(host, "0000:14:00.0"), rail);
  ASSERT_EQ(rail["ways"].size(), 5u) << rail.dump(2);
  EXPECT_EQ(rail["ways"][0].dump(), R"({"to":"CPU package 0","kind":"two sockets",)"
                                    R"("nccl_class":"SYS","gbps":252.06,"at_most":true})");
  EXPECT_EQ(rail["ways"][4]["to"], "GPU 0000:12:00.0");
  EXPECT_EQ(rail["ways"][4]["os_name"], "cuda0");
  EXPECT_EQ(rail["near_memory"].dump(), R"(["memory node 1"])");
  EXPECT_FALSE(rail.contains("poller_cpu"));
}

TEST(RailWays, OfADeviceThatTheHostDoesNotHaveNothingIsTold) {
  const topo::HostParts host = two_sockets();
  const RailWays ways = ways_of(host, "0000:99:00.0");
  EXPECT_EQ(ways_text(host, ways, "mlx5_9:1"), "");
  nlohmann::ordered_json rail;
  add_ways(host, ways, rail);
  EXPECT_TRUE(rail.empty());
}

TEST(RailWaysProgram, TellsTheWaysOfEachNicOfAHostWithTwoSockets) {
  if (!topo::read_host_parts().ok()) GTEST_SKIP() << "libhwloc.so.15 is not on this machine";
  HwlocXml xml(2);
  const auto tree = [&xml](const char* domain, const char* port, const char* nic) {
    return xml.host_bridge(
        domain, xml.bridge({port, 31.5}, xml.device({.address = nic, .gbytes_per_s = 31.5})));
  };
  const std::string first = tree("0000", "0000:00:01.0", "0000:01:00.0");
  const testkit::Folder folder;
  const std::string parts =
      folder.write("host.xml", xml.host(first, tree("0001", "0001:00:01.0", "0001:01:00.0")));
  const std::string fabric = folder.write("fabric.json", R"({"name": "two", "hosts": [
    {"name": "a", "nics": [
      {"name": "n0", "address": "10.0.1.1/24", "numa": 0,
       "pci": "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"},
      {"name": "n1", "address": "10.0.2.1/24", "numa": 1,
       "pci": "/sys/devices/pci0001:00/0001:00:01.0/0001:01:00.0"}]},
    {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/24"},
                           {"name": "n1", "address": "10.0.2.2/24"}]}],
    "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})");
  const auto run = [&](const std::string& arguments) {
    return testkit::run_line("HWLOC_XMLFILE=" + parts + " NCCL_MESH_HOST=a NCCL_MESH_FABRIC=soft:" +
                             fabric + " " MESH_RAILS_FILE " " + arguments + " 2>&1")
        .text;
  };
  const std::string text = run("");
  for (const char* line :
       {"\nways within this host: kind, NCCL's class, width, to\n",
        "\nn0:1        host bridge       PHB  252 Gb/s        CPU package 0, memory node 0\n",
        "\n            two sockets       SYS  up to 252 Gb/s  CPU package 1, memory node 1\n",
        "\nn1:1        host bridge       PHB  252 Gb/s        CPU package 1, memory node 1\n",
        "host buffers are nearest on memory node 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  const nlohmann::json root = nlohmann::json::parse(run("--json"), nullptr, false);
  ASSERT_TRUE(root.is_object());
  EXPECT_EQ(root["rails"][1]["ways"].size(), 4u);
  EXPECT_EQ(root["rails"][1]["near_memory"][0], "memory node 1");
}

}  // namespace
}  // namespace mesh::rails
