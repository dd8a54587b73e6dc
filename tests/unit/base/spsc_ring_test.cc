#include "src/base/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace mesh {
namespace {

TEST(SpscRing, CapacityIsRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(SpscRing<int>(5).capacity(), 8u);
  EXPECT_EQ(SpscRing<int>(8).capacity(), 8u);
  EXPECT_EQ(SpscRing<int>(0).capacity(), 2u);
}

TEST(SpscRing, FullAndEmptyAreAnswers) {
  SpscRing<int> ring(4);
  int value = -1;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.try_pop(value));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.try_push(i));
  EXPECT_FALSE(ring.try_push(99));
  EXPECT_FALSE(ring.empty());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.try_pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(ring.try_pop(value));
  EXPECT_EQ(value, 3);
}

TEST(SpscRing, WrapsAroundManyTimes) {
  SpscRing<std::uint64_t> ring(4);
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(ring.try_push(i));
    if (i % 3 != 2) continue;
    for (std::uint64_t value = 0; ring.try_pop(value); ++next) EXPECT_EQ(value, next);
  }
}

TEST(SpscRing, TwoThreadsLoseTearAndReorderNothing) {
  struct Entry {
    std::uint64_t number, inverse, square;
  };
  constexpr std::uint64_t kEntries = 200'000;
  SpscRing<Entry> ring(16);
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      while (!ring.try_push({i, ~i, i * i})) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    Entry entry{};
    while (!ring.try_pop(entry)) std::this_thread::yield();
    if (entry.number != i || entry.inverse != ~i || entry.square != i * i) ++wrong;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace mesh
