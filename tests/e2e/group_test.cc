// Receives that are started together, as NCCL does where the ranks of a host share one connection
// (PXN): one proxy sends for eight local ranks, whose messages are ready in any order.
#include "tests/e2e/breaker.h"
#include "tests/e2e/group_receiver.h"
#include "tests/e2e/proxy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <typename Side>
void drive(Side& side, const char* name) {
  auto patience_ends = SteadyClock::now() + patience();
  while (!side.done()) {
    if (side.turn()) {
      patience_ends = SteadyClock::now() + patience();
    } else {
      std::this_thread::yield();
      require(SteadyClock::now() < patience_ends, std::string("the ") + name + " is stuck");
    }
  }
}

struct Job {
  explicit Job(Peer& peer)
      : api(peer.load()),
        communicator(open_communicator(*api)),
        line(peer, *communicator, {.bytes = kOpen * kTags * kRoom}) {
    communicator->progress().detach(line.pipe());
  }
  void run(const Plan& plan, std::size_t late_tag = SIZE_MAX) {
    if (line.sends()) {
      Proxy proxy(line, plan);
      proxy.late_tag = late_tag;
      drive(proxy, "proxy");
    } else {
      GroupReceiver receiver(line, plan);
      drive(receiver, "receiver");
    }
  }
  void end(Peer& peer) {
    peer.barrier();
    line.close();
    require_success(communicator->close(), "finalize");
  }
  std::unique_ptr<driver::NetApi> api;
  std::unique_ptr<driver::Communicator> communicator;
  Line line;
};

const Scenario kRandom("random_groups", [](Peer& peer) {
  Job job(peer);
  job.run(Plan(1, trimmed(10'000), kRoom));
  job.end(peer);
});
TEST(Group, TenThousandOfEightRanksInAnyOrder) { expect_run(kRandom); }

// Pollers match sends and credits while the proxy goes on.
TEST(Group, TenThousandWithPollers) {
  RunOptions options;
  options.environment = {{"NCCL_MESH_THREADS", "1"}};
  expect_run(kRandom, options);
}

const Scenario kLate("late_rank", [](Peer& peer) {
  Job job(peer);
  for (const std::size_t late : {0u, 3u, 7u}) job.run(Plan(late, trimmed(40), 4096), late);
  job.end(peer);
});
TEST(Group, OneLateRankHoldsUpNoOther) { expect_run(kLate); }

// Starts more sends of one rank than a connection has slots, before a receive of another rank.
const Scenario kAhead("rank_runs_ahead", [](Peer& peer) {
  Job job(peer);
  driver::NetApi& net = *job.api;
  driver::Registered& memory = job.line.memory();
  const auto finish = [&](void* request) {
    int done = 0, bytes = -1;
    const auto end = SteadyClock::now() + patience();
    while (done == 0 && SteadyClock::now() < end)
      require_success(net.test(request, &done, &bytes), "test");
    require(done == 1, "a request is not done in time");
  };
  constexpr int kAheadMost = 32;
  void* request = nullptr;
  if (job.line.sends()) {
    std::deque<void*> ahead;
    for (int i = 0; i < kAheadMost; ++i) {
      require_success(net.isend(job.line.comm(), memory.piece(0, 64, 1), &request), "isend");
      if (request != nullptr) ahead.push_back(request);
    }
    require(ahead.size() >= 8, "a rank may have eight sends open");
    require_success(net.isend(job.line.comm(), memory.piece(0, 64, 2), &request), "isend");
    require(request != nullptr, "a rank that runs ahead leaves no slot for another one");
    finish(request);
    for (std::size_t i = 0; i < kAheadMost; ++i) {
      while (ahead.size() <= i) {
        require_success(net.isend(job.line.comm(), memory.piece(0, 64, 1), &request), "isend");
        if (request != nullptr) ahead.push_back(request);
      }
      finish(ahead[i]);
    }
  } else {
    require_success(net.irecv(job.line.comm(), memory.piece(0, 64, 2), &request), "irecv");
    finish(request);
    for (int i = 0; i < kAheadMost; ++i) {
      require_success(net.irecv(job.line.comm(), memory.piece(0, 64, 1), &request), "irecv");
      require(request != nullptr, "a receive finds no slot");
      finish(request);
    }
  }
  job.end(peer);
});
TEST(Group, ARankThatRunsAheadLeavesRoomForAnother) { expect_run(kAhead); }

constexpr const char* kTwoCables = R"({"name": "two_cables",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"},
               {"name": "mesh1", "address": "10.0.13.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"},
               {"name": "mesh1", "address": "10.0.13.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}, {"ends": ["a/mesh1", "b/mesh1"]}]})";

const Scenario kPathsLost("groups_while_paths_are_lost", [](Peer& peer) {
  Job job(peer);
  Breaker breaker;
  constexpr std::uint64_t kTimes = 12;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const std::string nic = breaker.nics()[i % 2].name;
    std::optional<LaterBlow> blow;
    if (job.line.sends())
      blow.emplace(breaker, LaterBlow::Order{i % 3 == 0 ? Blow::PulledCable : Blow::Adapter, nic,
                                             kRoom * (1 + i), i});
    job.run(Plan(100 + i, trimmed(600), kRoom));
    if (blow) blow->finish();
    if (job.line.sends()) breaker.plug(nic);
    peer.barrier();
  }
  job.end(peer);
});
TEST(Group, OutlivesLostPaths) {
  RunOptions options{
      .fabric_text = kTwoCables,
      .software_only = "its ports are broken through the software fabric's own door"};
  options.environment = {
      {"NCCL_MESH_RAILS", "all"}, {"NCCL_IB_TIMEOUT", "12"}, {"NCCL_IB_RETRY_CNT", "2"}};
  expect_run(kPathsLost, options);
}

}  // namespace
}  // namespace mesh::e2e
