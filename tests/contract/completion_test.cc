// The contents of completions, and the number of work requests that may be outstanding.

#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

TEST_P(Contract, AnnouncementSaysTheLengthOfItsOwnWorkRequest) {
  connect_pair();
  ASSERT_EQ(post_receive(right_, 91), 0);
  SendRequest first = write_request(left_, right_, 1, 3000);
  SendRequest second = write_request(left_, right_, 2, 123);
  second.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  second.wr.imm_data = htonl(0x12345678);
  first.wr.sg_list = &first.sge;
  second.wr.sg_list = &second.sge;
  first.wr.next = &second.wr;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(left_.qp, &first.wr, &bad), 0);
  const ibv_wc got = wait_one(right_.receive_cq);
  EXPECT_EQ(got.status, IBV_WC_SUCCESS);
  EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got.byte_len, 123u);
  EXPECT_EQ(got.wr_id, 91u);
  EXPECT_EQ(got.qp_num, right_.qp->qp_num);
  EXPECT_NE(got.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(ntohl(got.imm_data), 0x12345678u);
  const std::vector<ibv_wc> sent = wait(left_.send_cq, 2);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].wr_id, 1u);
  EXPECT_EQ(sent[1].wr_id, 2u);
  EXPECT_EQ(sent[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(sent[0].qp_num, left_.qp->qp_num);
}

TEST_P(Contract, ZeroLengthAnnouncementArrives) {
  connect_pair();
  ASSERT_EQ(post_receive(right_, 5), 0);
  SendRequest request = write_request(left_, right_, 1, 0);
  request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.imm_data = htonl(9);
  request.wr.wr.rdma.rkey = 0;  // the write names no memory, so the key is not checked
  request.wr.wr.rdma.remote_addr = 0;
  ASSERT_EQ(post(left_, request), 0);
  const ibv_wc got = wait_one(right_.receive_cq);
  EXPECT_EQ(got.status, IBV_WC_SUCCESS);
  EXPECT_EQ(got.byte_len, 0u);
  EXPECT_EQ(ntohl(got.imm_data), 9u);
}

static void fill_with_pattern(std::vector<std::byte>& memory) {
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>(i * 7 + i / 251);
}

TEST_P(Contract, BytesLandWhereTheyWereSent) {
  connect_pair();
  fill_with_pattern(left_.memory);
  std::uint32_t at = 0;
  for (const std::uint32_t bytes : {1u, 7u, 8u, 63u, 64u, 65u, 255u, 4096u, 70001u, 1u << 20}) {
    SendRequest request = write_request(left_, right_, bytes, bytes);
    request.sge.addr += at;
    request.wr.wr.rdma.remote_addr += at;
    ASSERT_EQ(post(left_, request), 0);
    ASSERT_EQ(wait_one(left_.send_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(std::memcmp(left_.memory.data() + at, right_.memory.data() + at, bytes), 0)
        << bytes << " bytes";
    ASSERT_EQ(right_.memory[at + bytes], std::byte{0}) << "byte after " << bytes;
    at += bytes + 1;
  }
}

TEST_P(Contract, ElementsAreGathered) {
  connect_pair();
  std::array<ibv_sge, 4> sges{};
  for (std::size_t i = 0; i < sges.size(); ++i) {
    const auto bytes = static_cast<std::uint32_t>(5000 * i + 1);
    sges[i] = {left_.address(i * 100000), bytes, left_.mr->lkey};
    std::memset(left_.memory.data() + i * 100000, static_cast<int>(i + 1), bytes);
  }
  SendRequest request = write_request(left_, right_, 1, 1);
  request.wr.sg_list = sges.data();
  request.wr.num_sge = 4;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(left_.qp, &request.wr, &bad), 0);
  ASSERT_EQ(wait(left_.send_cq, 1).size(), 1u);
  std::size_t at = 0;
  for (std::size_t i = 0; i < sges.size(); ++i) {
    for (std::size_t byte = 0; byte < sges[i].length; ++byte, ++at)
      ASSERT_EQ(right_.memory[at], static_cast<std::byte>(i + 1));
  }
  EXPECT_EQ(right_.memory[at], std::byte{0});
}

TEST_P(Contract, SendFillsTheReceive) {
  connect_pair();
  std::memset(left_.memory.data(), 0x5a, 2000);
  ASSERT_EQ(post_receive(right_, 3, 4000, 100), 0);
  SendRequest request = write_request(left_, right_, 1, 2000);
  request.wr.opcode = IBV_WR_SEND_WITH_IMM;
  request.wr.imm_data = htonl(77);
  ASSERT_EQ(post(left_, request), 0);
  const ibv_wc got = wait_one(right_.receive_cq);
  EXPECT_EQ(got.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.byte_len, 2000u);
  EXPECT_EQ(ntohl(got.imm_data), 77u);
  EXPECT_EQ(right_.memory[99], std::byte{0});
  EXPECT_EQ(right_.memory[100], std::byte{0x5a});
  EXPECT_EQ(right_.memory[2099], std::byte{0x5a});
  EXPECT_EQ(right_.memory[2100], std::byte{0});
}

TEST_P(Contract, ReadBringsTheRemoteBytes) {
  connect_pair();
  const std::uint32_t bytes = 1'500'001;
  for (std::size_t i = 0; i < bytes; ++i)
    right_.memory[i] = static_cast<std::byte>(i * 11 + i / 253);
  SendRequest request = write_request(left_, right_, 1, bytes);
  request.wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post(left_, request), 0);
  const ibv_wc sent = wait_one(left_.send_cq);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(std::memcmp(left_.memory.data(), right_.memory.data(), bytes), 0);
  EXPECT_EQ(left_.memory[bytes], std::byte{0});
}

TEST_P(Contract, InlineBytesAreTakenWhenPosted) {
  connect_pair();
  const std::uint32_t bytes = left_.cap.max_inline_data;
  std::memset(left_.memory.data(), 1, bytes);
  SendRequest request = write_request(left_, right_, 1, bytes);
  request.sge.lkey = 0;  // the key is not checked
  request.wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post(left_, request), 0);
  std::memset(left_.memory.data(), 2, bytes);
  ASSERT_EQ(wait(left_.send_cq, 1).size(), 1u);
  EXPECT_EQ(right_.memory[0], std::byte{1});
  EXPECT_EQ(right_.memory[bytes - 1], std::byte{1});
  request.sge.length = bytes + 1;
  EXPECT_EQ(post(left_, request), EINVAL);
}

TEST_P(Contract, UnsignaledRequestsAreFreedByALaterSignaledOne) {
  PairOptions options = pair_options();
  options.send_depth = 8;
  connect_pair(options);
  SendRequest quiet = write_request(left_, right_, 1, 16);
  quiet.wr.send_flags = 0;
  const std::uint32_t depth = left_.cap.max_send_wr;
  for (std::uint32_t i = 0; i + 1 < depth; ++i) ASSERT_EQ(post(left_, quiet), 0);
  ASSERT_EQ(post(left_, write_request(left_, right_, 2, 16)), 0);
  if (traits().room_by_polling) {
    EXPECT_EQ(post(left_, quiet), ENOMEM) << "the queue is full";
  }
  const ibv_wc sent = wait_one(left_.send_cq);  // only the signaled one completes
  EXPECT_EQ(sent.wr_id, 2u);
  for (std::uint32_t i = 0; i < depth; ++i)
    ASSERT_EQ(post(left_, quiet), 0) << "polling it freed them all, " << i;
  EXPECT_TRUE(settle(left_.send_cq).empty()) << "nothing signaled, nothing completed";
  EXPECT_EQ(post(left_, quiet), traits().room_by_polling ? ENOMEM : 0)
      << "executed, but nobody said so";
}

// The silent peer acknowledges nothing, so every posted request of the chain stays outstanding.
TEST_P(Contract, PartOfAChainIsPostedUpToTheOneThatDoesNotFit) {
  PairOptions options = pair_options();
  options.send_depth = 8;
  options.timeout = 20;
  connect_pair(options);
  ASSERT_EQ(to_error(right_), 0);
  const std::uint32_t depth = left_.cap.max_send_wr;
  std::vector<SendRequest> chain(std::size_t{depth} * 4, write_request(left_, right_, 0, 8));
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr.wr_id = i;
    chain[i].wr.sg_list = &chain[i].sge;
    chain[i].wr.next = i + 1 < chain.size() ? &chain[i + 1].wr : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(left_.qp, &chain[0].wr, &bad), ENOMEM);
  ASSERT_NE(bad, nullptr);
  EXPECT_GE(bad->wr_id, depth);
  if (traits().exact_room) {
    EXPECT_EQ(bad->wr_id, depth);
  }
  ASSERT_EQ(to_error(left_), 0);
  EXPECT_EQ(wait(left_.send_cq, bad->wr_id).size(), bad->wr_id)
      << "what was posted is flushed, the rest never was";
  EXPECT_TRUE(settle(left_.send_cq).empty());
}

TEST_P(Contract, NothingCompletesBeforeItIsPolled) {
  connect_pair();
  std::memset(left_.memory.data(), 3, 8);
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 8)), 0);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(right_.receive_cq, 1, &wc), 0) << "a plain write announces nothing";
  EXPECT_EQ(wait(left_.send_cq, 1).size(), 1u);
}

}  // namespace
}  // namespace mesh::contract
