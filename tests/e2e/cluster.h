#pragma once
// A run between hosts. A parent on each host walks through one list of tests in lockstep, starts at
// most one process per scenario, and learns how every rank's process ended, so that all parents
// judge alike. A parent that is lost ends the others. Thread: main. Every exchange has a deadline.

#include "perf/driver/bootstrap.h"
#include "perf/driver/launcher.h"
#include "perf/driver/world.h"
#include "tests/e2e/scenario.h"
#include "tests/e2e/shape.h"
#include "tests/prelude.h"

namespace mesh::e2e {

class Cluster {
 public:
  // Returns null after one line on stderr that says why.
  static std::unique_ptr<Cluster> join(const driver::World& world);

  int rank() const noexcept { return bootstrap_.rank(); }
  const Shape& shape() const noexcept { return shape_; }

  // Runs the scenario in one process on each of these ranks. Hosts that it does not need only take
  // part in the exchanges.
  std::vector<RankEnd> run(const Scenario& scenario, const RunOptions& options,
                           const std::vector<std::size_t>& ranks);
  // Returns, after the last test, the worst of all ranks' exit statuses.
  int finish(int own);

 private:
  struct Meeting {
    UniqueFd socket;      // rank 0 of the scenario listens here; on its parent's host only
    std::string address;  // of that socket; known to every parent
  };

  Cluster(driver::Bootstrap bootstrap, Shape shape)
      : bootstrap_(std::move(bootstrap)), shape_(std::move(shape)) {}
  bool agree();
  std::vector<std::string> exchange(const std::string& blob, const std::string& during);
  Meeting meet(const std::string& step, bool first);
  RankEnd run_child(const std::vector<std::string>& arguments, const RunOptions& options,
                    int listening_fd);
  [[noreturn]] void give_up(const std::string& why);

  driver::Bootstrap bootstrap_;
  Shape shape_;
  std::optional<driver::Launcher> launcher_;  // of the scenario that runs
  std::size_t steps_ = 0;
};

// Runs all tests as one rank of a world: rank 0 prints as always, the other ranks only what failed.
// Returns the exit status.
int run_cluster_tests(const driver::World& world);
// Returns the cluster that this process is part of; null if all ranks are processes of this
// machine.
Cluster* current_cluster() noexcept;

}  // namespace mesh::e2e
