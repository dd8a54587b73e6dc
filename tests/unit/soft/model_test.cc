// The wire model on a manual clock. Times are exact and equal in every run.

#include "tests/unit/soft/manual_fabric.h"

#include "src/soft/wire_model.h"

namespace mesh::soft {
namespace {

constexpr std::uint32_t kMessage = 1 << 20;
constexpr std::uint32_t kQuantumBytes = 16384;  // the default of the file format

contract::PairOptions deep() {
  contract::PairOptions options;
  options.send_depth = options.receive_depth = 64;
  return options;
}

// Returns the bytes per nanosecond of 64 messages that are spread over the queue pairs.
double goodput(const std::string& link, std::size_t pairs) {
  ManualFabric fabric(link, pairs, deep());
  const std::uint64_t start_ns = fabric.now_ns();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(fabric.write(i % pairs, i, kMessage), 0);
  fabric.run();
  std::size_t done = 0;
  for (const std::vector<Seen>& list : fabric.sent) done += list.size();
  EXPECT_EQ(done, 64u);
  return 64.0 * kMessage / static_cast<double>(fabric.now_ns() - start_ns);
}

TEST(Model, OneQueuePairStaysWithinItsCap) {
  const std::string capped = R"("gbps": 8, "qp_gbps": 5.12)";
  EXPECT_NEAR(goodput(capped, 1), 0.64, 0.02);
  EXPECT_GT(goodput(capped, 4), 0.95);
  EXPECT_GT(goodput(R"("gbps": 8)", 1), 0.95);
}

TEST(Model, PacketHeadersCostWhatTheyCostOnAWire) {
  EXPECT_NEAR(goodput(R"("gbps": 100, "mtu": 1024)", 2) / 12.5, 0.9259, 0.001);
  EXPECT_NEAR(goodput(R"("gbps": 400, "mtu": 4096)", 2) / 50, 0.9804, 0.001);
}

TEST(Model, CompletionTakesTheRoundTrip) {
  ManualFabric fabric(R"("gbps": 100, "delay_us": 2)", 1);
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.announce(0, 1, 4096), 0);
  fabric.run();
  ASSERT_EQ(fabric.received[0].size(), 1u);
  ASSERT_EQ(fabric.sent[0].size(), 1u);
  const auto wire_ns = static_cast<std::uint64_t>(std::ceil((4096 + 82 + 16 + 4) / 12.5));
  EXPECT_EQ(fabric.received[0][0].at_ns - start_ns, wire_ns + 2000);
  EXPECT_EQ(fabric.sent[0][0].at_ns - start_ns, wire_ns + 4000);
}

TEST(Model, ASmallMessageDoesNotWaitForAllOfABigOne) {
  ManualFabric fabric(R"("gbps": 8)", 2, deep());
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_EQ(fabric.write(0, i, kMessage), 0);
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.announce(1, 99, 64), 0);
  fabric.run();
  EXPECT_LT(fabric.received[1][0].at_ns - start_ns, 2 * kQuantumBytes + 1000)
      << "at 1 byte/ns it waits for one quantum";
}

TEST(Model, QueuePairsShareTheWireEvenly) {
  ManualFabric fabric(R"("gbps": 8)", 2, deep());
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(fabric.write(0, i, kMessage), 0);
    ASSERT_EQ(fabric.write(1, i, kMessage), 0);
  }
  fabric.run();
  for (std::size_t i = 0; i < 8; ++i) {
    const double apart = std::abs(static_cast<double>(fabric.sent[0][i].at_ns) -
                                  static_cast<double>(fabric.sent[1][i].at_ns));
    EXPECT_LT(apart, 2.0 * kQuantumBytes);
  }
}

TEST(Model, ANicReadsARequestBeforeItSendsButNotAnInlineOne) {
  for (const unsigned flags : {0u, static_cast<unsigned>(IBV_SEND_INLINE)}) {
    ManualFabric fabric(R"("gbps": 8)", 1, deep(), R"({"fetch_ns": 350})");
    const std::uint64_t start_ns = fabric.now_ns();
    for (std::uint64_t i = 0; i < 3; ++i)
      ASSERT_EQ(fabric.write(0, i, 64, IBV_SEND_SIGNALED | flags), 0);
    fabric.run();
    // Three requests of 64 + 82 + 16 bytes at 1 byte/ns. They are read in parallel, so the wait
    // counts once.
    EXPECT_EQ(fabric.sent[0].at(2).at_ns - start_ns, 3 * 162u + (flags == 0 ? 350u : 0u));
  }
}

TEST(Model, PostsDoorbellsAndCompletionsCostTheHost) {
  ManualFabric fabric(R"("gbps": 8)", 1, deep(),
                      R"({"post_ns": 75, "doorbell_ns": 40, "completion_ns": 20})");
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.write(0, 1, 64), 0);
  ASSERT_EQ(fabric.write(0, 2, 64), 0);
  EXPECT_EQ(fabric.a->take_cpu_ns(), 2 * (75u + 40u));
  fabric.run();
  EXPECT_EQ(fabric.sent[0].at(0).at_ns - start_ns, 75u + 40u + 162u)
      << "posted when the host had done so";
  EXPECT_EQ(fabric.sent[0].at(1).at_ns - start_ns, 75u + 40u + 2 * 162u);
  EXPECT_EQ(fabric.a->take_cpu_ns(), 2 * 20u);
  EXPECT_EQ(fabric.a->take_cpu_ns(), 0u);
}

TEST(Model, TheQuantumIsTheFiles) {
  ManualFabric fabric(R"("gbps": 8)", 2, deep(), R"({"quantum_bytes": 4096})");
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(fabric.write(0, i, kMessage), 0);
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.announce(1, 99, 64), 0);
  fabric.run();
  EXPECT_LT(fabric.received[1].at(0).at_ns - start_ns, 2 * 4096u);
}

// Two hosts with two cables of 200 Gb/s. Both NICs of a host are in one slot of that rate; 0: in
// none.
FabricFile two_cables(double slot_of_a, double slot_of_b) {
  const auto host = [](const char* name, double gbps, int end) {
    const std::string slots =
        gbps == 0 ? "" : fmt::format(R"("slots": [{{"name": "s", "gbps": {}}}], )", gbps);
    const char* const in = gbps == 0 ? "" : R"(, "slot": "s")";
    return fmt::format(R"({{"name": "{0}", {1}"nics": [)"
                       R"({{"name": "n0", "address": "10.0.1.{2}/24"{3}}},)"
                       R"({{"name": "n1", "address": "10.0.2.{2}/24"{3}}}]}})",
                       name, slots, end, in);
  };
  return *parse(R"({"name": "slots", "hosts": [)" + host("a", slot_of_a, 1) + "," +
                host("b", slot_of_b, 2) +
                R"(], "links": [{"ends": ["a/n0", "b/n0"], "gbps": 200, "delay_us": 0.6},
                                {"ends": ["a/n1", "b/n1"], "gbps": 200, "delay_us": 0.6}]})");
}

// The traffic of both hosts, over both cables.
struct Traffic {
  ibv_wr_opcode from_a = IBV_WR_RDMA_WRITE;
  bool writes_from_b = false;
};

// Returns the payload of one direction, as bytes on the wire, in Gb/s.
double rate_over(const FabricFile& file, const Traffic& traffic) {
  constexpr std::size_t kPairs = 4, kMessages = 32;
  ManualFabric fabric(file, kPairs, deep());
  const std::uint64_t start_ns = fabric.now_ns();
  const auto post_on = [](contract::Endpoint& from, const contract::Endpoint& to,
                          ibv_wr_opcode opcode) {
    contract::SendRequest request = write_request(from, to, 0, kMessage);
    request.wr.opcode = opcode;
    request.wr.send_flags = 0;
    EXPECT_EQ(post(from, request), 0);
  };
  for (std::size_t i = 0; i < kMessages; ++i) {
    contract::Endpoint &left = fabric.left[i % kPairs], &right = fabric.right[i % kPairs];
    post_on(left, right, traffic.from_a);
    if (traffic.writes_from_b) post_on(right, left, IBV_WR_RDMA_WRITE);
  }
  fabric.run();
  return static_cast<double>(kMessages * WireModel::wire_bytes(kMessage, 4096, false)) * 8 /
         static_cast<double>(fabric.now_ns() - start_ns);
}

TEST(Slots, PortsShareWhatIsReadAndWhatIsWritten) {
  EXPECT_NEAR(rate_over(two_cables(0, 0), {}), 400, 2) << "no slot has a rate";
  EXPECT_NEAR(rate_over(two_cables(218, 0), {}), 218, 1) << "the sender's";
  EXPECT_NEAR(rate_over(two_cables(0, 218), {}), 218, 1) << "the receiver's";
  EXPECT_NEAR(rate_over(two_cables(218, 218), {}), 218, 1);
  EXPECT_NEAR(rate_over(two_cables(300, 218), {}), 218, 1) << "the narrower one";
  EXPECT_NEAR(rate_over(two_cables(436, 436), {}), 400, 2) << "the cables are narrower";
}

// The NIC's own quantum and that of the other NIC go first, and one of its bulk queue pair's.
TEST(Slots, ASmallMessageDoesNotWaitForAllThatTheSlotHasToCarry) {
  ManualFabric fabric(two_cables(218, 218), 3, deep());
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(fabric.write(0, i, kMessage), 0);
    ASSERT_EQ(fabric.write(1, i, kMessage), 0);
  }
  const std::uint64_t posted_ns = fabric.now_ns() + 200'000;
  fabric.run(posted_ns);
  ASSERT_EQ(fabric.announce(2, 99, 64), 0);
  fabric.run();
  const double waited_ns = static_cast<double>(fabric.received[2].at(0).at_ns - posted_ns) - 600;
  EXPECT_LT(waited_ns, 4 * 1.02 * kQuantumBytes * 8 / 218);
  for (std::size_t i = 0; i < 16; ++i) {
    const double apart_ns = std::abs(static_cast<double>(fabric.sent[0].at(i).at_ns) -
                                     static_cast<double>(fabric.sent[1].at(i).at_ns));
    EXPECT_LT(apart_ns, 3 * 1.02 * kQuantumBytes * 8 / 218) << "the NICs take turns";
  }
}

TEST(Slots, OppositeDirectionsAreApart) {
  EXPECT_NEAR(rate_over(two_cables(218, 218), {.writes_from_b = true}), 218, 1);
  EXPECT_NEAR(rate_over(two_cables(436, 436), {.writes_from_b = true}), 400, 2);
}

TEST(Slots, WhatAReadBringsIsWritten) {
  EXPECT_NEAR(rate_over(two_cables(218, 0), {.from_a = IBV_WR_RDMA_READ}), 218, 1);
  EXPECT_NEAR(rate_over(two_cables(0, 218), {.from_a = IBV_WR_RDMA_READ}), 218, 1);
}

TEST(Model, WithoutRatesEverythingIsDueAtOnce) {
  ManualFabric fabric("", 1);
  const std::uint64_t start_ns = fabric.now_ns();
  ASSERT_EQ(fabric.announce(0, 1, kMessage), 0);
  fabric.run();
  EXPECT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(fabric.now_ns(), start_ns);
  EXPECT_EQ(fabric.a->next_due_ns(), UINT64_MAX);
}

}  // namespace
}  // namespace mesh::soft
