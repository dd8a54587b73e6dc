#include "tests/contract/contract_fixture.h"

#include "src/base/clock.h"

#include <array>

namespace mesh::contract {
namespace {
constexpr std::uint64_t kPatienceNs = 50'000'000'000;
constexpr int kSettleRounds = 2000;
}  // namespace

SendRequest write_request(const Endpoint& from, const Endpoint& to, std::uint64_t wr_id,
                          std::uint32_t bytes) {
  SendRequest request;
  request.sge = {from.address(), bytes, from.mr->lkey};
  request.wr.wr_id = wr_id;
  request.wr.num_sge = bytes == 0 ? 0 : 1;
  request.wr.opcode = IBV_WR_RDMA_WRITE;
  request.wr.send_flags = IBV_SEND_SIGNALED;
  request.wr.wr.rdma.remote_addr = to.address();
  request.wr.wr.rdma.rkey = to.mr->rkey;
  return request;
}

int to_error(Endpoint& endpoint) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return endpoint.provider->modify_qp(endpoint.qp, &attr, IBV_QP_STATE);
}

int post(Endpoint& from, SendRequest request) {
  request.wr.sg_list = &request.sge;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(from.qp, &request.wr, &bad);
}

int post_receive(Endpoint& endpoint, std::uint64_t wr_id, std::uint32_t bytes, std::size_t offset) {
  ibv_sge sge{endpoint.address(offset), bytes, endpoint.mr->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = bytes == 0 ? 0 : 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(endpoint.qp, &wr, &bad);
}

void Contract::SetUp() {
  left_host_ = GetParam().open(Side::Left);
  right_host_ = GetParam().open(Side::Right);
  ASSERT_NE(left_host_.provider, nullptr);
  ASSERT_NE(right_host_.provider, nullptr);
}

void Contract::TearDown() {
  close_endpoint(left_);
  close_endpoint(right_);
}

void Contract::connect_pair(const PairOptions& options) {
  ASSERT_TRUE(open_endpoint(left_, left_host_, options));
  ASSERT_TRUE(open_endpoint(right_, right_host_, options));
  ASSERT_TRUE(connect_endpoint(left_, right_.gid.gid, right_.qp->qp_num, options));
  ASSERT_TRUE(connect_endpoint(right_, left_.gid.gid, left_.qp->qp_num, options));
}

std::vector<ibv_wc>& Contract::seen(ibv_cq* cq) {
  if (cq == left_.send_cq) return seen_[0];
  if (cq == left_.receive_cq) return seen_[1];
  return cq == right_.send_cq ? seen_[2] : seen_[3];
}

void Contract::poll_both() {
  for (ibv_cq* cq : {left_.send_cq, left_.receive_cq, right_.send_cq, right_.receive_cq}) {
    if (cq == nullptr) continue;
    std::array<ibv_wc, 16> wc{};
    const int found = ibv_poll_cq(cq, static_cast<int>(wc.size()), wc.data());
    for (int i = 0; i < found; ++i) seen(cq).push_back(wc[static_cast<std::size_t>(i)]);
  }
}

std::vector<ibv_wc> Contract::wait(ibv_cq* cq, std::size_t count) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
  while (seen(cq).size() < count && clock.now_ns() < until_ns) poll_both();
  EXPECT_GE(seen(cq).size(), count) << "completions missing";
  return std::exchange(seen(cq), {});
}

std::vector<ibv_wc> Contract::settle(ibv_cq* cq) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + GetParam().traits.settle_ns;
  for (int round = 0; round < kSettleRounds || clock.now_ns() < until_ns; ++round) poll_both();
  return std::exchange(seen(cq), {});
}

}  // namespace mesh::contract
