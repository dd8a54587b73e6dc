#include "src/base/one_at_a_time.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(OneAtATime, ACallMayCallTheObjectAgain) {
  OneAtATime calls;
  {
    const OneAtATime::Call outer(calls);
    const OneAtATime::Call inner(calls);
    EXPECT_TRUE(calls.inside());
  }
  std::thread other([&] {
    const OneAtATime::Call later(calls);
    EXPECT_TRUE(calls.inside());
  });
  other.join();
}

TEST(OneAtATimeDeathTest, TwoThreadsInsideAreAMistake) {
#ifdef NDEBUG
  GTEST_SKIP() << "only debug builds check it";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  OneAtATime calls;
  const OneAtATime::Call ours(calls);
  EXPECT_DEATH(std::thread([&] { const OneAtATime::Call theirs(calls); }).join(), "");
#endif
}

}  // namespace
}  // namespace mesh
