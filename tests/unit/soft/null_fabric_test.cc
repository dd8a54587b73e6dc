// The null fabric copies no payload, but keeps the rules of reliable connected queue pairs that the
// engine relies on.

#include "src/soft/null_provider.h"
#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"

namespace mesh::soft {
namespace {

using contract::Endpoint, contract::PairOptions;

constexpr std::uint32_t kSendDepth = 8;

std::string file_text(int polls) {
  return R"({"name": "t", "null": {"delivery_polls": )" + std::to_string(polls) +
         R"(}, "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]}]})";
}

struct Write {
  std::uint32_t bytes = 8;
  unsigned flags = IBV_SEND_SIGNALED;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::uint32_t rkey = 0;  // 0: the valid key
};

class NullFabricTest : public ::testing::Test {
 protected:
  void SetUp() override { open(1); }
  void TearDown() override { close(); }

  void open(int polls) {
    Result<FabricFile> file = parse(file_text(polls));
    ASSERT_TRUE(file.ok());
    Result<std::unique_ptr<verbs::Provider>> provider = open_null(*file);
    ASSERT_TRUE(provider.ok());
    provider_ = std::move(*provider);
    PairOptions options;
    options.send_depth = kSendDepth;
    ASSERT_TRUE(contract::open_pair(left_, *provider_, right_, *provider_, options));
    std::memset(left_.memory.data(), 'l', 4096);
    std::memset(right_.memory.data(), 'r', 4096);
  }
  void close() {
    contract::close_endpoint(left_);
    contract::close_endpoint(right_);
    provider_.reset();
  }

  int post(const Write& write) {
    contract::SendRequest request = contract::write_request(left_, right_, ++posted_, write.bytes);
    request.wr.opcode = write.opcode;
    request.wr.send_flags = write.flags;
    request.wr.imm_data = 0x1234;
    if (write.rkey != 0) request.wr.wr.rdma.rkey = write.rkey;
    return contract::post(left_, request);
  }
  static std::vector<ibv_wc> poll(ibv_cq* cq) {
    std::array<ibv_wc, 32> wc{};
    const int count = ibv_poll_cq(cq, static_cast<int>(wc.size()), wc.data());
    return {wc.begin(), wc.begin() + std::max(count, 0)};
  }
  char landed() const { return static_cast<char>(right_.memory[0]); }

  std::unique_ptr<verbs::Provider> provider_;
  Endpoint left_, right_;
  std::uint64_t posted_ = 0;
};

TEST_F(NullFabricTest, NothingHappensBeforeAPoll) {
  ASSERT_EQ(post({.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}), 0);
  EXPECT_EQ(landed(), 'r');
  EXPECT_EQ(poll(left_.send_cq).size(), 1u);
  EXPECT_EQ(landed(), 'l');
}

TEST_F(NullFabricTest, TheFileSaysAfterHowManyPolls) {
  close();
  open(3);
  ASSERT_EQ(post({.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}), 0);
  EXPECT_TRUE(poll(left_.send_cq).empty());
  EXPECT_TRUE(poll(right_.receive_cq).empty());
  EXPECT_EQ(landed(), 'r');
  EXPECT_EQ(poll(left_.send_cq).size(), 1u);
  EXPECT_EQ(landed(), 'l');
}

TEST_F(NullFabricTest, AReadCompletes) {
  ASSERT_EQ(post({.opcode = IBV_WR_RDMA_READ}), 0);
  EXPECT_EQ(poll(left_.send_cq).at(0).opcode, IBV_WC_RDMA_READ);
}

TEST_F(NullFabricTest, PayloadIsNotCopied) {
  ASSERT_EQ(contract::post_receive(right_, 7), 0);
  ASSERT_EQ(post({.bytes = 8}), 0);  // not inline
  ASSERT_EQ(post({.bytes = 64,
                  .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,  // announced
                  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM}),
            0);
  EXPECT_EQ(poll(left_.send_cq).size(), 2u);
  EXPECT_EQ(landed(), 'r');
  const std::vector<ibv_wc> received = poll(right_.receive_cq);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 7u);
  EXPECT_EQ(received[0].byte_len, 64u);
  EXPECT_EQ(received[0].imm_data, 0x1234u);
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST_F(NullFabricTest, AnAnnouncementWaitsForAReceiveAndIsCounted) {
  ASSERT_EQ(post({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  ASSERT_EQ(post({}), 0);  // waits behind it
  EXPECT_TRUE(poll(left_.send_cq).empty());
  EXPECT_TRUE(poll(left_.send_cq).empty());
  ASSERT_EQ(contract::post_receive(right_, 1), 0);
  EXPECT_EQ(poll(left_.send_cq).size(), 2u);
  EXPECT_EQ(poll(right_.receive_cq).size(), 1u);
  const testkit::LogCapture log;
  close();
  EXPECT_NE(log.joined().find("rnr_events=1 "), std::string::npos) << log.joined();
  EXPECT_NE(log.joined().find("doorbells=2 work_requests=2 announcements=1 "), std::string::npos)
      << log.joined();
}

TEST_F(NullFabricTest, RoomComesBackWithALaterSignaledCompletion) {
  for (std::uint32_t i = 0; i + 1 < kSendDepth; ++i) ASSERT_EQ(post({.flags = 0}), 0);
  EXPECT_TRUE(poll(left_.send_cq).empty());
  ASSERT_EQ(post({}), 0);
  EXPECT_EQ(post({}), ENOMEM);
  const std::vector<ibv_wc> sent = poll(left_.send_cq);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, kSendDepth);
  for (std::uint32_t i = 0; i < kSendDepth; ++i) EXPECT_EQ(post({.flags = 0}), 0) << i;
}

TEST_F(NullFabricTest, TheErrorStateFlushesBothQueues) {
  ASSERT_EQ(contract::post_receive(right_, 5), 0);
  ASSERT_EQ(contract::to_error(right_), 0);
  const std::vector<ibv_wc> received = poll(right_.receive_cq);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(post({.flags = 0}), 0);
  ASSERT_EQ(post({.flags = 0}), 0);
  const std::vector<ibv_wc> sent = poll(left_.send_cq);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(sent[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(NullFabricTest, AWrongKeyFailsBothEnds) {
  ASSERT_EQ(contract::post_receive(right_, 5), 0);
  ASSERT_EQ(post({.flags = IBV_SEND_INLINE, .rkey = right_.mr->rkey + 1}), 0);
  const std::vector<ibv_wc> sent = poll(left_.send_cq);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(landed(), 'r');
  EXPECT_EQ(poll(right_.receive_cq).size(), 1u);
}

TEST_F(NullFabricTest, RefusesWhatItDoesNotDo) {
  EXPECT_EQ(post({.opcode = IBV_WR_SEND}), EINVAL);
  EXPECT_EQ(post({.bytes = 65, .flags = IBV_SEND_INLINE}), EINVAL);  // more than the 64 asked for
}

TEST_F(NullFabricTest, RefusesAQueuePairOfAnotherProcess) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(provider_->modify_qp(left_.qp, &attr, IBV_QP_STATE), 0);
  attr.qp_state = IBV_QPS_INIT;
  ASSERT_EQ(provider_->modify_qp(left_.qp, &attr, IBV_QP_STATE), 0);
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = right_.gid.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(left_.gid.index);
  attr.dest_qp_num = right_.qp->qp_num ^ 0x800000u;
  const testkit::LogCapture log;
  EXPECT_EQ(provider_->modify_qp(left_.qp, &attr, IBV_QP_STATE), EHOSTUNREACH);
  EXPECT_NE(log.joined().find("joins only contexts of one process"), std::string::npos)
      << log.joined();
}

TEST_F(NullFabricTest, IsNoSoftFabricAndTheOtherWayRound) {
  Result<FabricFile> null = parse(file_text(1));
  ASSERT_TRUE(null.ok());
  SoftOptions options;
  options.fabric = *null;
  EXPECT_EQ(SoftProvider::open(std::move(options)).code(), Errc::InvalidArgument);
  null->null.reset();
  EXPECT_EQ(open_null(*null).code(), Errc::InvalidArgument);
}

}  // namespace
}  // namespace mesh::soft
