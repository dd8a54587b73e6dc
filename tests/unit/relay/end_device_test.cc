// The behaviour of a relayed queue pair for its user, over one and two middle hosts.

#include "src/relay/end_device.h"

#include "src/relay/end_completion_queue.h"
#include "tests/unit/relay/line.h"
#include "tests/unit/soft/open_host.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace mesh::relay {

namespace {

using testkit::Line;
using testkit::LineEnd;
using testkit::LineOptions;
using testkit::LineWrite;

constexpr const char* kOneCable = R"({"name":"cable",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]}]})";

// The parameter is the number of middle hosts.
class EndDeviceOverLine : public ::testing::TestWithParam<std::size_t> {
 protected:
  static LineOptions options() {
    LineOptions options;
    options.middles = GetParam();
    return options;
  }
};

void fill(LineEnd& end) {
  for (std::size_t i = 0; i < end.memory.size(); ++i)
    end.memory[i] = static_cast<std::byte>(i * 7 + i / 251);
}

TEST_P(EndDeviceOverLine, BytesLandWhereTheyWereSent) {
  Line line(options());
  fill(line.end(0));
  std::size_t at = 0;
  std::uint64_t sent = 0;
  for (const std::uint32_t bytes :
       {0u, 1u, 7u, 63u, 64u, 65u, 223u, 224u, 225u, 4096u, 70001u, 1u << 18}) {
    ASSERT_EQ(line.post(0, {.wr_id = bytes, .from = at, .to = at, .bytes = bytes}), 0);
    ASSERT_TRUE(line.until_sent(0, ++sent)) << bytes;
    EXPECT_EQ(line.end(0).sent.back().status, IBV_WC_SUCCESS);
    EXPECT_EQ(line.end(0).sent.back().wr_id, bytes);
    EXPECT_EQ(line.end(0).sent.back().opcode, IBV_WC_RDMA_WRITE);
    ASSERT_EQ(std::memcmp(line.end(0).memory.data() + at, line.end(1).memory.data() + at, bytes),
              0);
    ASSERT_EQ(line.end(1).memory[at + bytes], std::byte{0}) << "byte after " << bytes;
    at += bytes + 1;
  }
}

TEST_P(EndDeviceOverLine, AnnouncementsArriveInOrderWithTheirBytes) {
  Line line(options());
  fill(line.end(0));
  ASSERT_EQ(line.post_receives(1, 8), 0);
  for (std::uint32_t i = 0; i < 8; ++i) {
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = i * 1000, .announced = true, .imm = 90 + i}), 0);
  }
  ASSERT_TRUE(line.until_received(1, 8));
  for (std::uint32_t i = 0; i < 8; ++i) {
    const ibv_wc& got = line.end(1).received[i];
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(got.byte_len, i * 1000);
    EXPECT_EQ(got.imm_data, 90 + i);
    EXPECT_EQ(got.qp_num, line.end(1).qp->qp_num);
  }
  ASSERT_TRUE(line.until_sent(0, 8));
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(line.end(0).sent[i].wr_id, i);
}

TEST_P(EndDeviceOverLine, UnsignaledOnesAreSilentAndFreedByALaterSignaledOne) {
  LineOptions shallow = options();
  shallow.send_depth = 8;
  Line line(shallow);
  for (std::uint64_t i = 0; i < 7; ++i)
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 16, .flags = 0}), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 7, .bytes = 16}), 0);
  EXPECT_EQ(line.post(0, {.wr_id = 8, .bytes = 16}), ENOMEM) << "the queue is full";
  ASSERT_TRUE(line.until_sent(0, 1));
  EXPECT_EQ(line.end(0).sent[0].wr_id, 7u);
  for (std::uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 16, .flags = 0}), 0);
  line.settle();
  EXPECT_EQ(line.end(0).sent.size(), 1u) << "nothing signaled, nothing completed";
  EXPECT_EQ(line.post(0, {.wr_id = 8, .bytes = 16}), ENOMEM) << "executed, but nobody said so";
}

TEST_P(EndDeviceOverLine, PartOfAListIsPostedUpToTheOneThatDoesNotFit) {
  LineOptions shallow = options();
  shallow.send_depth = 8;
  Line line(shallow);
  std::vector<ibv_send_wr> list(12);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].wr_id = i;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].send_flags = IBV_SEND_SIGNALED;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(line.end(0).qp.get(), list.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &list[8]);
  ASSERT_TRUE(line.until_sent(0, 8));
}

TEST_P(EndDeviceOverLine, InlineBytesAreTakenWhenPosted) {
  Line line(options());
  std::memset(line.end(0).memory.data(), 1, 64);
  const unsigned flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  for (std::size_t i = 0; i < 10; ++i)
    ASSERT_EQ(line.post(0, {.wr_id = i, .to = i * 64, .bytes = 64, .flags = flags}), 0);
  std::memset(line.end(0).memory.data(), 2, 64);
  ASSERT_TRUE(line.until_sent(0, 10));
  for (std::size_t i = 0; i < 640; ++i) ASSERT_EQ(line.end(1).memory[i], std::byte{1});
  EXPECT_EQ(line.post(0, {.bytes = 65, .flags = flags}), EINVAL) << "64 were granted";
}

TEST_P(EndDeviceOverLine, PostingChecksWhatItIsGiven) {
  Line line(options());
  EXPECT_EQ(line.post(0, {.bytes = (1 << 18) + 1}), EINVAL) << "longer than the longest";
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(ibv_post_send(line.end(0).qp.get(), &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.num_sge = 2;
  EXPECT_EQ(ibv_post_send(line.end(0).qp.get(), &wr, &bad), EINVAL) << "one was granted";
}

// The ring has fewer slots than work requests, and room for two of the longest payloads.
TEST_P(EndDeviceOverLine, AFullRingDelaysAndLosesNothing) {
  LineOptions narrow = options();
  narrow.send_depth = 64;
  narrow.slots = 3;
  narrow.wr_bytes = 4096;
  narrow.payload_bytes = 8192;
  Line line(narrow);
  fill(line.end(0));
  ASSERT_EQ(line.post_receives(1, 64), 0);
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::size_t at = i * std::size_t{4096};
    ASSERT_EQ(line.post(0, {.wr_id = i, .from = at, .to = at, .bytes = 4096, .announced = true}),
              0);
  }
  ASSERT_TRUE(line.until_sent(0, 64));
  ASSERT_TRUE(line.until_received(1, 64));
  EXPECT_EQ(
      std::memcmp(line.end(0).memory.data(), line.end(1).memory.data(), std::size_t{64} * 4096), 0);
}

TEST_P(EndDeviceOverLine, ErrorStateFlushesSignaledOrNot) {
  LineOptions patient = options();
  patient.timeout = 20;  // long, so that only the flush can end the requests
  Line line(patient);
  ASSERT_EQ(line.post_receives(0, 3), 0);
  ASSERT_EQ(line.to_error(1), 0);  // so that nobody acknowledges the posts
  for (std::uint64_t i = 0; i < 4; ++i) {
    const unsigned flags = i % 2 == 0 ? 0u : static_cast<unsigned>(IBV_SEND_SIGNALED);
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 64, .flags = flags}), 0);
  }
  ASSERT_EQ(line.to_error(0), 0);
  ASSERT_TRUE(line.until_sent(0, 4));
  ASSERT_TRUE(line.until_received(0, 3));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(line.end(0).sent[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(line.end(0).sent[i].wr_id, i);
  }
  EXPECT_EQ(line.end(0).received[2].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(line.post(0, {.wr_id = 50, .bytes = 8, .flags = 0}), 0);
  ASSERT_TRUE(line.until_sent(0, 5)) << "posted in the error state";
  EXPECT_EQ(line.end(0).sent[4].status, IBV_WC_WR_FLUSH_ERR);
}

// soft-RoCE keeps completions of queue pairs that it has destroyed.
TEST(EndCompletionQueue, AnIndexThatIsFreeAgainBeginsWithAnotherLife) {
  const auto host = mesh::testkit::open_host({.fabric = mesh::testkit::parsed(kOneCable),
                                              .host = "a",
                                              .agent = soft::Agent::None,
                                              .clock = {}});
  const verbs::ContextHandle device(*host, host->open_device("n0"));
  EndCompletionQueue queue(verbs::CqHandle(*host, host->create_cq(device.get(), 64)),
                           verbs::CqHandle(*host, host->create_cq(device.get(), 64)));
  const auto parts = [] {
    EndQueuePair::Parts made;
    made.depth = 4;
    made.real_depth = 8;
    return made;
  };
  EndQueuePair first(parts()), second(parts());
  ASSERT_TRUE(queue.add_sender(first));
  const std::uint32_t before = first.life();
  queue.remove_sender(first);
  ASSERT_TRUE(queue.add_sender(second));
  EXPECT_EQ(second.index(), first.index());
  EXPECT_NE(second.life(), before);
  queue.remove_sender(second);
}

INSTANTIATE_TEST_SUITE_P(Middles, EndDeviceOverLine, ::testing::Values(1, 2));

}  // namespace

}  // namespace mesh::relay
