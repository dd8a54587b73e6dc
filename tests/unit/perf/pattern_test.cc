#include "perf/driver/pattern.h"

#include "tests/prelude.h"

namespace mesh::driver {
namespace {

constexpr PatternKey kKey{7, 2, 41};

std::vector<unsigned char> filled(std::size_t bytes, const PatternKey& key = kKey) {
  std::vector<unsigned char> data(bytes);
  fill_pattern(key, data.data(), bytes);
  return data;
}

PatternVerdict verdict_of(const std::vector<unsigned char>& data) {
  return check_pattern(kKey, data.data(), data.size());
}

TEST(Pattern, EverySizeAgreesWithItself) {
  for (const std::size_t bytes :
       {0u, 1u, 7u, 8u, 9u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 8192u, 100003u}) {
    EXPECT_TRUE(verdict_of(filled(bytes)).good()) << bytes;
  }
}

TEST(Pattern, FindsEachSingleWrongByte) {
  auto data = filled(4111);
  for (std::size_t at = 0; at < data.size(); ++at) {
    data[at] ^= 1;
    const PatternVerdict verdict = verdict_of(data);
    EXPECT_EQ(verdict.wrong_bytes, 1u);
    EXPECT_EQ(verdict.first_offset, at);
    data[at] ^= 1;
  }
}

TEST(Pattern, FindsSwappedStripesAndSaysWhereTheyBelong) {
  auto data = filled(8192);
  std::swap_ranges(data.begin(), data.begin() + 128, data.begin() + 4096);
  const PatternVerdict verdict = verdict_of(data);
  EXPECT_FALSE(verdict.good());
  EXPECT_NE(describe(verdict, kKey, data.data(), data.size()).find("belongs at offset 4096"),
            std::string::npos);
}

// A buffer of more than 8 MiB is filled and checked in shares of 4 MiB.
TEST(Pattern, LargeMessagesAreWholeAndSaidFromTheFirstMistake) {
#ifdef MESH_SANITIZE_THREAD
  GTEST_SKIP() << "the thread sanitizer cannot see how threads of oneTBB wait for one another";
#endif
  constexpr std::size_t kShare = std::size_t{4} << 20;
  std::vector<unsigned char> data = filled(5 * kShare + 4101);
  const std::vector<unsigned char> small = filled(2 * kShare);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), data.begin()));
  EXPECT_TRUE(verdict_of(data).good());
  for (const std::size_t at : {data.size() - 1, 3 * kShare, 2 * kShare - 1}) data[at] ^= 0x10;
  const PatternVerdict verdict = verdict_of(data);
  EXPECT_EQ(verdict.wrong_bytes, 3u);
  EXPECT_EQ(verdict.first_offset, 2 * kShare - 1);
}

TEST(Pattern, MessagesSendersAndSeedsDiffer) {
  EXPECT_FALSE(verdict_of(filled(64, {7, 2, 42})).good());
  EXPECT_FALSE(verdict_of(filled(64, {7, 3, 41})).good());
  EXPECT_FALSE(verdict_of(filled(64, {8, 2, 41})).good());
}

TEST(Pattern, SaysWhenNothingWasWritten) {
  const std::vector<unsigned char> data(64);
  EXPECT_NE(describe(verdict_of(data), kKey, data.data(), data.size()).find("never written"),
            std::string::npos);
}

}  // namespace
}  // namespace mesh::driver
