// Runs mesh_tune as a user does: on the model, on the software fabric, and as two ranks that
// somebody else started.
#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"
#include "tests/e2e/held_port.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kModelFile = MESH_FABRIC_DIR "/model-100g.json";
constexpr const char* kHalvesFile = MESH_FABRIC_DIR "/model-halves.json";

struct Ran {
  driver::ProcessEnd end;
  std::string output;
};

std::string output_file(const std::string& name) {
  return testing::TempDir() + "mesh_tune_" + std::to_string(::getpid()) + name;
}

std::vector<Ran> run_all(const std::string& program, const std::vector<std::string>& arguments,
                         const std::vector<Variables>& environments) {
  driver::Launcher launcher;
  for (const Variables& environment : environments) {
    driver::ProcessSpec spec{.arguments = {program}, .environment = environment, .capture = true};
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
  return run_all(MESH_TUNE_FILE, arguments, {environment}).front();
}

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(Tune, OnTheModelTwiceTheSame) {
  const std::string file = output_file("model.conf");
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const Ran ran = run({"--model", kModelFile, "--quick", "-o", file});
    ASSERT_TRUE(ran.end.success()) << ran.output;
    EXPECT_NE(ran.output.find("MODEL, not measured (model-100g.json)"), std::string::npos)
        << ran.output;
    EXPECT_NE(text_of(file).find("the slowest 100000 Mb/s"), std::string::npos) << text_of(file);
    if (i == 0) first = ran.output;
    EXPECT_EQ(ran.output, first);
  }
}

// The model's times do not depend on this machine: with two halves of a cable messages of a few KiB
// gain from the bulk queue pairs. Only that setting is swept.
TEST(Tune, ItsWinnersArriveInAJobByTheConfigurationFile) {
  const std::string file = output_file("halves.conf");
  const Variables fixed{{"NCCL_MESH_QPS", "auto"},           {"NCCL_MESH_INLINE", "auto"},
                        {"NCCL_MESH_STRIPE_BYTES", "64K"},   {"NCCL_MESH_WR_BYTES", "512K"},
                        {"NCCL_MESH_SIGNAL_INTERVAL", "16"}, {"NCCL_MESH_INFLIGHT_BYTES", "auto"}};
  const Ran tuned = run({"--model", kHalvesFile, "-o", file}, fixed);
  ASSERT_TRUE(tuned.end.success()) << tuned.output;
  const std::string text = text_of(file);
  EXPECT_NE(text.find("\nNCCL_MESH_EXPRESS_BYTES=1024\n"), std::string::npos) << text;
  const Variables job{{"NCCL_CONF_FILE", file}, {"NCCL_DEBUG", "INFO"}};
  const Ran ran = run_all(MESH_PERF_FILE,
                          {"sendrecv", "--verbose", "-b", "1K", "-e", "1K", "--fabric",
                           MESH_FABRIC_DIR "/pair.json"},
                          {job})
                      .front();
  EXPECT_TRUE(ran.end.success()) << ran.output;
  EXPECT_NE(ran.output.find("policy: set: express 1K; default: "), std::string::npos) << ran.output;
  // An earlier run's winners are no reason to measure less.
  const Ran again = run({"--dry-run"}, {{"NCCL_CONF_FILE", file}});
  EXPECT_NE(again.output.find("\nexpress_bytes: "), std::string::npos) << again.output;
}

TEST(Tune, OnTheSoftwareFabricItWritesItsEvidence) {
  const std::string file = output_file("soft.conf"), all = output_file("all.json");
  const Ran ran = run({"--quick", "--time-limit", "60", "-o", file, "--json", all});
  ASSERT_TRUE(ran.end.success()) << ran.output;
  EXPECT_NE(ran.output.find("software fabric on this host, not RDMA (pair.json)"),
            std::string::npos)
      << ran.output;
  EXPECT_NE(text_of(file).find("; devices mesh0\n"), std::string::npos) << text_of(file);
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
  const std::string file = output_file("ranks.conf");
  for (const Ran& ran :
       run_all(MESH_TUNE_FILE, {"--quick", "--time-limit", "1", "-o", file}, ranks))
    EXPECT_TRUE(ran.end.success()) << ran.output;
  EXPECT_EQ(text_of(file).rfind("# Measured ", 0), 0u) << text_of(file);
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
