#include "plugin/oneshot/choice.h"

#include "tests/prelude.h"

namespace mesh::oneshot {
namespace {

constexpr std::size_t kKiB = 1024;

TEST(Choice, AChunkIsAsSmallAsTheMessage) {
  EXPECT_EQ(chunk_bytes(0, 1, 32 * kKiB), 512u);
  EXPECT_EQ(chunk_bytes(4, 1, 32 * kKiB), 512u);
  EXPECT_EQ(chunk_bytes(513, 1, 32 * kKiB), 1024u);
  EXPECT_EQ(chunk_bytes(10'000, 1, 32 * kKiB), 10'240u);
}

TEST(Choice, AMessageOfUpTo64KiBIsOneChunk) {
  EXPECT_EQ(chunk_bytes(48 * kKiB, 1, 32 * kKiB), 48 * kKiB);
  EXPECT_EQ(chunk_bytes(64 * kKiB, 1, 32 * kKiB), 64 * kKiB);
  EXPECT_EQ(chunk_bytes(64 * kKiB + 4, 1, 32 * kKiB), 32 * kKiB) << "NCCL's own";
}

TEST(Choice, EachChannelCarriesAPart) {
  EXPECT_EQ(chunk_bytes(100 * kKiB, 2, 32 * kKiB), 50 * kKiB);
  EXPECT_EQ(chunk_bytes(1, 4, 32 * kKiB), 512u);
}

// With a small NCCL_BUFFSIZE.
TEST(Choice, AChunkFitsIntoNcclsBuffers) {
  EXPECT_EQ(chunk_bytes(48 * kKiB, 1, 4 * kKiB), 4 * kKiB);
  EXPECT_EQ(chunk_bytes(700, 1, 4 * kKiB), 1024u);
}

TEST(Choice, TheLeastMessageIsOneForWhichAnExchangeIsFaster) {
  EXPECT_EQ(least_bytes({.hosts = 3, .cuts_chunks = true}), 4 * kKiB + 1);
  EXPECT_EQ(least_bytes({.hosts = 2, .cuts_chunks = true}), 8 * kKiB + 1);
  EXPECT_EQ(least_bytes({.hosts = 16, .cuts_chunks = false}), 16 * kKiB + 1);
}

TEST(Choice, ANegativeCostIsNone) {
  const std::array<float, 3> none{-1, -1, -1}, one{-1, 0, -1};
  EXPECT_FALSE(any_choice(none));
  EXPECT_TRUE(any_choice(one));
}

}  // namespace
}  // namespace mesh::oneshot
