// A neighbour fills slots with forged headers. The chain is cut, and nothing else happens.

#include "src/relay/chain.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineEnd, testkit::LineOptions;

constexpr std::size_t kHeaderAt = 4096;  // in the raw end's memory, behind its counts

// The test writes the slots in place of the left end's device.
class ForgedSlot : public ::testing::Test {
 protected:
  static LineOptions options() {
    LineOptions options;
    options.raw_left = true;
    options.slots = 4;
    options.wr_bytes = 1024;
    options.payload_bytes = 4096;
    return options;
  }
  ForgedSlot() : line_(options()) {}

  SlotHeader good(std::uint32_t number) {
    LineEnd& far = line_.end(1);
    return {.address = far.address(),
            .rkey = far.mr->rkey,
            .bytes = 8,
            .payload = kInSlot,
            .number = number,
            .version = kSlotVersion,
            .kind = static_cast<std::uint8_t>(SlotKind::Write)};
  }
  struct Filling {
    std::uint32_t slot = 0, imm = 0, bytes = sizeof(SlotHeader) + 8;
    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  };
  void fill(const SlotHeader& header, const Filling& filling) {
    LineEnd& end = line_.end(0);
    std::memcpy(end.memory.data() + kHeaderAt, &header, sizeof header);
    std::memset(end.memory.data() + kHeaderAt + sizeof header, 0xcc, 8);
    ibv_sge sge{end.address(kHeaderAt), filling.bytes, end.mr->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = filling.opcode;
    wr.imm_data = filling.imm;
    wr.send_flags = IBV_SEND_SIGNALED;
    const RingTarget& ring = line_.chain().ring(Side::Left);
    wr.wr.rdma = {.remote_addr = ring.address + std::uint64_t{filling.slot} * kSlotBytes,
                  .rkey = ring.rkey};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(end.qp.get(), &wr, &bad), 0);
    ASSERT_TRUE(line_.until_sent(0, ++filled_));
  }
  Counts last_word() {
    std::uint64_t word = 0;
    std::memcpy(&word, line_.end(0).memory.data() + kLastWord * sizeof word, sizeof word);
    return unpack(word);
  }
  void expect_cut() {
    line_.settle();
    EXPECT_EQ(line_.chain().counters().refused, 1u);
    EXPECT_EQ(line_.chain().state(), ChainState::Gone);
    EXPECT_EQ(line_.chain().status(), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(last_word().status, IBV_WC_REM_INV_REQ_ERR) << "its sender is told";
    EXPECT_EQ(last_word().done, landed_);
    EXPECT_TRUE(line_.end(1).device->progress(line_.end(1).qp.get()).failed) << "and the far end";
    for (std::size_t i = 8; i < 8192; ++i) ASSERT_EQ(line_.end(1).memory[i], std::byte{0}) << i;
  }

  Line line_;
  std::size_t filled_ = 0;
  std::uint32_t landed_ = 0;
};

TEST_F(ForgedSlot, AGoodOneLands) {
  fill(good(0), {});
  line_.settle();
  EXPECT_EQ(line_.end(1).memory[7], std::byte{0xcc});
  EXPECT_EQ(line_.chain().state(), ChainState::Carrying);
  std::uint64_t word = 0;
  std::memcpy(&word, line_.end(0).memory.data(), sizeof word);
  EXPECT_EQ(unpack(word).done, 1u);
  EXPECT_EQ(unpack(word).free, 1u);
  landed_ = 1;
  fill(good(7), {.slot = 1, .imm = 1});
  expect_cut();
}

TEST_F(ForgedSlot, AnImmediateOutOfTurn) {
  fill(good(0), {.imm = 1});
  expect_cut();
}

TEST_F(ForgedSlot, AHeaderThatWasNeverWritten) {
  fill(good(0), {.slot = 2});
  expect_cut();
}

TEST_F(ForgedSlot, APayloadBeyondTheRing) {
  SlotHeader header = good(0);
  header.bytes = 1024;
  header.payload = 4096 / kPayloadUnit - 15;
  fill(header, {.bytes = sizeof header});
  expect_cut();
}

TEST_F(ForgedSlot, AWorkRequestLongerThanTheLongest) {
  SlotHeader header = good(0);
  header.bytes = 1025;
  header.payload = 0;
  fill(header, {.bytes = sizeof header});
  expect_cut();
}

TEST_F(ForgedSlot, APayloadThatTheSlotDoesNotHold) {
  SlotHeader header = good(0);
  header.bytes = kSlotPayloadBytes;
  fill(header, {});
  expect_cut();
}

TEST_F(ForgedSlot, AnAnnouncementThatIsNoWrite) {
  LineEnd& end = line_.end(0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(end.qp.get(), &wr, &bad), 0);
  expect_cut();
}

// Slots beyond the ring's number find no posted receive, so the device lets them wait.
TEST_F(ForgedSlot, MoreSlotsThanThereAreWaitForTheirTurn) {
  for (std::uint32_t i = 0; i < 4; ++i) fill(good(i), {.slot = i, .imm = i});
  line_.settle();
  EXPECT_EQ(line_.chain().state(), ChainState::Carrying);
  EXPECT_EQ(line_.chain().counters().work_requests[0], 4u);
}

}  // namespace
}  // namespace mesh::relay
