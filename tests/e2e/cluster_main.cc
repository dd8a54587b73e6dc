// The test program as one rank of a world of hosts.
#include "tests/e2e/cluster.h"

#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

std::unique_ptr<Cluster>& own_cluster() {
  static std::unique_ptr<Cluster> cluster;
  return cluster;
}

// Rank 0 tells the whole story; any other rank says in a line what failed as it saw it.
class FailuresOnly : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}

  // GoogleTest holds its lock while it reports a result, so the name is kept from the start.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    const std::string text = part.summary();
    if (part.failed()) {
      std::fprintf(stderr, "e2e: rank %d: %s failed: %s\n", rank_, test_.c_str(),
                   text.substr(0, text.find('\n')).c_str());
    }
  }

 private:
  int rank_;
  std::string test_ = "no test";
};

}  // namespace

Cluster* current_cluster() noexcept { return own_cluster().get(); }

int run_cluster_tests(const driver::World& world) {
  GTEST_FLAG_SET(shuffle, false);  // all ranks run in lockstep
  own_cluster() = Cluster::join(world);
  if (own_cluster() == nullptr) return 1;
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world.rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(world.rank));
  }
  const int code = own_cluster()->finish(RUN_ALL_TESTS());
  if (world.rank == 0) std::printf("e2e: %d ranks, exit status %d\n", world.size, code);
  own_cluster().reset();
  return code;
}

}  // namespace mesh::e2e
