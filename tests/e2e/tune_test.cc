// Runs mesh_tune as a user does: on the model, on the software fabric, and as two ranks that
// somebody else started.
#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"
#include "tests/e2e/held_port.h"
#include "tuning/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace mesh::e2e {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kModelFile = MESH_FABRIC_DIR "/model-100g.json";

struct Ran {
  driver::ProcessEnd end;
  std::string output;
};

std::string output_file(const std::string& name) {
  return testing::TempDir() + "mesh_tune_" + std::to_string(::getpid()) + name;
}

std::vector<Ran> run_all(const std::vector<std::string>& arguments,
                         const std::vector<Variables>& environments) {
  driver::Launcher launcher;
  for (const Variables& environment : environments) {
    driver::ProcessSpec spec{
        .arguments = {MESH_TUNE_FILE}, .environment = environment, .capture = true};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    EXPECT_TRUE(launcher.start(spec).ok());
  }
  EXPECT_EQ(launcher.wait({.timeout = std::chrono::minutes(9)}), driver::WaitEnd::AllEnded);
  std::vector<Ran> ran;
  for (std::size_t i = 0; i < launcher.count(); ++i)
    ran.push_back({launcher.end(i), launcher.output(i)});
  return ran;
}

Ran run(const std::vector<std::string>& arguments, const Variables& environment = {}) {
  return run_all(arguments, {environment}).front();
}

std::optional<tuning::Profile> profile_in(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string why;
  std::optional<tuning::Profile> profile = tuning::parse_profile(text.str(), why);
  EXPECT_TRUE(profile) << file << ": " << why;
  return profile;
}

TEST(Tune, OnTheModelTwiceTheSame) {
  const std::string file = output_file("model.json");
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const Ran ran = run({"--model", kModelFile, "--quick", "-o", file});
    ASSERT_TRUE(ran.end.success()) << ran.output;
    EXPECT_NE(ran.output.find("MODEL, not measured (model-100g.json)"), std::string::npos)
        << ran.output;
    const auto profile = profile_in(file);
    ASSERT_TRUE(profile);
    EXPECT_EQ(profile->measured.ground, tuning::Ground::Model);
    EXPECT_EQ(profile->measured.speed_mbps, 100'000u);
    if (i == 0) first = ran.output;
    EXPECT_EQ(ran.output, first);
  }
}

TEST(Tune, OnTheSoftwareFabricItWritesWhatThePluginReads) {
  const std::string file = output_file("soft.json"), all = output_file("all.json");
  const Ran ran = run({"--quick", "--time-limit", "60", "-o", file, "--json", all});
  ASSERT_TRUE(ran.end.success()) << ran.output;
  EXPECT_NE(ran.output.find("software fabric on this host, not RDMA (pair.json)"),
            std::string::npos)
      << ran.output;
  const auto profile = profile_in(file);
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->measured.ground, tuning::Ground::Soft);
  EXPECT_EQ(profile->measured.devices, std::vector<std::string>{"mesh0"});
  EXPECT_TRUE(std::ifstream(all).good());
}

// Runs it as between hosts: no launcher of ours, a rendezvous in the environment.
TEST(Tune, AsTwoRanksThatSomebodyElseStarted) {
  const auto fabric = driver::SoftFabric::open(MESH_FABRIC_DIR "/pair.json", {});
  ASSERT_TRUE(fabric.ok());
  const HeldPort port;  // for rank 0, which listens at it
  std::vector<Variables> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(fabric->environment(rank));
    ranks.back().insert(
        ranks.back().end(),
        {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MESH_RENDEZVOUS", port.address()}});
  }
  const std::string file = output_file("ranks.json");
  for (const Ran& ran : run_all({"--quick", "--time-limit", "1", "-o", file}, ranks))
    EXPECT_TRUE(ran.end.success()) << ran.output;
  EXPECT_TRUE(profile_in(file));
}

TEST(Tune, WhatTheEnvironmentFixesIsNotSwept) {
  const Ran free_run = run({"--dry-run", "--quick"});
  EXPECT_NE(free_run.output.find("\nqps: 1, 2, 4"), std::string::npos) << free_run.output;
  const Ran fixed = run({"--dry-run", "--quick"}, {{"NCCL_MESH_QPS", "3"}});
  EXPECT_TRUE(fixed.end.success());
  EXPECT_EQ(fixed.output.find("\nqps:"), std::string::npos) << fixed.output;
  EXPECT_NE(fixed.output.find("not swept: NCCL_MESH_QPS"), std::string::npos) << fixed.output;
}

}  // namespace
}  // namespace mesh::e2e
