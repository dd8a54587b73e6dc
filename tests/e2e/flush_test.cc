// A GPU's bus may hold back what a NIC has written until the NIC reads that memory. A user that
// reads the memory on the device asks for a flush first, as NCCL does.
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/raw.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr const char* kLatePair = R"({"name": "late",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24",
               "device_memory": "both", "late_device_writes": true},
              {"name": "mesh1", "address": "10.0.13.1/24",
               "device_memory": "both", "late_device_writes": true}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24",
               "device_memory": "both", "late_device_writes": true},
              {"name": "mesh1", "address": "10.0.13.2/24",
               "device_memory": "both", "late_device_writes": true}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}, {"ends": ["a/mesh1", "b/mesh1"]}]})";

RunOptions late() {
  return {.fabric_text = kLatePair, .software_only = "no device keeps its writes on demand"};
}

const Scenario kFlushed("flushed", [](Peer& peer) {
  driver::use_memory(driver::MemoryKind::Device);
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * 262144});
  std::uint64_t number = 0;
  for (const std::size_t size : {8u, 4096u, 65536u, 262144u}) {
    const std::uint64_t count = trimmed(2500);
    stream(line, {.count = count, .bytes = size, .first_number = number});
    number += count;
  }
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
});
TEST(Flush, TenThousandMessagesAreThereWhenTheirFlushIsDone) { expect_run(kFlushed, late()); }

// Bytes that a lost rail has written and held back must not land on bytes of another rail.
const Scenario kFlushedWhilePathsAreLost("flushed_while_paths_are_lost", [](Peer& peer) {
  driver::use_memory(driver::MemoryKind::Device);
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  constexpr std::size_t kSize = 131072;
  Line line(peer, *communicator, {.bytes = 8 * kSize});
  Breaker breaker;
  constexpr int kTimes = 10;
  const std::uint64_t count = trimmed(1000);
  for (int i = 0; i < kTimes; ++i) {
    const std::string nic = breaker.nics()[static_cast<std::size_t>(i) % 2].name;
    std::optional<LaterBlow> blow;
    if (line.sends())
      blow.emplace(breaker, LaterBlow::Order{i % 3 == 0 ? Blow::PulledCable : Blow::Adapter, nic,
                                             8 * kSize * static_cast<std::uint64_t>(1 + i)});
    stream(line,
           {.count = count, .bytes = kSize, .first_number = static_cast<std::uint64_t>(i) * count});
    if (blow) blow->finish();
    if (line.sends()) breaker.plug(nic);
    peer.barrier();
  }
  line.close();
  require_success(communicator->close(), "finalize");
});
TEST(Flush, TenThousandMessagesAreThereThoughTheirPathsAreLost) {
  RunOptions options = late();
  options.environment.push_back({"NCCL_MESH_RAILS", "all"});
  options.environment.push_back({"NCCL_IB_TIMEOUT", "12"});
  options.environment.push_back({"NCCL_IB_RETRY_CNT", "2"});
  expect_run(kFlushedWhilePathsAreLost, options);
}

// Shows that the fabric holds bytes back: without that, the tests above would prove nothing.
const Scenario kUnflushed("unflushed", [](Peer& peer) {
  driver::use_memory(driver::MemoryKind::Device);
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 65536});
  communicator->progress().detach(line.pipe());
  Raw raw(*api, line.comm(), line.sends() ? driver::Side::Send : driver::Side::Recv);
  if (line.sends()) std::memset(line.memory().data(), 7, 65536);
  const driver::NetPiece piece = line.memory().piece(0, 65536);
  require(raw.await(raw.post(piece)) == 65536, "a wrong size was reported");
  if (!line.sends()) {
    const char* data = line.memory().data();
    const auto is_there = [](char byte) { return byte == 7; };
    require(!std::all_of(data, data + 65536, is_there), "the NIC has kept nothing back");
    void* request = nullptr;
    require_success(api->iflush(line.comm(), piece, &request), "iflush");
    require(request != nullptr, "no flush was needed");
    raw.await_blind(request);
    require(std::all_of(data, data + 65536, is_there), "a flush has left bytes behind");
  }
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
});
TEST(Flush, WithoutItTheBytesAreNotThere) { expect_run(kUnflushed, late()); }

}  // namespace
}  // namespace mesh::e2e
