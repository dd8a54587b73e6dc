// Bars on speed, measured by mesh_perf on the software fabric: model rates against the model's own link, memory speed against
// this host's memcpy in the same run.
#include "perf/driver/launcher.h"
#include "perf/driver/world.h"
#include "perf/results/result_file.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace mesh::e2e {
namespace {

constexpr const char* kPair = MESH_FABRIC_DIR "/pair.json";
constexpr const char* kCapped = MESH_FABRIC_DIR "/capped.json";
constexpr double kLinkGBps = 1.0;  // its link: 8 Gb/s, of which one queue pair gets 64 %

constexpr int kAttempts = 10;

struct Measured {
  double busbw_gbps = 0;
  double memcpy_gbps = 0;
};

// The whole table of one mesh_perf run of 1 MiB messages; a failing run fails the test.
Measured measure(const std::string& qps, const std::vector<std::string>& arguments) {
  const std::string json = testing::TempDir() + "mesh-bandwidth-" + std::to_string(::getpid()) + ".json";
  driver::ProcessSpec spec;
  spec.arguments = {MESH_PERF_FILE, "sendrecv", "-b", "1M", "-e", "1M", "-w", "50", "--json", json};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.environment = {{"NCCL_MESH_QPS", qps}};
  spec.capture = true;
  driver::Launcher launcher;
  EXPECT_TRUE(launcher.start(spec).ok());
  launcher.wait({.timeout = std::chrono::seconds(120)});
  EXPECT_TRUE(launcher.end(0).success()) << launcher.output(0);
  std::string why;
  const auto found = results::read_file(json, why);
  std::remove(json.c_str());
  Measured measured;
  EXPECT_TRUE(found.has_value()) << why << launcher.output(0);
  if (!found.has_value()) return measured;
  const results::Point& point = found->series.at(0).points.at(0);
  measured.busbw_gbps = point.bandwidth->bus_gbytes_per_s;
  const auto memcpy_rate = point.extra.find("memcpy_gbytes_per_s");
  if (memcpy_rate != point.extra.end()) measured.memcpy_gbps = memcpy_rate->second;
  EXPECT_EQ(found->kind, results::Kind::Soft);
  EXPECT_EQ(point.verified, true);
  std::printf("%s", launcher.output(0).c_str());
  return measured;
}

std::vector<std::string> one_way_over(const std::string& fabric) { return {"--one-way", "--fabric", fabric, "-n", "500"}; }

// The same link with nothing that holds a single queue pair back.
std::string without_cap(const std::string& fabric) {
  std::ifstream file(fabric);
  nlohmann::json root = nlohmann::json::parse(file, nullptr, false);
  for (nlohmann::json& link : root["links"]) link.erase("qp_gbps");
  std::string copy = testing::TempDir() + "mesh-uncapped-" + std::to_string(::getpid()) + ".json";
  std::ofstream(copy) << root.dump();
  return copy;
}

// The share of the link. The modelled wire carries 82 bytes of headers beside each 4096 of payload, as RoCE v2 does; Cap
// and link count both, mesh_perf counts payload.
constexpr double kWireOverPayload = (4096.0 + 82.0) / 4096.0;

// A loaded machine only takes away, so the best of a few runs is the figure; `enough` ends them early.
double best_share(const std::string& qps, const std::string& fabric, double enough) {
  double best = 0;
  for (int attempt = 0; attempt < kAttempts && best < enough; ++attempt) {
    best = std::max(best, measure(qps, one_way_over(fabric)).busbw_gbps / kLinkGBps);
  }
  return best;
}

class Bandwidth : public testing::Test {
 protected:
  void SetUp() override {
    const bool between_hosts = !driver::variable(process_environment(), "MESH_RENDEZVOUS").empty();
    if (between_hosts) GTEST_SKIP() << "needs the software fabric: the bars are those of modelled links and of one host's memory";
  }
};

TEST_F(Bandwidth, OneQueuePairGivesItsCap) { EXPECT_NEAR(best_share("1", kCapped, 0.62) * kWireOverPayload, 0.64, 0.02); }

TEST_F(Bandwidth, FourQueuePairsFillTheLink) { EXPECT_GE(best_share("4", kCapped, 0.95), 0.95); }

TEST_F(Bandwidth, OneQueuePairFillsALinkWithoutCap) {
  const std::string fabric = without_cap(kCapped);
  EXPECT_GE(best_share("1", fabric, 0.95), 0.95);
  std::remove(fabric.c_str());
}

// One way, so that one thread copies at a time, as in the yardstick.
TEST_F(Bandwidth, PairReachesHalfOfMemcpy) {
  double best = 0;
  for (int attempt = 0; attempt < kAttempts && best < 0.5; ++attempt) {
    const Measured measured = measure("4", {"--one-way", "--fabric", kPair, "-n", "2000", "--memcpy"});
    if (measured.memcpy_gbps > 0) best = std::max(best, measured.busbw_gbps / measured.memcpy_gbps);
  }
  EXPECT_GE(best, 0.5);
}

}  // namespace
}  // namespace mesh::e2e
