#include "src/base/served_set.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(ServedSet, HasRoomForItsPlacesAndServesWhatIsThere) {
  ServedSet<int, 2> set;
  int a = 0, b = 0, c = 0;
  EXPECT_TRUE(set.add(a));
  EXPECT_TRUE(set.add(b));
  EXPECT_FALSE(set.add(c));
  EXPECT_TRUE(set.remove(a));
  EXPECT_FALSE(set.remove(a));
  EXPECT_TRUE(set.add(c)) << "in the place that is free again";
  EXPECT_EQ(set.size(), 2u);
  set.pass([](int& served) { ++served; });
  EXPECT_EQ((std::vector{a, b, c}), (std::vector{0, 1, 1}));
  EXPECT_EQ(set.passes(), 1u);
}

TEST(ServedSet, RemoveWaitsForAPassThatIsInside) {
  ServedSet<std::atomic<bool>, 1> set;
  std::atomic<bool> inside{false}, removed{false};
  set.add(inside);
  std::thread passes([&] {
    set.pass([&](std::atomic<bool>& served) {
      served.store(true);
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      EXPECT_FALSE(removed.load());
    });
  });
  while (!inside.load()) std::this_thread::yield();
  set.remove(inside);
  removed.store(true);
  passes.join();
}

TEST(IdleBackOff, SpinsThenYieldsThenRestsUntilThereIsWork) {
  using Act = IdleBackOff::Act;
  IdleBackOff idle(3000);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t pass = 1; pass < 3000; ++pass) {
      const bool yields = pass % IdleBackOff::kPassesBetweenYields == 0;
      const bool spins = pass < IdleBackOff::kSpinPasses && !yields;
      ASSERT_EQ(idle.next(), spins ? Act::Spin : Act::Yield) << pass;
    }
    EXPECT_EQ(idle.next(), Act::Rest);
    EXPECT_EQ(idle.next(), Act::Rest);
    idle.worked();
  }
}

}  // namespace
}  // namespace mesh
