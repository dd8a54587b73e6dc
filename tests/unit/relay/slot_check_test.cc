// The check of slots, and the count words.

#include "src/relay/wire.h"

#include "src/relay/count_words.h"
#include "tests/prelude.h"

namespace mesh::relay {
namespace {

constexpr RingTarget kRing{.slots = 16, .payload_bytes = 8192, .wr_bytes = 4096};

SlotHeader in_slot(std::uint32_t bytes) {
  return {.bytes = bytes,
          .payload = kInSlot,
          .number = 5,
          .version = kSlotVersion,
          .kind = static_cast<std::uint8_t>(SlotKind::WriteWithImm)};
}
SlotHeader in_ring(std::uint32_t bytes, std::uint32_t unit) {
  SlotHeader header = in_slot(bytes);
  header.payload = unit;
  return header;
}
bool passes(const SlotHeader& header, std::uint32_t written_bytes) {
  return is_slot(header, {.number = 5, .written_bytes = written_bytes}, kRing);
}

TEST(SlotCheck, ASmallPayloadLiesInTheSlotAsItWasWritten) {
  EXPECT_TRUE(passes(in_slot(0), 32));
  EXPECT_TRUE(passes(in_slot(kSlotPayloadBytes), kSlotBytes));
  EXPECT_FALSE(passes(in_slot(8), 32)) << "its bytes were not written";
  EXPECT_FALSE(passes(in_slot(8), 41));
  EXPECT_FALSE(passes(in_slot(8), 8)) << "not even a header";
  EXPECT_FALSE(passes(in_slot(kSlotPayloadBytes + 1), kSlotBytes + 1));
}

TEST(SlotCheck, ALargePayloadLiesInThePayloadRing) {
  EXPECT_TRUE(passes(in_ring(4096, 0), 32));
  EXPECT_TRUE(passes(in_ring(4096, 64), 32)) << "up to the last byte";
  EXPECT_FALSE(passes(in_ring(4096, 65), 32));
  EXPECT_FALSE(passes(in_ring(4096, kInSlot - 1), 32));
  EXPECT_FALSE(passes(in_ring(4097, 0), 32)) << "longer than the longest";
  EXPECT_FALSE(passes(in_ring(UINT32_MAX, 0), 32));
  EXPECT_FALSE(passes(in_ring(4096, 0), 31));
  EXPECT_FALSE(passes(in_ring(kSlotPayloadBytes, 0), 32)) << "small ones lie in the slot";
}

TEST(SlotCheck, NumberVersionAndKindAreChecked) {
  SlotHeader header = in_slot(0);
  header.number = 6;
  EXPECT_FALSE(passes(header, 32));
  header = in_slot(0);
  header.version = 2;
  EXPECT_FALSE(passes(header, 32));
  for (const std::uint8_t kind : std::to_array<std::uint8_t>({0, 3, 255})) {
    header = in_slot(0);
    header.kind = kind;
    EXPECT_FALSE(passes(header, 32));
  }
  header = in_slot(0);
  header.reserved = 1;
  EXPECT_FALSE(passes(header, 32));
}

TEST(SlotCheck, NumbersGoOnBeyondTheirLowBits) {
  SlotHeader header = in_slot(0);
  EXPECT_TRUE(
      is_slot(header, {.number = (std::uint64_t{1} << 32) + 5, .written_bytes = 32}, kRing));
}

TEST(RingTarget, SizesOfARing) {
  EXPECT_TRUE(is_ring({.slots = 1}));
  EXPECT_TRUE(is_ring({.slots = 1, .payload_bytes = 0, .wr_bytes = kSlotPayloadBytes}));
  EXPECT_FALSE(is_ring({.slots = 1, .payload_bytes = 0, .wr_bytes = kSlotPayloadBytes + 1}));
  EXPECT_TRUE(is_ring(kRing));
  EXPECT_FALSE(is_ring({.slots = 16, .payload_bytes = 8192, .wr_bytes = 4097}))
      << "the ring holds two of the longest";
  EXPECT_FALSE(is_ring({.slots = 16, .payload_bytes = 8200, .wr_bytes = 64}));
  EXPECT_FALSE(is_ring({.slots = 0}));
  EXPECT_FALSE(is_ring({.slots = kRingSlotsMax + 1}));
  EXPECT_FALSE(is_ring({.slots = 1, .payload_bytes = UINT32_MAX - 63, .wr_bytes = 64}));
  EXPECT_FALSE(is_ring({.address = 32, .slots = 1}));
}

std::uint64_t word(std::uint32_t free, std::uint32_t done, std::uint8_t status = 0) {
  return pack({.free = free, .done = done, .status = status});
}

TEST(CountWords, TheNewestOfThemCounts) {
  CountLine line;
  line.words = {word(9, 7), word(6, 6), word(7, 6), word(8, 6), 0};
  const Counts counts = read_counts(line, {.free = 5, .done = 5});
  EXPECT_EQ(counts.free, 9u);
  EXPECT_EQ(counts.done, 7u);
  EXPECT_EQ(counts.status, 0);
  const Counts known = read_counts(line, {.free = 20, .done = 19});
  EXPECT_EQ(known.free, 20u) << "all of them are old";
  EXPECT_EQ(known.done, 19u);
}

TEST(CountWords, LowBitsComeRoundAgain) {
  CountLine line;
  line.words = {word(1, 0), word(kCountMask - 1, kCountMask - 3), word(kCountMask, kCountMask - 2),
                word(0, kCountMask), 0};
  const std::uint64_t round = std::uint64_t{kCountMask} + 1;
  const KnownCounts known{.free = 3 * round - 2, .done = 3 * round - 4};
  const Counts counts = read_counts(line, known);
  EXPECT_EQ(ahead(counts.free, known.free), 3);
  EXPECT_EQ(ahead(counts.done, known.done), 4);
}

TEST(CountWords, AWordOfZeroIsACount) {
  CountLine line;
  const std::uint32_t last = kCountMask;
  line.words = {word(0, 0), word(last - 2, last - 2), word(last - 1, last - 1), word(last, last),
                0};
  const std::uint64_t round = std::uint64_t{kCountMask} + 1;
  const KnownCounts known{.free = round - 3, .done = round - 3};
  const Counts counts = read_counts(line, known);
  EXPECT_EQ(ahead(counts.free, known.free), 3);
  EXPECT_EQ(ahead(counts.done, known.done), 3);
}

TEST(CountWords, TheLastWordBringsTheStatusAndWhatWasDone) {
  CountLine line;
  line.words = {word(3, 3), 0, 0, 0, word(6, 5, IBV_WC_REM_ACCESS_ERR)};
  const Counts counts = read_counts(line, {});
  EXPECT_EQ(counts.done, 5u);
  EXPECT_EQ(counts.status, IBV_WC_REM_ACCESS_ERR);
}

TEST(CountWords, AStatusThatNoDeviceSaysIsALostPaths) {
  EXPECT_EQ(told_status({.status = IBV_WC_RNR_RETRY_EXC_ERR}), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(told_status({.status = 38}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(told_status({.status = 255}), IBV_WC_RETRY_EXC_ERR);
}

TEST(CountWords, DistancesHaveASign) {
  EXPECT_EQ(ahead(5, 5), 0);
  EXPECT_EQ(ahead(6, 5), 1);
  EXPECT_EQ(ahead(4, 5), -1);
  EXPECT_EQ(ahead(0, kCountMask), 1);
  EXPECT_EQ(ahead(kCountMask, 0), -1);
}

}  // namespace
}  // namespace mesh::relay
