// One-shot all-reduce while cables are cut at random: nothing is wrong, nothing is lost.
#include "tests/e2e/breaker.h"
#include "tests/e2e/one_shot_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <thread>

namespace mesh::e2e {
namespace {

constexpr const char* kSoftwareOnly = "its cables are those of a software fabric";
constexpr std::uint64_t kLooksMost = 300;
constexpr int kFewCuts = 4, kManyCuts = 34;  // on each of three fabrics, a hundred in all
constexpr std::size_t kOutstanding = 8;

RunOptions on(const std::string& fabric, const std::string& argument = "") {
  return {.fabric = fabric,
          .argument = argument,
          .software_only = kSoftwareOnly,
          .environment = {{"NCCL_MESH_ONESHOT_BYTES", "64K"}},
          .timeout = std::chrono::seconds(600)};
}

// Cuts a cable and mends it again, on a thread of its own.
class Cut {
 public:
  struct Order {
    std::size_t cable = 0;
    std::uint64_t looks_before = 0, looks_meanwhile = 0;
  };
  Cut(Breaker& breaker, const Order& order)
      : thread_([this, &breaker, order] {
          try {
            breaker.look_on(order.looks_before);
            breaker.pull(order.cable);
            breaker.look_on(order.looks_meanwhile);
            breaker.plug(order.cable);
          } catch (const Failure& why) {
            failure_ = why.what();
          }
          over_.store(true, std::memory_order_release);
        }) {}
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  void finish() {
    thread_.join();
    require(failure_.empty(), failure_);
  }

 private:
  std::string failure_;
  std::atomic<bool> over_{false};
  std::jthread thread_;  // the last member: it uses the others
};

// Reduces messages of several sizes at once; no two of them have equal contents.
void reduce_some(OneShotJob& job, std::mt19937_64& random, int& first) {
  std::deque<Values> sends, receives;
  std::deque<void*> requests;
  const int began = first;
  for (std::size_t i = 0; i < kOutstanding; ++i, ++first) {
    const std::size_t count = 1 + random() % (random() % 4 == 0 ? 50'000 : 4'000);
    Values& send = sends.emplace_back(job.input(count, first));
    requests.push_back(job.start(send, receives.emplace_back(count, -1)));
  }
  for (std::size_t i = 0; i < kOutstanding; ++i) {
    job.await(requests[i]);
    job.check(receives[i], began + static_cast<int>(i));
  }
}

// Returns true if rank 0's cable is mended, for all ranks alike.
bool cut_is_over(OneShotJob& job, const std::optional<Cut>& cut) {
  Values send(1, cut && cut->over() ? 1 : 0), receive(1, -1);
  job.await(job.start(send, receive));
  return receive[0] != 0;
}

// Rank 0 cuts; all reduce until the cable is mended, and once more.
const Scenario kCuts("cuts", [](Peer& peer) {
  OneShotJob job(peer);
  require(job.all_vote_yes(), "a member has no group");
  std::optional<Breaker> breaker;
  if (peer.rank() == 0) breaker.emplace();
  std::mt19937_64 random(38);  // alike on all ranks
  int first = 0;
  for (int left = std::stoi(peer.argument()); left != 0; --left) {
    const Cut::Order order{.cable = random(),
                           .looks_before = random() % kLooksMost,
                           .looks_meanwhile = random() % kLooksMost};
    std::optional<Cut> cut;
    if (breaker) cut.emplace(*breaker, order);
    do reduce_some(job, random, first);
    while (!cut_is_over(job, cut));
    if (cut) cut->finish();
    reduce_some(job, random, first);
  }
  if (peer.rank() == 0) report_figure("all_reduces", first);
  peer.barrier();
  job.end();
});

class OneShotCuts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, OneShotCuts, testing::Values("triangle", "ring4", "line3"),
                         [](const auto& info) { return info.param; });

TEST_P(OneShotCuts, AFewCutsLoseAndDoubleNothing) {
  expect_run(kCuts, on(std::string(GetParam()) + ".json", std::to_string(kFewCuts)));
}
// Ring 3.
TEST_P(OneShotCuts, ManyCutsLoseAndDoubleNothing) {
  expect_run(kCuts, on(std::string(GetParam()) + ".json", std::to_string(kManyCuts)));
}

}  // namespace
}  // namespace mesh::e2e
