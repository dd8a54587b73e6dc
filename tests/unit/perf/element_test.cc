#include "perf/collectives/element.h"

#include "tests/prelude.h"

namespace mesh::perf {
namespace {

template <typename T>
T of_bits(std::uint32_t bits) {
  T element;
  element.bits = static_cast<std::uint16_t>(bits);
  return element;
}

float value(Half half) { return static_cast<float>(half); }

TEST(Half, HasTheValuesOfBinary16) {
  EXPECT_EQ(value(of_bits<Half>(0x3c00)), 1.0f);
  EXPECT_EQ(value(of_bits<Half>(0xc000)), -2.0f);
  EXPECT_EQ(value(of_bits<Half>(0x0001)), 0x1p-24f);
  EXPECT_EQ(value(of_bits<Half>(0x0400)), 0x1p-14f);
  EXPECT_EQ(value(of_bits<Half>(0x7bff)), 65504.0f);
  EXPECT_EQ(value(of_bits<Half>(0xfc00)), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(value(of_bits<Half>(0x7e01))));
}

// Between two neighbours the nearer one is taken, and in the middle the even one.
template <typename T>
void expect_nearest(std::uint32_t end) {
  for (std::uint32_t bits = 0; bits < end; ++bits) {
    const float low = static_cast<float>(of_bits<T>(bits));
    const float high = static_cast<float>(of_bits<T>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(T(low).bits, bits);
    ASSERT_EQ(T(-low).bits, bits | 0x8000);
    ASSERT_EQ(T(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(T(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(T(middle).bits, bits + (bits & 1));
  }
}

TEST(Half, RoundsToTheNearestNumber) {
  expect_nearest<Half>(0x7bff);
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(value(Half(std::nanf("")))));
}

TEST(Bfloat16, RoundsToTheNearestNumber) {
  expect_nearest<Bfloat16>(0x7f7f);
  EXPECT_EQ(Bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(Bfloat16(std::nanf("")))));
}

template <typename T>
float reduced(Reduction reduction, float a, float b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  T out;
  reduce(reduction, std::span(&out, 1), &x, &y);
  return static_cast<float>(out);
}

TEST(Reduce, HasTheOperationsOfNccl) {
  EXPECT_EQ(reduced<Half>(Reduction::Sum, 1.5f, -4), -2.5f);
  EXPECT_EQ(reduced<Half>(Reduction::Prod, 1.5f, -4), -6);
  EXPECT_EQ(reduced<Bfloat16>(Reduction::Min, 1.5f, -4), -4);
  EXPECT_EQ(reduced<Bfloat16>(Reduction::Max, 1.5f, -4), 1.5f);
  EXPECT_EQ(reduced<std::int32_t>(Reduction::Min, 3, -4), -4);
  EXPECT_EQ(reduced<std::int64_t>(Reduction::Prod, 3, -4), -12);
  EXPECT_EQ(reduced<std::uint8_t>(Reduction::Sum, 200, 100), 44);
}

}  // namespace
}  // namespace mesh::perf
