// A peer cannot reach memory that was handed back, whatever is still on its way.
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/raw.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr char kCanary = '\x5e';

// Calls deregMr and close with requests open on one side or on both; afterwards the communicator
// still works.
const Scenario kInFlight("in_flight", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const bool this_side =
      peer.argument() == "both" || peer.argument() == (peer.rank() == 0 ? "send" : "recv");
  for (int round = 0; round < 3; ++round) {
    Line line(peer, *communicator, {.bytes = 8 * kMiB});
    stream(line, {.count = 10, .bytes = 100000});
    Raw raw(*api, line.comm(), line.sends() ? driver::Side::Send : driver::Side::Recv);
    communicator->progress().detach(line.pipe());
    for (std::size_t i = 0; i < 8 && this_side; ++i) raw.post(line.memory().piece(i * kMiB, kMiB));
    peer.barrier();
    const auto begin = SteadyClock::now();
    line.close();
    const std::chrono::duration<double> taken = SteadyClock::now() - begin;
    require(taken.count() < clock_bar_s(2),
            "deregMr and close took " + std::to_string(taken.count()) + " s");
    peer.barrier();
  }
  require_success(communicator->close(), "finalize");
});
TEST(Memory, CloseAndDeregWithSendsInFlight) { expect_run(kInFlight, {.argument = "send"}); }
TEST(Memory, CloseAndDeregWithReceivesInFlight) { expect_run(kInFlight, {.argument = "recv"}); }
TEST(Memory, CloseAndDeregWithBothInFlight) { expect_run(kInFlight, {.argument = "both"}); }

// Takes back the memory of one receive while the peer has the credit but has sent nothing; the
// other receives live on.
const Scenario kTakeOneBack("take_one_back", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = kMiB});
  peer.barrier();  // the message that opens a path is acknowledged: the next one ends the channel
  if (!line.sends()) {
    driver::Registered passing(*communicator, line.comm(), kMiB);
    Raw raw(*api, line.comm(), driver::Side::Recv);
    raw.post(passing.piece(0, kMiB));
    require_success(passing.release(), "deregMr");
    std::memset(passing.data(), kCanary, kMiB);
    require(passing.buffer().make_read_only(), "mprotect");
    peer.barrier();
    peer.barrier();
    const char* data = passing.data();
    require(std::all_of(data, data + kMiB, [](char byte) { return byte == kCanary; }),
            "memory taken back was written");
    return;
  }
  peer.barrier();
  std::memset(line.memory().data(), 1, kMiB);
  line.pipe().push(line.memory().piece(0, kMiB));
  line.wait_result(driver::milliseconds(500));  // the send may fail or wait; only it must not land
  peer.barrier();
});
TEST(Memory, ASendAfterDeregLandsNowhere) { expect_run(kTakeOneBack); }

// Delays one write by five seconds; its receiver takes the memory back at once.
constexpr const char* kDelayedPair = R"({"name": "delayed",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";
constexpr std::uint64_t kDelayNs = 5'000'000'000;

// Waits until the whole message is posted to the NIC, where it is late.
void send_late(Raw& raw, const driver::NetPiece& piece) {
  Breaker breaker;
  const std::string nic = breaker.nics().front().name;
  breaker.delay_writes(nic, kDelayNs);
  const std::uint64_t goal = breaker.bytes(nic) + kMiB;
  void* request = raw.post(piece);
  const auto end = SteadyClock::now() + patience();
  while (breaker.bytes(nic) < goal) {
    require(SteadyClock::now() < end, "the message was not posted");
    require(!raw.poll(request).has_value(), "a write was done before its time");
  }
  breaker.delay_no_more(nic);
}

void take_back_under_delay(Peer& peer, Line& line) {
  Raw raw(line.communicator().api(), line.comm(),
          line.sends() ? driver::Side::Send : driver::Side::Recv);
  line.communicator().progress().detach(line.pipe());
  const driver::NetPiece piece = line.memory().piece(0, kMiB);
  raw.await(raw.post(piece));
  if (!line.sends()) raw.post(piece);
  peer.barrier();
  if (line.sends()) send_late(raw, piece);
  peer.barrier();
  if (line.sends()) return;
  require_success(line.memory().release(), "deregMr");
  std::memset(line.memory().data(), kCanary, kMiB);
  require(line.memory().buffer().make_read_only(), "mprotect");
}

const Scenario kCanaryScenario("canary", [](Peer& peer) {
  const auto api = peer.load();
  const auto struck = open_communicator(*api, 1);
  const auto other = open_communicator(*api, 2);
  Line line(peer, *struck, {.bytes = kMiB});
  Line beside(peer, *other, {.bytes = 8 * 65536});
  take_back_under_delay(peer, line);
  // Waits longer than the delay, so that whatever was on its way has had its time.
  const auto begin = SteadyClock::now();
  std::uint64_t moved = 0;
  for (bool enough = false; !enough; moved += 50) {
    stream(beside, {.count = 50, .bytes = 65536, .first_number = moved});
    enough =
        peer.all_gather(SteadyClock::now() - begin > std::chrono::seconds(6) ? "enough" : "")[0] ==
        "enough";
  }
  if (!line.sends()) {
    const char* data = line.memory().data();
    require(std::all_of(data, data + kMiB, [](char byte) { return byte == kCanary; }),
            "memory taken back was written");
  }
  require(other->progress().error() == driver::kNetSuccess, "the other communicator saw an error");
  peer.barrier();
});
constexpr const char* kWhyModelled = "no device delays a write for seconds on demand";
TEST(Memory, DelayedWritesNeverReachMemoryTakenBack) {
  expect_run(kCanaryScenario, {.fabric_text = kDelayedPair,
                               .software_only = kWhyModelled,
                               .environment = {{"NCCL_MESH_SOFT_COPY", "cma"}}});
}
TEST(Memory, DelayedWritesNeverReachMemoryTakenBackThroughCells) {
  expect_run(kCanaryScenario, {.fabric_text = kDelayedPair,
                               .software_only = kWhyModelled,
                               .environment = {{"NCCL_MESH_SOFT_COPY", "cells"}}});
}

}  // namespace
}  // namespace mesh::e2e
