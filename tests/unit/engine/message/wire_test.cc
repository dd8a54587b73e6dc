#include "engine/message/wire.h"

#include "engine/message/ring_cursor.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

TEST(Announcement, SurvivesPacking) {
  for (const std::uint32_t stripes : {0u, 1u, kStripesTold}) {
    for (const std::uint32_t channel : {0u, 1u, 4095u, kChannelsMax - 1}) {
      for (const std::uint32_t slot : {0u, 63u, kSlotsMax - 1}) {
        for (const std::uint32_t generation : {0u, 1u, kGenerationMask}) {
          const Announcement out = unpack(pack(
              {.stripes = stripes, .channel = channel, .slot = slot, .generation = generation}));
          EXPECT_EQ(out.stripes, stripes);
          EXPECT_EQ(out.channel, channel);
          EXPECT_EQ(out.slot, slot);
          EXPECT_EQ(out.generation, generation);
        }
      }
    }
  }
}

TEST(Announcement, GenerationIsCutToItsBitsOnly) {
  const Announcement out =
      unpack(pack({.stripes = 3, .channel = 5, .slot = 7, .generation = 0xffff'ff81u}));
  EXPECT_EQ(out.generation, 1u);
  EXPECT_EQ(out.slot, 7u);
  EXPECT_EQ(out.stripes, 3u);
}

TEST(RingCursor, StepsThroughSlotsAndThenGenerations) {
  RingCursor cursor({.cts_bytes = 32, .slots = 4, .channel = 5, .stripes = 1});
  cursor.set_base(0x1000);
  cursor.start(0x7f);
  for (std::uint32_t step = 0; step < 12; ++step) {
    const std::uint32_t slot = step % 4, generation = 0x7f + step / 4;
    EXPECT_EQ(cursor.slot(), slot);
    EXPECT_EQ(cursor.address(), 0x1000 + slot * 32u);
    EXPECT_EQ(cursor.generation(), generation);
    EXPECT_EQ(cursor.slots_left(), 4 - slot);
    EXPECT_EQ(cursor.imm(),
              pack({.stripes = 1, .channel = 5, .slot = slot, .generation = generation}))
        << step;
    cursor.step();
  }
}

TEST(Generation, SuccessiveLivesNeverShareLowBits) {
  std::set<std::uint32_t> low;
  for (std::uint32_t life = 0; life <= kGenerationMask; ++life)
    low.insert(generation_base(life) & kGenerationMask);
  EXPECT_EQ(low.size(), kGenerationMask + 1);
}

Credit sample() {
  return {.address = 0x7f01'0203'0405,
          .bytes = 1u << 20,
          .tag = 77,
          .generation = 9,
          .rkeys = {1, 2, 3, 4, 5, 6, 7, 8}};
}

using Entry = std::array<std::uint64_t, kCreditBytesMax / sizeof(std::uint64_t)>;

Entry encoded(const Credit& credit, std::uint32_t paths) {
  Entry entry{};
  encode_credit(credit, paths, entry.data());
  return entry;
}

TEST(CtsEntry, RoundTrip) {
  for (const std::uint32_t paths : {1u, 2u, 8u}) {
    Entry entry = encoded(sample(), paths);
    Credit out;
    ASSERT_TRUE(read_credit(entry.data(), paths, 9, &out));
    EXPECT_EQ(out.address, sample().address);
    EXPECT_EQ(out.bytes, sample().bytes);
    EXPECT_EQ(out.tag, 77u);
    EXPECT_EQ(out.rkeys[0], 1u);
    if (paths > 1) {
      EXPECT_EQ(out.rkeys, sample().rkeys);
    }
  }
}

TEST(CtsEntry, OfOnePathIsHalfAnEntry) {
  const Entry entry = encoded(sample(), 1);
  EXPECT_EQ(credit_bytes(1), 32u);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(entry[i], 0u);
}

TEST(CtsEntry, OtherGenerationIsNotThere) {
  for (const std::uint32_t paths : {1u, 2u}) {
    Entry entry = encoded(sample(), paths);
    Credit out;
    EXPECT_FALSE(read_credit(entry.data(), paths, 8, &out));
    EXPECT_FALSE(read_credit(entry.data(), paths, 10, &out));
  }
}

TEST(CtsEntry, HalfAnEntryIsNotThere) {
  const Entry whole = encoded(sample(), 2);
  Credit out;
  for (const std::size_t cut : {1u, 3u, 4u, 5u, 7u}) {  // the NIC has written the words below it
    Entry entry{};
    for (std::size_t i = 0; i < cut; ++i) entry[i] = whole[i];
    EXPECT_FALSE(read_credit(entry.data(), 2, 9, &out)) << cut;
  }
  Entry second_half_first{};
  for (std::size_t i = 4; i < 8; ++i) second_half_first[i] = whole[i];
  EXPECT_FALSE(read_credit(second_half_first.data(), 2, 9, &out));
}

// A device may write words in descending order, so the check may arrive before the words below it.
TEST(CtsEntry, WordsOfTheRoundBeforeAreNotBelieved) {
  Credit before = sample();
  before.generation = 8;
  before.address += 4096;
  before.bytes -= 1;
  before.tag = 6;
  before.rkeys = {9, 10, 11, 12, 13, 14, 15, 16};
  const Entry old_entry = encoded(before, 8), new_entry = encoded(sample(), 8);
  Credit out;
  for (unsigned kept = 1; kept < 0x100; ++kept) {  // bit i: word i is still the old one
    Entry entry = new_entry;
    for (std::size_t i = 0; i < 8; ++i) {
      if ((kept >> i & 1) != 0) entry[i] = old_entry[i];
    }
    EXPECT_FALSE(read_credit(entry.data(), 8, 9, &out)) << kept;
  }
}

TEST(Record, RoundTripAndGeneration) {
  Record record = encode_record(12345, 4, 9);
  EXPECT_TRUE(record_says(record, join(4, 9)));
  EXPECT_EQ(record_bytes(record), 12345u);
  EXPECT_FALSE(record_says(record, join(3, 9)));
  EXPECT_FALSE(record_says(record, join(4, 10)));
}

TEST(WindowWords, TheNewestCountsWhereverItLies) {
  for (std::size_t newest = 0; newest < kWindowWords; ++newest) {
    std::array<std::uint64_t, kWindowWords> words{64, 64, 64, 64};
    words[newest] = 128;
    EXPECT_EQ(read_window_words(words.data()), 128u);
  }
}

}  // namespace
}  // namespace mesh::engine
