// Steps that must wait for a completion, on a device that completes only when the test says so.

#include "src/relay/count_words.h"
#include "src/relay/end_device.h"
#include "src/verbs/handle.h"
#include "tests/fuzz/fuzz_verbs.h"
#include "tests/prelude.h"

namespace mesh::relay {
namespace {

class HandPlayed : public ::testing::Test {
 protected:
  HandPlayed() {
    context_ = device_.open_device("n0");
    context_->device = &names_;
    pd_ = device_.alloc_pd(context_);
    pd_->context = context_;
  }
  ~HandPlayed() override { device_.close_device(context_); }

  ibv_qp_init_attr attributes(ibv_cq* cq) const {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64};
    return attr;
  }

  fuzz::FuzzVerbs device_;
  ibv_device names_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

// If a count word were written again before it has landed, the older write could overtake it.
TEST_F(HandPlayed, AWordOfCountsIsWrittenAgainOnlyWhenItHasLanded) {
  const verbs::CqHandle cq(device_, device_.create_cq(context_, 16));
  ibv_qp_init_attr attr = attributes(cq.get());
  const verbs::QpHandle qp(device_, device_.create_qp(pd_, &attr));
  CountLine source;
  CountWriter writer;
  writer.open({.qp = qp.get(), .source = &source, .inline_bytes = 8});
  for (std::uint32_t word = 0; word < kCountWords; ++word) {
    ASSERT_TRUE(writer.ready()) << word;
    ASSERT_EQ(writer.write({.free = word + 1}), 0);
    EXPECT_EQ(unpack(source.words[word]).free, word + 1) << "they are taken in turn";
  }
  EXPECT_FALSE(writer.ready());
  writer.on_written(1);
  EXPECT_FALSE(writer.ready()) << "it is not that one's turn";
  writer.on_written(0);
  EXPECT_TRUE(writer.ready());
  ASSERT_EQ(writer.write({.free = 5}), 0);
  EXPECT_EQ(unpack(source.words[0]).free, 5u);
  EXPECT_TRUE(writer.last_is_written());
  ASSERT_EQ(writer.write_last({.free = 6, .status = IBV_WC_RETRY_EXC_ERR}), 0)
      << "there is always room for the last one";
  EXPECT_FALSE(writer.last_is_written());
}

// The far end has the data, but our own device may still read it: after a lost acknowledgement it
// sends again.
TEST_F(HandPlayed, NothingCompletesBeforeOurOwnDeviceIsThroughWithIt) {
  EndDevice ends(device_, context_);
  std::vector<std::byte> memory(4096);
  const verbs::MrHandle mr(
      device_, device_.reg_mr(pd_, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
  const verbs::CqHandle cq(ends, ends.create_cq(context_, 16));
  ibv_qp_init_attr attr = attributes(cq.get());
  const verbs::QpHandle qp(ends, ends.create_qp(pd_, &attr));
  ASSERT_TRUE(qp);
  ASSERT_TRUE(ends.set_ring(qp.get(),
                            {.address = 4096, .slots = 8, .payload_bytes = 8192, .wr_bytes = 4096})
                  .ok());
  ibv_qp_attr to_send{};
  to_send.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ends.modify_qp(qp.get(), &to_send, IBV_QP_STATE), 0);
  ibv_sge sge{reinterpret_cast<std::uint64_t>(memory.data()), 4096, mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = 7;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
  const std::uint64_t done = pack({.free = 1, .done = 1});
  const CountsTarget counts = ends.counts(qp.get());
  ASSERT_TRUE(device_.write(counts.address, counts.rkey, &done, sizeof done));
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &completion), 0);
  device_.complete(0, 2, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &completion), 1);
  EXPECT_EQ(completion.wr_id, 7u);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace mesh::relay
