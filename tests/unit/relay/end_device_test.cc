// A relayed queue pair refuses what it cannot relay, and waits for room in its ring, over one and
// two middle hosts. relay_contract shows what it has in common with queue pairs of any device.

#include "src/relay/end_device.h"

#include "src/relay/end_completion_queue.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineEnd, testkit::LineOptions;

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
