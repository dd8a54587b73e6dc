#include "src/base/room.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(Room, IsThereForWhatIsAddedByOnesAndIsSeldomMade) {
  std::vector<int> vector;
  std::size_t made = 0;
  for (int i = 0; i < 1000; ++i) {
    const int* const before = vector.data();
    make_room_for(vector, vector.size() + 1);
    if (vector.data() != before) ++made;
    const int* const after = vector.data();
    ASSERT_GE(vector.capacity(), vector.size() + 1);
    vector.push_back(i);
    ASSERT_EQ(vector.data(), after);
  }
  EXPECT_LE(made, 11u);
}

TEST(Room, IsAsMuchAsWasAsked) {
  std::vector<int> vector(3);
  make_room_for(vector, 1000);
  EXPECT_EQ(vector.capacity(), 1000u);
  EXPECT_EQ(vector.size(), 3u);
}

}  // namespace
}  // namespace mesh
