#include "engine/wire.h"

#include <gtest/gtest.h>

#include <set>

namespace mesh::engine {
namespace {

TEST(Announcement, SurvivesPacking) {
  for (const bool record : {false, true}) {
    for (const std::uint32_t channel : {0u, 1u, 4095u, kChannelsMax - 1}) {
      for (const std::uint32_t slot : {0u, 63u, kSlotsMax - 1}) {
        for (const std::uint32_t generation : {0u, 1u, kGenerationMask}) {
          const Announcement out = unpack(pack({.record = record, .channel = channel, .slot = slot, .generation = generation}));
          EXPECT_EQ(out.record, record);
          EXPECT_EQ(out.channel, channel);
          EXPECT_EQ(out.slot, slot);
          EXPECT_EQ(out.generation, generation);
        }
      }
    }
  }
}

TEST(Announcement, GenerationIsCutToItsBitsOnly) {
  const Announcement out = unpack(pack({.record = false, .channel = 5, .slot = 7, .generation = 0xffff'fc01u}));
  EXPECT_EQ(out.generation, 1u);
  EXPECT_EQ(out.slot, 7u);
  EXPECT_FALSE(out.record);
}

TEST(Generation, ChangesWithEveryUseOfASlot) {
  EXPECT_EQ(generation_of(0, 64, 1), 1u);
  EXPECT_EQ(generation_of(63, 64, 1), 1u);
  EXPECT_EQ(generation_of(64, 64, 1), 2u);
}

TEST(Generation, SuccessiveLivesNeverShareLowBits) {
  std::set<std::uint32_t> low;
  for (std::uint32_t life = 0; life < 300; ++life) low.insert(generation_base(life) & kGenerationMask);
  EXPECT_EQ(low.size(), 300u);
}

Credit sample() {
  return {.address = 0x7f01'0203'0405, .bytes = 1u << 20, .tag = 77, .generation = 9, .rkeys = {1, 2, 3, 4, 5, 6, 7, 8}};
}

TEST(CreditRow, RoundTrip) {
  CreditRow row = encode_credit(sample());
  Credit out;
  ASSERT_TRUE(read_credit(row, 9, &out));
  EXPECT_EQ(out.address, sample().address);
  EXPECT_EQ(out.bytes, sample().bytes);
  EXPECT_EQ(out.tag, 77u);
  EXPECT_EQ(out.rkeys, sample().rkeys);
}

TEST(CreditRow, OtherGenerationIsNotThere) {
  CreditRow row = encode_credit(sample());
  Credit out;
  EXPECT_FALSE(read_credit(row, 8, &out));
  EXPECT_FALSE(read_credit(row, 10, &out));
}

TEST(CreditRow, HalfARowIsNotThere) {
  const CreditRow whole = encode_credit(sample());
  Credit out;
  for (const std::size_t cut : {1u, 3u, 4u, 5u, 7u}) {  // the NIC has written words up to here
    CreditRow row{};
    for (std::size_t i = 0; i < cut; ++i) row.words[i] = whole.words[i];
    EXPECT_FALSE(read_credit(row, 9, &out)) << cut;
  }
  CreditRow second_half_first{};
  for (std::size_t i = 4; i < 8; ++i) second_half_first.words[i] = whole.words[i];
  EXPECT_FALSE(read_credit(second_half_first, 9, &out));
}

// A device that copies downwards: both generations are there before the words below them.
TEST(CreditRow, WordsOfTheRoundBeforeAreNotBelieved) {
  Credit before = sample();
  before.generation = 8;
  before.address += 4096;
  before.bytes -= 1;
  before.tag = 6;
  before.rkeys = {9, 10, 11, 12, 13, 14, 15, 16};
  const CreditRow old_row = encode_credit(before), new_row = encode_credit(sample());
  Credit out;
  for (unsigned kept = 1; kept < 0x80; ++kept) {  // bit i: word i is still the old one
    CreditRow row = new_row;
    for (std::size_t i = 0; i < 7; ++i) {
      if ((kept >> i & 1) != 0) row.words[i] = old_row.words[i];
    }
    EXPECT_FALSE(read_credit(row, 9, &out)) << kept;
  }
}

TEST(Record, RoundTripAndGeneration) {
  Record record = encode_record(12345, 4, 9);
  std::uint64_t bytes = 0;
  EXPECT_EQ(read_record(record, 9, &bytes), 4u);
  EXPECT_EQ(bytes, 12345u);
  EXPECT_EQ(read_record(record, 10, &bytes), 0u);
}

}  // namespace
}  // namespace mesh::engine
