// Several communicators in one process, each with its own service and progress threads, all inside
// the plugin at once.
#include "perf/collectives/repeat.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

const Scenario kTwoCommunicators("two_communicators", [](Peer& peer) {
  const auto api = peer.load(std::stoi(peer.argument()));
  const auto first = open_communicator(*api, 1);
  const auto second = open_communicator(*api, 2);
  Line one(peer, *first, {.bytes = 8 * kBytes});
  Line two(peer, *second, {.bytes = 8 * kBytes});
  std::string failure;
  std::thread beside([&] {
    try {
      stream(two, {.count = trimmed(400), .bytes = kBytes});
    } catch (const Failure& caught) {
      failure = caught.what();
    }
  });
  try {
    stream(one, {.count = trimmed(400), .bytes = kBytes, .first_number = 100000});
  } catch (const Failure&) {
    beside.join();
    throw;
  }
  beside.join();
  require(failure.empty(), failure);
  peer.barrier();
  one.close();
  two.close();
  require_success(first->close(), "finalize");
  require_success(second->close(), "finalize");
});
TEST(Threads, TwoCommunicatorsOnTheirOwnThreads) {
  expect_run(kTwoCommunicators, {.argument = "12"});
}
TEST(Threads, TwoCommunicatorsWithoutPollerThreads) {
  expect_run(kTwoCommunicators, {.argument = "12", .environment = {{"NCCL_MESH_THREADS", "0"}}});
}
TEST(Threads, TwoCommunicatorsWithPollerThreads) {
  expect_run(kTwoCommunicators, {.argument = "12", .environment = {{"NCCL_MESH_THREADS", "1"}}});
}
TEST(Threads, TwoCommunicatorsOfAVersionWithoutContexts) {
  expect_run(kTwoCommunicators, {.argument = "8"});
}

// The service thread registers and deregisters on a comm while the progress thread moves its data.
const Scenario kRegisterMeanwhile("register_meanwhile", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * kBytes});
  perf::Repeat repeat(line.pipe());
  communicator->progress().attach(repeat);
  repeat.start({.first = line.memory().piece(0, kBytes), .stride = kBytes, .slots = 8},
               trimmed(1000));
  for (std::uint64_t i = 0; i < trimmed(200); ++i) {
    driver::Registered other(*communicator, line.comm(), 65536);
    require_success(other.result(), "regMr");
    require_success(other.release(), "deregMr");
  }
  line.wait();
  peer.barrier();
  communicator->progress().detach(repeat);
  line.close();
});
TEST(Threads, RegistrationsBesideData) { expect_run(kRegisterMeanwhile); }

// Ends one communicator again and again, with its requests open, beside one that works.
const Scenario kOneEnds("one_ends", [](Peer& peer) {
  const auto api = peer.load();
  const auto steady = open_communicator(*api, 1);
  Line line(peer, *steady, {.bytes = 8 * kBytes});
  perf::Repeat repeat(line.pipe());
  steady->progress().attach(repeat);
  for (int round = 0; round < 5; ++round) {
    repeat.start({.first = line.memory().piece(0, kBytes), .stride = kBytes, .slots = 8},
                 trimmed(100));
    const auto passing = open_communicator(*api, static_cast<std::uint64_t>(round) + 2);
    Line other(peer, *passing, {.bytes = 8 * kBytes});
    stream(other, {.count = 20, .bytes = kBytes});
    // These requests are open on one side only: they never complete.
    for (int i = 0; i < 4 && round % 2 == peer.rank(); ++i) {
      require(other.pipe().push(other.memory().piece(0, kBytes)), "no room in the pipe");
    }
    passing->progress().stop();
    other.close();
    require_success(passing->close(), "finalize");
    line.wait();
  }
  peer.barrier();
  steady->progress().detach(repeat);
  line.close();
});
TEST(Threads, OneCommunicatorsEndLeavesTheOtherAlone) { expect_run(kOneEnds); }

}  // namespace
}  // namespace mesh::e2e
