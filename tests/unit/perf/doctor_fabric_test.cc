// mesh_doctor on hosts of the software fabric with one fault each. Exactly that fault has a
// finding. A healthy set-up has none.
#include "perf/driver/bootstrap.h"
#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"

#include <nlohmann/json.hpp>

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;
using Names = std::multiset<std::string>;

constexpr std::chrono::seconds kRunTime{300};
constexpr int kDoorMs = 60'000;
// Slow ports, so that this machine's memory bandwidth does not matter and Flood::kDepth messages
// take longer than a process waits for a processor. A sick cable carries a tenth.
constexpr double kGbps = 0.1, kSickGbps = 0.01;
constexpr const char* kThreshold = "0.3";

struct Seen {
  int code = -1;
  Names findings;
  std::string text;
};

Seen seen_from(const driver::Launcher& launcher, std::size_t index) {
  Seen seen;
  seen.text = launcher.output(index);
  if (launcher.end(index).exited && !launcher.running(index)) seen.code = launcher.end(index).code;
  // Progress goes to stderr, and the file holds both streams.
  const std::size_t begin = seen.text.find("\n{");
  const Json root =
      Json::parse(begin == std::string::npos ? seen.text : seen.text.substr(begin), nullptr, false);
  if (root.is_object())
    for (const Json& each : root["findings"]) seen.findings.insert(each["name"].get<std::string>());
  return seen;
}

class DoctorOnAFabric : public testing::Test {
 protected:
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all{MESH_DOCTOR_FILE, "--json",    "--quick", "--root",
                                 folder_.root(),   "--timeout", "240"};
    if (std::find(more.begin(), more.end(), "--threshold") == more.end())
      all.insert(all.end(), {"--threshold", kThreshold});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Seen run(const Json& fabric, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = arguments({"--fabric", folder_.write("fabric", fabric.dump())});
    all.insert(all.end(), more.begin(), more.end());
    driver::Launcher launcher;
    EXPECT_TRUE(launcher.start({.arguments = all, .capture = true}).ok());
    launcher.wait({.timeout = kRunTime});
    return seen_from(launcher, 0);
  }
  void expect(const Seen& seen, const Names& names, int code) {
    EXPECT_EQ(seen.findings, names) << seen.text;
    EXPECT_EQ(seen.code, code) << seen.text;
  }

  testkit::Folder folder_;  // without the files of a host: the state of this machine is no finding
};

Json fabric(const std::string& file) {
  std::ifstream stream(std::string(MESH_FABRIC_DIR "/") + file);
  return Json::parse(stream);
}
Json triangle() { return fabric("triangle.json"); }

// Returns the triangle with ports that report a rate.
Json paced_triangle() {
  Json root = triangle();
  for (Json& link : root["links"]) link.update({{"gbps", kGbps}, {"bond", true}});
  return root;
}

// Returns a fabric with one cable that both ends show as two PCIe functions.
Json halves() {
  Json root{{"name", "halves"}, {"hosts", Json::array()}, {"links", Json::array()}};
  for (const std::string host : {"a", "b"}) {
    Json nics = Json::array();
    for (const std::string half : {"0", "1"}) {
      nics.push_back({{"name", "mesh" + half},
                      {"address", "10.0.1" + half + (host == "a" ? ".1/24" : ".2/24")},
                      {"gbps", 0.6 * kGbps},
                      {"guid", host + "0"}});
    }
    root["hosts"].push_back({{"name", host}, {"nics", nics}});
  }
  for (const std::string half : {"0", "1"}) {
    root["links"].push_back({{"ends", {"a/mesh" + half, "b/mesh" + half}},
                             {"gbps", kGbps},
                             {"bond", true},
                             {"cable", "one"}});
  }
  return root;
}

constexpr const char* kMap = "a/mesh0 b/mesh0\na/mesh1 c/mesh0\nb/mesh1 c/mesh1\n";

TEST_F(DoctorOnAFabric, HealthyHostsHaveNoFinding) {
  expect(run(paced_triangle(), {"--expect", folder_.write("map", kMap)}), {}, 0);
  expect(run(halves()), {}, 0);
  for (const char* file : {"ring4.json", "line3.json", "switched3.json", "routed2.json"})
    expect(run(fabric(file)), {}, 0);
}

// The ports are so slow that the time of a measurement ends before two messages have come.
TEST_F(DoctorOnAFabric, APortThatIsSlowAndSaysSoHasNoFinding) {
  Json root = fabric("pair.json");
  for (Json& link : root["links"]) link.update({{"gbps", 0.002}, {"bond", true}});
  expect(run(root), {}, 0);
}

TEST_F(DoctorOnAFabric, APortAtThirteenOfTwoHundred) {
  Json root = paced_triangle();
  root["links"][0] = {{"ends", {"a/mesh0", "b/mesh0"}}, {"gbps", 0.1625}, {"port_gbps", 2.5}};
  expect(run(root), {"slow-cable"}, 4);
}

TEST_F(DoctorOnAFabric, ASickDirection) {
  Json root = paced_triangle();
  root["hosts"][0]["nics"][0]["gbps"] = kSickGbps;
  expect(run(root), {"sick-direction"}, 4);
}

TEST_F(DoctorOnAFabric, ASlowHalf) {
  Json root = halves();
  for (Json& host : root["hosts"]) host["nics"][1]["gbps"] = kSickGbps;
  expect(run(root), {"slow-half"}, 4);
}

TEST_F(DoctorOnAFabric, ASmallerMtuOnTheWay) {
  Json root = triangle();
  root["faults"] = {{{"kind", "mtu"}, {"host", "a"}, {"nic", "mesh0"}, {"mtu", 1500}}};
  expect(run(root), {"mtu-black-hole"}, 3);
}

TEST_F(DoctorOnAFabric, AWrongSubnet) {
  Json root = triangle();
  root["hosts"][2]["nics"][0]["address"] = "10.0.99.2/30";
  root["routers"] = {"near", "far"};
  root["links"][1] = {{"ends", {"a/mesh1", "near"}}};
  root["links"].push_back({{"ends", {"c/mesh0", "far"}}});
  expect(run(root, {"--expect", folder_.write("map", kMap)}), {"wrong-subnet"}, 3);
  expect(run(root), {"lone-rail", "lone-rail"}, 4);
}

TEST_F(DoctorOnAFabric, AMissingCableAndOneTooMany) {
  const std::string map = folder_.path("found");
  expect(run(triangle(), {"--write-map", map}), {}, 0);
  Json root = triangle();
  root["links"].erase(1);
  expect(run(root, {"--expect", map}), {"cable-down"}, 3);
  root["hosts"][2]["nics"].erase(0);
  expect(run(root, {"--expect", map}), {"missing-cable"}, 3);
  expect(run(triangle(), {"--expect", folder_.write("two", "a/mesh0 b/mesh0\na/mesh1 c/mesh0\n")}),
         {"extra-cable"}, 4);
}

// The map is drawn as datagrams tell: each cable carries.
TEST_F(DoctorOnAFabric, CrossedCablesInOneSubnet) {
  Json root = fabric("pair.json");
  root["links"] = Json::array();
  for (std::size_t port = 0; port < 2; ++port) {
    for (std::size_t host = 0; host < 2; ++host) {
      root["hosts"][host]["nics"][port] = {
          {"name", "mesh" + std::to_string(port)},
          {"address", "169.254.0." + std::to_string(1 + 2 * host + port) + "/16"}};
    }
    root["links"].push_back(
        {{"ends", {"a/mesh" + std::to_string(port), "b/mesh" + std::to_string(1 - port)}}});
  }
  expect(run(root), {"shared-subnet"}, 4);
}

TEST_F(DoctorOnAFabric, ASilentCable) {
  Json root = triangle();
  root["faults"] = {{{"kind", "peer_lost"}, {"host", "a"}, {"nic", "mesh0"}, {"peer_host", "b"}}};
  expect(run(root), {"silent-cable"}, 3);
}

// The measurement takes 200 round trips of 10 ms.
TEST_F(DoctorOnAFabric, WhatIsSlowIsSilentWithoutPatience) {
  Json root = fabric("pair.json");
  for (Json& link : root["links"]) link["delay_us"] = 5000;
  expect(run(root, {"--patience", "1"}), {"silent-cable"}, 3);
  expect(run(root, {"--patience", "60"}), {}, 0);
}

TEST_F(DoctorOnAFabric, APortThatFlaps) {
  Json root = triangle();
  root["faults"] = {{{"kind", "port_down"},
                     {"host", "a"},
                     {"nic", "mesh0"},
                     {"both_ends", true},
                     {"after_work_requests", 50},
                     {"duration_ns", 2'000'000'000}}};
  expect(run(root), {"flapping-port"}, 3);
}

// Runs one process for each host, as a person starts them by hand.
class DoctorByHand : public DoctorOnAFabric {
 protected:
  // Runs a rank for each element of `more`; further ranks do not come. Rank 0 starts last, once
  // another rank waits at its door, so it only waits for ranks that do not come.
  Seen run_ranks(const std::vector<std::vector<std::string>>& more, const Json& root = triangle(),
                 int ranks_per_host = 1) {
    auto soft = driver::SoftFabric::make(root.dump(), {}, ranks_per_host);
    auto rendezvous = driver::open_loopback_rendezvous();
    EXPECT_TRUE(soft.ok() && rendezvous.ok());
    driver::Launcher launcher;
    for (std::size_t rank = more.size(); rank-- > 0;) {
      driver::ProcessSpec spec{.arguments = arguments(more[rank]), .capture = true};
      spec.environment = soft->environment(rank);
      spec.environment.insert(spec.environment.end(),
                              {{"MESH_RENDEZVOUS", rendezvous->address},
                               {"RANK", std::to_string(rank)},
                               {"WORLD_SIZE", std::to_string(soft->hosts().size())}});
      if (rank == 0) {
        pollfd door{rendezvous->socket.get(), POLLIN, 0};
        EXPECT_EQ(::poll(&door, 1, kDoorMs), 1);
        spec.inherited_fd = rendezvous->socket.get();
        spec.arguments.insert(spec.arguments.end(),
                              {"--rendezvous-fd", std::to_string(spec.inherited_fd)});
      }
      EXPECT_TRUE(launcher.start(spec).ok());
    }
    rendezvous->socket.reset();
    launcher.wait({.timeout = kRunTime});
    return seen_from(launcher, launcher.count() - 1);
  }
};

TEST_F(DoctorByHand, AHostWithoutThePlugin) {
  expect(run_ranks({{}, {"--plugin", "/no/such/plugin.so"}, {}}), {"no-plugin"}, 3);
}

TEST_F(DoctorByHand, AHostThatDoesNotCome) {
  expect(run_ranks({{"--wait", "3"}, {}}), {"host-missing"}, 3);
}

TEST_F(DoctorByHand, ACutCableOfHostsWithTwoRanksIsOneFinding) {
  Json root = fabric("pair.json");
  for (Json& host : root["hosts"]) {
    const std::string last = host["name"] == "a" ? "1" : "2";
    host["nics"].push_back({{"name", "mesh1"}, {"address", "10.0.13." + last + "/24"}});
  }
  const std::string map = folder_.write("map", "a/mesh0 b/mesh0\na/mesh1 b/mesh1\n");
  expect(run_ranks({{"--expect", map}, {}, {}, {}}, root, 2), {"cable-down"}, 3);
}

TEST_F(DoctorByHand, AllDoWhatRankZeroWasTold) {
  expect(run_ranks({{}, {"--threshold", "1"}, {}}), {}, 0);
}

}  // namespace
}  // namespace mesh::doctor
