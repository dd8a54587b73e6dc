// mesh_rails: its report, and the program on hosts of the software fabric.
#include "perf/driver/net_api.h"
#include "perf/mesh_rails/report.h"
#include "tests/prelude.h"
#include "tests/unit/perf/shell.h"

#include <nlohmann/json.hpp>

namespace mesh::rails {
namespace {

const std::string kTitle = "Mesh (ncclNet v" + std::to_string(driver::kNetVersionMax) + ")\n";
Snapshot host_with(std::vector<RefusedPort> refused) {
  Snapshot shot;
  shot.fabric = "rdma";
  shot.start = "ok";
  shot.engine.host = "h";
  shot.engine.refused_ports = std::move(refused);
  return shot;
}

using testkit::Ran;
using Texts = std::vector<std::string>;

TEST(RailNotes, NameThePortsThatAreNoRails) {
  EXPECT_EQ(notes_of(host_with({})), Texts{});
  Snapshot shot = host_with({{"a:1", RefusalKind::Down, "is down"},
                             {"b", RefusalKind::LeftOut, "left out by NCCL_IB_HCA"}});
  shot.engine.rails.resize(2);
  shot.engine.rails[0].offered = true;
  shot.engine.rails[1].name = "d:1";
  shot.engine.rails[1].address = "10.0.2.1/24";
  shot.engine.notes = {"rails c:1, d:1 are in one subnet"};
  EXPECT_EQ(notes_of(shot),
            (Texts{"ports not used: a:1 is down, b left out by NCCL_IB_HCA",
                   "rail 1 d:1: 10.0.2.1/24, its port is down; it takes its place when it comes up",
                   "rails c:1, d:1 are in one subnet"}));
}

TEST(RailNotes, OfAHostWithoutARailSayWhyUnlessAWarningDid) {
  Snapshot shot = host_with({});
  shot.start = "not found";
  EXPECT_EQ(notes_of(shot), Texts{"no usable rail on h (fabric rdma): there is no device"});
  shot.engine.refused_ports = {{"a:1", RefusalKind::Down, "is down"}};
  EXPECT_EQ(notes_of(shot), Texts{"no usable rail on h (fabric rdma): a:1 is down"});
  shot.engine.refused_ports = {{"a", RefusalKind::LeftOut, "left out by NCCL_IB_HCA"}};
  EXPECT_EQ(notes_of(shot), Texts{});
}

TEST(RailNotes, OfAHostWithoutLibibverbsSayWhyItIsNotUsable) {
  Snapshot shot;
  shot.start = "not found";
  shot.no_rdma = "libibverbs.so.1 does not load";
  EXPECT_EQ(notes_of(shot), Texts{"no RDMA: libibverbs.so.1 does not load"});
}

TEST(RailReport, FurtherAddressesHaveRowsOfTheirOwn) {
  Report report{.plugin = "Mesh",
                .rails = {},
                .snapshot = {},
                .notes = {"ports not used: a:1 is down"},
                .host = {}};
  Rail& rail = report.rails.emplace_back();
  rail.properties.name = "rxe0:1";
  rail.properties.speed_mbps = 2500;
  rail.properties.guid = 0xabc;
  rail.known.emplace();
  rail.known->addresses = {{"10.0.0.1/8", 12}, {"fd00::1/64", 3}};
  rail.known->gid_type = "RoCE v2";
  rail.known->mtu = 1024;
  EXPECT_EQ(table(report),
            "Mesh\n"
            "#  rail    address     GID            Gb/s  MTU   NUMA  PCI   guid\n"
            "0  rxe0:1  10.0.0.1/8  RoCE v2 at 12  2.5   1024  none  none  0000000000000abc\n"
            "           fd00::1/64  RoCE v2 at 3\n"
            "ports not used: a:1 is down\n");
}

// Returns the standard output and standard error of mesh_rails.
Ran run(const std::string& settings, const std::string& arguments = "") {
  return testkit::run_line(settings + " " MESH_RAILS_FILE " " + arguments + " 2>&1");
}

// Replaces the 16 digits of the last column, which are a hash.
std::string without_guids(std::string text) {
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    const std::size_t begin = text.find_last_not_of("0123456789abcdef", end - 1) + 1;
    if (end - begin == 16) end = begin + text.replace(begin, 16, "GUID").find('\n', begin) - begin;
  }
  return text;
}

const std::string kTriangle = "NCCL_MESH_FABRIC=soft:" MESH_FABRIC_DIR "/triangle.json ";

TEST(MeshRails, ShowsTheRailsOfASoftwareHost) {
  const Ran ran = run(kTriangle + "NCCL_MESH_HOST=b");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(without_guids(ran.text),
            kTitle +
                "#  rail     address       GID           Gb/s  MTU   NUMA  PCI   guid\n"
                "0  mesh0:1  10.0.12.2/24  RoCE v2 at 5  100   4096  none  none  GUID\n"
                "1  mesh1:1  10.0.23.2/31  RoCE v2 at 7  100   4096  none  none  GUID\n");
}

TEST(MeshRails, WithoutARailSaysWhyAndFails) {
  const Ran none = run(kTriangle + "NCCL_MESH_HOST=a NCCL_IB_HCA==nothing");
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.text,
            "mesh_rails: WARN NET/Mesh : NCCL_IB_HCA==nothing leaves no port of a (fabric soft), "
            "which has mesh0, mesh1\n" +
                kTitle);
  const Ran unknown = run(kTriangle + "NCCL_MESH_HOST=x");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.text.find("host x is not one of its 3 hosts"), std::string::npos)
      << unknown.text;
}

// The plugin's lines go through the tool, as they go through NCCL's logger in a job.
TEST(MeshRails, ALineOfThePluginMayBeginWithItsTime) {
  const Ran ran = run(kTriangle + "NCCL_MESH_LOG=info+time NCCL_MESH_HOST=a NCCL_IB_HCA==nothing");
  const std::regex timed(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z mesh_rails: WARN NET/Mesh : [^\n]*\n[^\n]*\n)");
  EXPECT_TRUE(std::regex_match(ran.text, timed)) << ran.text;
}

TEST(MeshRails, EveryInterfaceVersionShowsTheSame) {
  const std::string settings = kTriangle + "NCCL_MESH_HOST=c";
  const std::string newest = run(settings).text;
  for (int version = driver::kNetVersionMin; version < driver::kNetVersionMax; ++version) {
    const Ran ran = run(settings, "--net-version " + std::to_string(version));
    EXPECT_EQ(ran.code, 0) << version;
    EXPECT_EQ(ran.text.substr(ran.text.find('\n')), newest.substr(newest.find('\n'))) << version;
  }
}

TEST(MeshRails, JsonHoldsTheSame) {
  const Ran ran = run(kTriangle + "NCCL_MESH_HOST=a", "--json");
  EXPECT_EQ(ran.code, 0);
  const nlohmann::json root = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_TRUE(root.is_object()) << ran.text;
  ASSERT_EQ(root["rails"].size(), 2u);
  const nlohmann::json& rail = root["rails"][1];
  EXPECT_EQ(rail["name"], "mesh1:1");
  EXPECT_EQ(rail["index"], 1);
  EXPECT_EQ(rail["speed_mbps"], 100'000);
  EXPECT_EQ(rail["mtu"], 4096);
  EXPECT_EQ(rail["numa_node"], -1);
  EXPECT_EQ(rail["gid_type"], "RoCE v2");
  ASSERT_EQ(rail["addresses"].size(), 1u);
  EXPECT_EQ(rail["addresses"][0]["address"], "10.0.13.1/30");
  EXPECT_EQ(rail["addresses"][0]["gid_index"], 7);
  EXPECT_EQ(root["notes"], nlohmann::json::array());
}

}  // namespace
}  // namespace mesh::rails
