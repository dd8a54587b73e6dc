// All that NCCL may ask of one connection: every size, order of arrival and form of a call. Pipes
// keep old pointers in their slots for ever, and Raw starts with rubbish: the plugin may read
// neither.
#include "tests/e2e/line.h"
#include "tests/e2e/raw.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kInFlight = 32;  // NCCL_NET_MAX_REQUESTS

// One connection and its communicator.
struct Setup {
  explicit Setup(Peer& peer, const LineOptions& options = {})
      : api(peer.load()),
        communicator(open_communicator(*api)),
        line(std::make_unique<Line>(peer, *communicator, options)) {}

  Raw raw() {
    return {*api, line->comm(), line->sends() ? driver::Side::Send : driver::Side::Recv};
  }
  void finish(Peer& peer) {
    peer.barrier();  // nobody hangs up while the other still works
    line->close();
    line.reset();
    require_success(communicator->close(), "finalize");
  }

  std::unique_ptr<driver::NetApi> api;
  std::unique_ptr<driver::Communicator> communicator;
  std::unique_ptr<Line> line;
};

const Scenario kEverySize("every_size", [](Peer& peer) {
  // Both sizes are more than may be in flight on a path.
  const std::size_t size_max = largest(64 * kMiB, 16 * kMiB);
  Setup setup(peer, {.bytes = size_max + 4096});
  std::vector<std::size_t> sizes{0,   1,   7,   8,    63,    64,      65,
                                 255, 256, 257, 4097, 65537, 1000003, 8 * kMiB + 13};
  for (std::size_t size = 1024; size <= size_max; size *= 2) sizes.push_back(size);
  std::uint64_t number = 0;
  for (const std::size_t size : sizes) transfer(*setup.line, {.bytes = size, .number = ++number});
  for (const std::size_t offset : {1u, 3u, 64u, 127u}) {
    for (const std::size_t size : {5u, 300u, 70001u})
      transfer(*setup.line, {.bytes = size, .offset = offset, .number = ++number});
  }
  setup.finish(peer);
});
TEST(Transfer, EverySizeArrivesWhole) { expect_run(kEverySize); }
TEST(Transfer, EverySizeArrivesWholeOverTwoCables) {
  expect_run(kEverySize, {.fabric = "pair2.json", .environment = {{"NCCL_MESH_RAILS", "all"}}});
}
TEST(Transfer, EverySizeArrivesWholeWithoutPollerThread) {
  expect_run(kEverySize, {.environment = {{"NCCL_MESH_THREADS", "0"}}});
}
TEST(Transfer, EverySizeArrivesWholeWithPollerThread) {
  expect_run(kEverySize, {.environment = {{"NCCL_MESH_THREADS", "1"}}});
}
constexpr const char* kWaysToCopy = "cells and process_vm_readv are its ways to copy";
TEST(Transfer, EverySizeArrivesWholeThroughCells) {
  expect_run(kEverySize,
             {.software_only = kWaysToCopy, .environment = {{"NCCL_MESH_SOFT_COPY", "cells"}}});
}
TEST(Transfer, EverySizeArrivesWholeThroughTheKernel) {
  expect_run(kEverySize,
             {.software_only = kWaysToCopy, .environment = {{"NCCL_MESH_SOFT_COPY", "cma"}}});
}

const Scenario kOneGibibyte("one_gibibyte", [](Peer& peer) {
  // An emulated host has no more memory to spare.
  const std::size_t bytes = largest(1024 * kMiB, 64 * kMiB);
  Setup setup(peer, {.bytes = bytes});
  transfer(*setup.line, {.bytes = bytes, .number = 1});
  setup.finish(peer);
});
TEST(Transfer, OneGibibyte) { expect_run(kOneGibibyte); }

const Scenario kLargerReceive("larger_receive", [](Peer& peer) {
  Setup setup(peer, {.bytes = 4 * kMiB});
  std::uint64_t number = 0;
  for (const std::size_t size : {0u, 1u, 100u, 9000u, 100000u, 1000000u}) {
    transfer(*setup.line, {.bytes = size, .room = 2 * size + 4096, .number = ++number});
  }
  setup.finish(peer);
});
TEST(Transfer, ReceiveMayBeLargerThanSend) { expect_run(kLargerReceive); }

const Scenario kManyMessages("many_messages", [](Peer& peer) {
  Setup setup(peer, {.bytes = 8 * 65536});
  std::uint64_t number = 0;
  for (const std::size_t size : {8u, 512u, 8192u, 65536u}) {
    const std::uint64_t count = trimmed(2000);
    stream(*setup.line, {.count = count, .bytes = size, .first_number = number});
    number += count;
  }
  setup.finish(peer);
});
TEST(Transfer, ThousandsOfMessagesInOrder) { expect_run(kManyMessages); }
TEST(Transfer, ReceiveDepthOfSixteenIsNeverOverrun) {
  expect_run(kManyMessages, {.environment = {{"NCCL_MESH_RQ_DEPTH", "16"}}});
}

// Sends many small messages to a receiver that does not look: more announcements than its queue
// pair has receives posted, held back by the window alone.
void crowd_a_sleeping_receiver(Peer& peer) {
  constexpr int kChannels = 8;
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  driver::ConnectionSet connections(*communicator);
  driver::ConnectionPlan plan{
      .send_to = {}, .recv_from = {}, .channels = kChannels, .timeout = patience()};
  const bool sends = peer.rank() == 0;
  (sends ? plan.send_to : plan.recv_from).push_back(1 - peer.rank());
  require_success(connections.connect(peer.bootstrap(), plan), "connect");
  std::vector<driver::Registered> memory;
  std::vector<Raw> channels;
  for (int channel = 0; channel < kChannels; ++channel) {
    void* comm = sends ? connections.send(0, channel) : connections.recv(0, channel);
    memory.emplace_back(*communicator, comm, kInFlight * 64);
    channels.emplace_back(*api, comm, sends ? driver::Side::Send : driver::Side::Recv);
  }
  channels.front().wake();
  for (std::uint64_t round = 0; round < trimmed(20); ++round) {
    if (sends) peer.barrier();  // every receive of the round is posted
    std::vector<std::pair<Raw*, void*>> open;
    for (std::size_t i = 0; i < kInFlight * kChannels; ++i) {
      Raw& raw = channels[i % kChannels];
      open.emplace_back(&raw, raw.post(memory[i % kChannels].piece(i / kChannels * 64, 64)));
    }
    if (!sends) peer.barrier();
    for (int turn = 0; turn < 200 && sends; ++turn) {
      std::erase_if(open,
                    [](const auto& each) { return each.first->poll(each.second).has_value(); });
    }
    peer.barrier();  // only now does the receiver look
    for (const auto& [raw, request] : open)
      require(raw->await(request) == 64, "a wrong size was reported");
    peer.barrier();
  }
  memory.clear();
  require_success(connections.close(), "close");
  require_success(communicator->close(), "finalize");
}
const Scenario kCrowded("crowded", crowd_a_sleeping_receiver);
TEST(Transfer, ASleepingReceiverOfDepthSixteenIsNeverOverrun) {
  expect_run(kCrowded, {.environment = {{"NCCL_MESH_RQ_DEPTH", "16"}, {"NCCL_MESH_THREADS", "0"}}});
}

const Scenario kThirtyTwo("thirty_two", [](Peer& peer) {
  Setup setup(peer, {.bytes = kInFlight * 4096});
  Raw raw = setup.raw();
  if (!setup.line->sends()) peer.barrier();  // all sends are in the plugin before the first receive
  std::vector<void*> requests;
  for (int i = 0; i < kInFlight; ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * 4096;
    if (setup.line->sends()) std::memset(setup.line->memory().data() + offset, i + 1, 4096);
    void* request = raw.try_post(setup.line->memory().piece(offset, 4096));
    require(request != nullptr, "request " + std::to_string(i) + " of 32 was put off");
    requests.push_back(request);
  }
  if (setup.line->sends()) peer.barrier();
  for (int i = 0; i < kInFlight; ++i) {
    require(raw.await(requests[static_cast<std::size_t>(i)]) == 4096, "a wrong size was reported");
    const char* data = setup.line->memory().data() + static_cast<std::size_t>(i) * 4096;
    require(data[0] == i + 1 && data[4095] == i + 1,
            "message " + std::to_string(i) + " met another receive");
  }
  setup.finish(peer);
});
TEST(Requests, ThirtyTwoInFlight) { expect_run(kThirtyTwo); }

// `late` is the side that posts only after its peer has asked for a while in vain.
void one_side_late(Peer& peer, bool receiver_late) {
  Setup setup(peer, {.bytes = kMiB});
  Raw raw = setup.raw();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{30000}, kMiB}) {
    const driver::NetPiece piece = setup.line->memory().piece(0, bytes);
    if (setup.line->sends() == receiver_late) {
      void* request = raw.post(piece);
      for (int i = 0; i < 2000; ++i) {
        const bool early = raw.poll(request).has_value();
        require(!early || (receiver_late && bytes == 0),
                "a request was done before its other half existed");
        if (early) request = nullptr;
        if (early) break;
      }
      peer.barrier();
      if (request != nullptr)
        require(raw.await(request) == static_cast<int>(bytes), "a wrong size was reported");
    } else {
      peer.barrier();
      require(raw.await(raw.post(piece)) == static_cast<int>(bytes), "a wrong size was reported");
    }
  }
  setup.finish(peer);
}
const Scenario kLateReceive("late_receive", [](Peer& peer) { one_side_late(peer, true); });
TEST(Requests, LateReceive) { expect_run(kLateReceive); }
const Scenario kLateSend("late_send", [](Peer& peer) { one_side_late(peer, false); });
TEST(Requests, LateSend) { expect_run(kLateSend); }

const Scenario kNullSizes("null_sizes", [](Peer& peer) {
  Setup setup(peer, {.bytes = kMiB});
  Raw raw = setup.raw();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, kMiB})
    raw.await_blind(raw.post(setup.line->memory().piece(0, bytes)));
  setup.finish(peer);
});
TEST(Requests, NullSizesInTest) { expect_run(kNullSizes); }

const Scenario kEmptyMessage("empty_message", [](Peer& peer) {
  Setup setup(peer);
  Raw raw = setup.raw();
  for (int i = 0; i < 100; ++i) require(raw.await(raw.post({})) == 0, "an empty message had bytes");
  setup.finish(peer);
});
TEST(Requests, ZeroBytesWithoutMemoryIsAMessage) { expect_run(kEmptyMessage); }

const Scenario kOptionalMarker("optional_marker", [](Peer& peer) {
  Setup setup(peer, {.bytes = kMiB, .optional_marker = true});
  stream(*setup.line, {.count = trimmed(200), .bytes = 65536});
  setup.finish(peer);
});
TEST(Requests, OptionalCompletionMarkerIsTaken) { expect_run(kOptionalMarker); }

}  // namespace
}  // namespace mesh::e2e
