#include "src/base/random.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(Secret, OnlyTheWholeIsTheSame) {
  const std::array<std::uint8_t, 16> ours = random_id();
  EXPECT_TRUE(same_secret(ours, ours));
  for (std::size_t bit = 0; bit < 128; ++bit) {
    std::array<std::uint8_t, 16> other = ours;
    other[bit / 8] = static_cast<std::uint8_t>(other[bit / 8] ^ (1u << (bit % 8)));
    EXPECT_FALSE(same_secret(ours, other)) << bit;
  }
}

}  // namespace
}  // namespace mesh
