// mesh_rails: the parser of the plugin's lines, and the program on hosts of the software fabric.
#include "perf/driver/net_api.h"
#include "perf/mesh_rails/rail_lines.h"
#include "perf/mesh_rails/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace mesh::rails {
namespace {

const std::string kTitle = "Mesh (ncclNet v" + std::to_string(driver::kNetVersionMax) + ")\n";
constexpr const char* kLine =
    "rail 3 mlx5_0:2: 10.0.12.1/30, RoCE v2 GID index 7, 100 Gb/s, MTU 4096, NUMA node 1, PCI "
    "0000:01:00.1";

TEST(RailLine, EveryFieldIsRead) {
  const std::optional<RailLine> rail = parse_rail_line(kLine);
  ASSERT_TRUE(rail.has_value());
  EXPECT_EQ(rail->index, 3);
  EXPECT_EQ(rail->name, "mlx5_0:2");
  ASSERT_EQ(rail->addresses.size(), 1u);
  EXPECT_EQ(rail->addresses[0].address, "10.0.12.1/30");
  EXPECT_EQ(rail->addresses[0].gid_index, 7);
  EXPECT_EQ(rail->gid_type, "RoCE v2");
  EXPECT_EQ(rail->mtu, 4096);
  EXPECT_EQ(rail->numa_node, 1);
  EXPECT_EQ(rail->pci, "0000:01:00.1");
}

TEST(RailLine, FurtherAddressesAreRead) {
  std::optional<RailLine> rail = parse_rail_line(
      "rail 0 rxe0:1: 10.0.12.1/24, RoCE v2 GID index 2, 2 Gb/s, MTU 1024, NUMA node -1, PCI none");
  ASSERT_TRUE(rail.has_value());
  EXPECT_EQ(rail->pci, "none");
  const std::string others = "also has 192.168.1.1/16 (GID index 1), fd00::1/64 (GID index 12)";
  EXPECT_FALSE(add_other_addresses("rail 1 rxe0:1 " + others, *rail)) << "another rail's";
  EXPECT_FALSE(add_other_addresses("rail 0 rxe0:1 " + others + ",", *rail));
  ASSERT_TRUE(add_other_addresses("rail 0 rxe0:1 " + others, *rail));
  ASSERT_EQ(rail->addresses.size(), 3u);
  EXPECT_EQ(rail->addresses[1].address, "192.168.1.1/16");
  EXPECT_EQ(rail->addresses[1].gid_index, 1);
  EXPECT_EQ(rail->addresses[2].address, "fd00::1/64");
  EXPECT_EQ(rail->addresses[2].gid_index, 12);
}

TEST(RailLine, OtherLinesAreNotMistakenForRails) {
  const std::string line = kLine;
  const std::vector<std::string> others{
      "ports not used: mlx5_0:1 is down", line.substr(0, line.size() - 20), line + " and",
      "rail mlx5_0:1: no interface of this host has address 10.0.0.1", ""};
  for (const std::string& other : others) EXPECT_FALSE(parse_rail_line(other).has_value()) << other;
}

TEST(PortNotes, AreFoundAmongOthers) {
  const std::vector<std::string> notes{"ports not used: a:1 is down",
                                       "no usable rail on h (fabric rdma): there is no device",
                                       "rails a:1, b:1 are in one subnet"};
  EXPECT_EQ(port_notes({notes[0], kLine, notes[1], "setting X", notes[2]}), notes);
  EXPECT_TRUE(port_notes({kLine}).empty());
}

TEST(RailReport, FurtherAddressesHaveRowsOfTheirOwn) {
  Report report{
      .plugin = "Mesh", .rails = {}, .notes = {"ports not used: a:1 is down"}, .host = {}};
  Rail& rail = report.rails.emplace_back();
  rail.properties.name = "rxe0:1";
  rail.properties.speed_mbps = 2500;
  rail.properties.guid = 0xabc;
  rail.line = RailLine{.index = 0,
                       .name = "rxe0:1",
                       .addresses = {{"10.0.0.1/8", 12}, {"fd00::1/64", 3}},
                       .gid_type = "RoCE v2",
                       .mtu = 1024,
                       .numa_node = -1,
                       .pci = "none"};
  EXPECT_EQ(table(report),
            "Mesh\n"
            "#  rail    address     GID            Gb/s  MTU   NUMA  PCI   guid\n"
            "0  rxe0:1  10.0.0.1/8  RoCE v2 at 12  2.5   1024  none  none  0000000000000abc\n"
            "           fd00::1/64  RoCE v2 at 3\n"
            "ports not used: a:1 is down\n");
}

struct Ran {
  int code = -1;
  std::string text;
};

// Runs mesh_rails by a shell line and captures standard output and standard error.
Ran run(const std::string& settings, const std::string& arguments = "") {
  Ran ran;
  std::FILE* const pipe =
      ::popen((settings + " " MESH_RAILS_FILE " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) ran.text += part.data();
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
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

TEST(MeshRails, NamesThePortsThatAreNotUsed) {
  const Ran ran = run(kTriangle + "NCCL_MESH_HOST=a NCCL_IB_HCA=mesh1");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.text.find("\nports not used: mesh0 left out by NCCL_IB_HCA\n"), std::string::npos)
      << ran.text;
}

TEST(MeshRails, WithoutARailSaysWhyAndFails) {
  const Ran none = run(kTriangle + "NCCL_MESH_HOST=a NCCL_IB_HCA==nothing");
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.text,
            "mesh_rails: WARN NET/Mesh : NCCL_IB_HCA==nothing leaves no port of a (fabric soft), "
            "which has mesh0, mesh1\n" +
                kTitle);
  const Ran unknown = run(kTriangle + "NCCL_MESH_HOST=x");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.text.find("host x is not one of its 3 hosts"), std::string::npos)
      << unknown.text;
  EXPECT_EQ(run("", "--plugin /no/such/plugin.so").code, 1);
  EXPECT_EQ(run("", "--net-version 4").code, 2);
  EXPECT_EQ(run("", "--help").code, 0);
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
