// One-shot all-reduce as NCCL calls it: CollNet's table of the built library, beside its net.
#include "plugin/nccl/collnet.h"
#include "tests/e2e/line.h"
#include "tests/e2e/scenario.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using Values = std::vector<std::int32_t>;

constexpr int kInt32 = 2, kSum = 0;
constexpr std::uint64_t kComm = 99;

void succeed(ncclResult_t result, const char* call) {
  require_success(static_cast<int>(result), call);
}

// A communicator of a rank with its net and its CollNet, called in NCCL's order.
class OneShotJob {
 public:
  explicit OneShotJob(Peer& peer) : peer_(peer), net_(peer.load()), table_(net_->collnet()) {
    require(table_ != nullptr, "there is no CollNet");
    require_success(net_->init(kComm, &net_context_), "init of the net");
    succeed(table_->init(&context_, kComm, nullptr), "init");
    join();
  }
  // Ends as NCCL does: the group, the net, the CollNet.
  void end() {
    succeed(table_->closeColl(comm_), "closeColl");
    require_success(net_->finalize(net_context_), "finalize of the net");
    succeed(table_->finalize(context_), "finalize");
  }
  // Returns true if every member can use its group, as NCCL gathers it.
  bool all_vote_yes() {
    int supported = -1;
    succeed(table_->reduceSupport(kInt32, kSum, &supported), "reduceSupport");
    bool all = true;
    for (const std::string& vote : peer_.all_gather(supported == 1 ? "y" : "n"))
      all = all && vote == "y";
    return all;
  }

  void* start(Values& send, Values& receive) {
    void* request = nullptr;
    const auto end = std::chrono::steady_clock::now() + patience();
    while (request == nullptr) {
      require(std::chrono::steady_clock::now() < end, "iallreduce finds no room");
      succeed(table_->iallreduce(comm_, send.data(), receive.data(), send.size(), kInt32, kSum,
                                 mhandle_, mhandle_, &request),
              "iallreduce");
    }
    return request;
  }
  // Returns the result of the call that ends the request, or 0 and no end within `wait`.
  int finish(void* request, std::chrono::milliseconds wait, int* done) {
    const auto end = std::chrono::steady_clock::now() + wait;
    *done = 0;
    while (*done == 0 && std::chrono::steady_clock::now() < end) {
      const int result = static_cast<int>(table_->test(request, done, nullptr));
      if (result != 0) return result;
    }
    return 0;
  }
  void await(void* request) {
    int done = 0;
    require_success(finish(request, patience(), &done), "test");
    require(done == 1, "an all-reduce is not done in time");
  }

  // Reduces a message of `count` elements.
  void reduce(std::size_t count) {
    Values send = input(count), receive(count, -1);
    await(start(send, receive));
    check(receive);
  }
  // Returns a message of which rank r has first + r, first + r + 1, and so on.
  Values input(std::size_t count, int first = 0) const {
    Values values(count);
    std::iota(values.begin(), values.end(), first + peer_.rank());
    return values;
  }
  void check(const Values& receive, int first = 0) const {
    const int world = peer_.world();
    for (std::size_t i = 0; i < receive.size(); ++i) {
      const int wanted = world * (first + static_cast<int>(i)) + world * (world - 1) / 2;
      if (receive[i] == wanted) continue;  // a text for each element would take seconds
      require(false, "element " + std::to_string(i) + " is " + std::to_string(receive[i]) +
                         " instead of " + std::to_string(wanted));
    }
  }

 private:
  void join() {
    std::array<char, kNetHandle> handle{};
    void* listener = nullptr;
    succeed(table_->listen(context_, 0, handle.data(), &listener), "listen");
    std::vector<std::string> all = peer_.all_gather(std::string(handle.data(), handle.size()));
    std::vector<void*> handles;
    handles.reserve(all.size());
    for (std::string& each : all) handles.push_back(each.data());
    succeed(table_->connect(handles.data(), peer_.world(), peer_.rank(), listener, &comm_),
            "connect");
    succeed(table_->closeListen(listener), "closeListen");
    succeed(table_->regMr(comm_, handle.data(), handle.size(), NCCL_PTR_HOST, &mhandle_), "regMr");
  }
  static constexpr std::size_t kNetHandle = 128;

  Peer& peer_;
  std::unique_ptr<driver::NetApi> net_;
  const ncclCollNet_v12_t* const table_;
  void* net_context_ = nullptr;
  void* context_ = nullptr;
  void* comm_ = nullptr;
  void* mhandle_ = nullptr;
};

constexpr std::chrono::seconds kPromised{2};  // until a member's death is an error

RunOptions on(const char* fabric) {
  return {.fabric = fabric, .environment = {{"NCCL_MESH_ONESHOT_BYTES", "64K"}}};
}

const Scenario kSizes("sizes", [](Peer& peer) {
  OneShotJob job(peer);
  require(job.all_vote_yes(), "a member has no group");
  for (const std::size_t count : {1u, 128u, 4096u, 16'384u, 100'000u, 500'000u}) job.reduce(count);
  std::deque<Values> sends, receives;
  std::vector<void*> requests;
  for (std::size_t i = 0; i < 64; ++i) {
    Values& send = sends.emplace_back(job.input(1000 + i));
    requests.push_back(job.start(send, receives.emplace_back(send.size())));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    job.await(requests[i]);
    job.check(receives[i]);
  }
  peer.barrier();
  job.end();
});
TEST(OneShot, ReducesAllSizesInAPair) { expect_run(kSizes, on("pair.json")); }
TEST(OneShot, ReducesAllSizesInATriangle) { expect_run(kSizes, on("triangle.json")); }
TEST(OneShot, ReducesAllSizesInASquare) { expect_run(kSizes, on("ring4.json")); }
TEST(OneShot, ReducesAllSizesInALine) { expect_run(kSizes, on("line3.json")); }
TEST(OneShot, ReducesAllSizesWithPollers) {
  RunOptions options = on("triangle.json");
  options.environment.emplace_back("NCCL_MESH_THREADS", "1");
  expect_run(kSizes, options);
}

// The collective that mesh_perf measures, which verifies every element.
const Scenario kMeasured("measured", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  using perf::DataType;
  int number = 0;
  for (const DataType type : {DataType::Uint8, DataType::Int32, DataType::Int64, DataType::Half,
                              DataType::Bfloat16, DataType::Float, DataType::Double}) {
    Rounds rounds(peer, *communicator,
                  {.type = type,
                   .reduction = static_cast<perf::Reduction>(number++ % 4),
                   .algorithm = perf::Algorithm::OneShot,
                   .bytes_max = 600'000});
    for (const perf::Placement placement :
         {perf::Placement::OutOfPlace, perf::Placement::InPlace}) {
      rounds.set_placement(placement);
      for (const std::size_t size : {0u, 8u, 8200u, 600'000u}) rounds.run(size);
    }
  }
  peer.barrier();
});
TEST(OneShot, IsMeasuredInAPair) { expect_run(kMeasured, on("pair.json")); }
TEST(OneShot, IsMeasuredInARingOfSix) { expect_run(kMeasured, on("ring6.json")); }

const Scenario kNotAsked("not_asked", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const perf::Team team{communicator.get(), &peer.bootstrap()};
  std::string error;
  require(perf::Collective::create(team, {.algorithm = perf::Algorithm::OneShot}, error) == nullptr,
          "there is a group that nobody asked for");
  require(error == "the plugin has no CollNet of version 12", error);
});
TEST(OneShot, IsNotMeasuredUnlessItIsAskedFor) { expect_run(kNotAsked); }

const Scenario kInARow("communicators_in_a_row", [](Peer& peer) {
  for (int i = 0; i < 5; ++i) {
    OneShotJob job(peer);
    require(job.all_vote_yes(), "a member has no group");
    job.reduce(1000);
    job.end();  // a peer may still receive: NCCL has no barrier here
    peer.barrier();
  }
});
TEST(OneShot, CommunicatorsFollowOneAnother) { expect_run(kInARow, on("triangle.json")); }

// NCCL's abort ends everything in the midst of operations.
const Scenario kAbort("abort", [](Peer& peer) {
  OneShotJob job(peer);
  Values send(500'000, 1), receive(500'000);
  for (int i = 0; i < 8; ++i) job.start(send, receive);
  peer.barrier();  // a member that hears of an abort earlier gets an error
  job.end();
});
TEST(OneShot, AnAbortLeavesNothingBehind) { expect_run(kAbort, on("triangle.json")); }

const Scenario kOff("off", [](Peer& peer) {
  require(peer.load()->collnet() == nullptr, "NCCL would find a CollNet that nobody asked for");
});
TEST(OneShot, IsNotThereUnlessItIsAskedFor) { expect_run(kOff); }

// The hosts vote no together, each with a line, and go on.
const Scenario kDiffer("settings_differ", [](Peer& peer) {
  ::setenv("NCCL_MESH_ONESHOT_BYTES", peer.rank() == 1 ? "4K" : "64K", 1);
  OneShotJob job(peer);
  require(!job.all_vote_yes(), "hosts with other settings form a group");
  job.end();
});
TEST(OneShot, HostsWithOtherSettingsVoteNo) {
  expect_run_says(kDiffer, on("triangle.json"), "NCCL_MESH_ONESHOT_BYTES is");
}

// The others hear of a member that is killed, and their requests end with an error: in a square
// also the member that makes no step with it.
const Scenario kKilled("killed", [](Peer& peer) {
  OneShotJob job(peer);
  require(job.all_vote_yes(), "a member has no group");
  Values send(1000, 1), receive(1000);
  void* const request = peer.rank() == 1 ? nullptr : job.start(send, receive);
  peer.barrier();
  if (peer.rank() == 1) ::raise(SIGKILL);
  int done = 0;
  const int result = job.finish(request, clock_bar(kPromised), &done);
  require(result == 6 && done == 0, "the end is not ncclRemoteError but " + std::to_string(result));
  job.end();
});
void expect_error(const char* fabric) {
  const std::vector<RankEnd> ranks = run(kKilled, on(fabric));
  if (testing::Test::IsSkipped()) return;
  ASSERT_GE(ranks.size(), 3u);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_TRUE(ranks[rank].finished && ranks[rank].end.success()) << ranks[rank].output;
  }
}
TEST(OneShot, AKilledMemberIsAnErrorInATriangle) { expect_error("triangle.json"); }
TEST(OneShot, AKilledMemberIsAnErrorInASquare) { expect_error("ring4.json"); }
TEST(OneShot, AKilledMemberIsAnErrorInALine) { expect_error("line3.json"); }

}  // namespace
}  // namespace mesh::e2e
