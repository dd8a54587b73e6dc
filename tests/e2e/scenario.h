#pragma once
// An end-to-end test: one function that every rank of a run executes in a process of its own. The
// test binary starts itself again for each rank and judges how they ended and what they printed.
// All ranks are hosts of one software fabric; or the binary is started with a rendezvous once per
// host of a cluster (perf/driver/world.h), and each host runs one rank. Thread: main. Every wait
// has a deadline, so that a hang is a failure.

#include "perf/driver/bootstrap.h"
#include "perf/driver/communicator.h"
#include "perf/driver/connection_set.h"
#include "perf/driver/launcher.h"
#include "perf/driver/net_api.h"
#include "tests/e2e/pace.h"

namespace mesh::e2e {

inline constexpr const char* kRankFlag = "--scenario-rank";

// Ends the rank with a sentence on stderr and a bad exit status.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void require(bool condition, const std::string& what);
void require_success(int result, const std::string& call);

// One rank's world.
class Peer {
 public:
  Peer(driver::Bootstrap bootstrap, std::string plugin, std::string argument)
      : bootstrap_(std::move(bootstrap)),
        plugin_(std::move(plugin)),
        argument_(std::move(argument)) {}

  int rank() const noexcept { return bootstrap_.rank(); }
  int world() const noexcept { return bootstrap_.world(); }
  const std::string& argument() const noexcept { return argument_; }
  driver::Bootstrap& bootstrap() noexcept { return bootstrap_; }
  void barrier();
  std::vector<std::string> all_gather(const std::string& blob);

  std::unique_ptr<driver::NetApi> load(int version = driver::kNetVersionMax) const;

 private:
  driver::Bootstrap bootstrap_;
  std::string plugin_;
  std::string argument_;
};

using ScenarioFunction = void (*)(Peer& peer);

// One static object per scenario makes it known by name to the processes that are to run it.
struct Scenario {
  Scenario(const char* scenario_name, ScenarioFunction function);
  const char* name;
  ScenarioFunction run;
};

struct RunOptions {
  std::string fabric = "pair.json";  // of perf/fabrics
  std::string fabric_text{};         // instead of a file
  std::vector<std::string> hosts{};  // empty: every host of the fabric
  int ranks_per_host = 1;            // their ranks follow one another; a cluster has one a host
  std::string argument{};            // for the scenario
  // Why the test makes no sense between real hosts. Needed with a fabric_text.
  std::string software_only{};
  std::vector<std::pair<std::string, std::string>> environment{};
  // Ends a run that hangs, and lies above every bar within a scenario.
  std::chrono::seconds timeout{300};
};

struct RankEnd {
  driver::ProcessEnd end;
  bool finished = false;  // before the timeout
  std::string output;
};

// Returns the output with the lines joined that the plugin continues: a line with the beginning of
// the line before it ("WARN NET/Mesh : peer b: ") carries on with its text.
std::string unbroken(const std::string& output);

// Runs the scenario in a process for each rank. If it cannot run on this cluster, the test is
// skipped with the reason, and the result is empty.
std::vector<RankEnd> run(const Scenario& scenario, const RunOptions& options);

// Expects that every rank ended well and that no receiver was ever not ready; otherwise shows the
// outputs. A skipped test stays skipped.
void expect_success(const std::vector<RankEnd>& ranks);
// Calls run() and expect_success().
void expect_run(const Scenario& scenario, const RunOptions& options = {});
// Runs the scenario, expects success, and this sentence in the output of some rank.
void expect_run_says(const Scenario& scenario, const RunOptions& options,
                     const std::string& sentence);

// Figures in a rank's output: lines "e2e: name=value".
void report_figure(const std::string& name, double value);
double figure(const RankEnd& rank, const std::string& name);  // NaN: not there

int scenario_main(int argc, char** argv);

}  // namespace mesh::e2e
