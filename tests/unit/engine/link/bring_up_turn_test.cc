// The order in which bring-ups get a thread.
#include "engine/link/bring_up.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

class BringUpTurn : public testing::Test {
 protected:
  using Turns = std::vector<engine::BringUpTurn>;
  static constexpr auto kFirst = engine::BringUpKind::First, kAgain = engine::BringUpKind::Again;

  static std::size_t next(const Turns& running, const Turns& waiting) {
    return engine::next_in_turn(running, waiting);
  }
  static Turns of_many_peers(std::size_t count, engine::BringUpKind kind) {
    Turns all;
    for (std::size_t i = 0; i < count; ++i) {
      const auto last = static_cast<std::uint8_t>(i);
      all.push_back({.peer = {.family = AF_INET, .bytes = {10, 1, 0, last}}, .kind = kind});
    }
    return all;
  }

  const SocketAddress a_ = *SocketAddress::from_text("10.0.0.1"),
                      b_ = *SocketAddress::from_text("10.0.0.2");
};

TEST_F(BringUpTurn, GoesToThePeerWithTheFewestThenToTheOldest) {
  EXPECT_EQ(next({}, {}), 0u);
  EXPECT_EQ(next({}, {{a_, 7}, {a_, 5}, {a_, 5}, {b_, 6}}), 1u) << "equal shares: the oldest";
  EXPECT_EQ(next({{a_}}, {{a_, 1}, {a_, 2}, {b_, 9}}), 2u) << "b has none";
  EXPECT_EQ(next({{a_}, {a_}, {b_}, {b_}, {b_}}, {{b_, 1}, {a_, 2}}), 1u);
  EXPECT_EQ(next({{a_}, {a_}, {a_}, {a_}}, {{a_, 1}, {a_, 2}}), 2u) << "a has its four";
  EXPECT_EQ(next({{a_}, {a_}, {a_}, {a_}}, {{a_, 1}, {b_, 2}}), 1u);
  EXPECT_EQ(next(of_many_peers(engine::kBringUpsMax, kFirst), {{a_, 1}}), 1u)
      << "no thread is left";
}

TEST_F(BringUpTurn, AFirstOneGoesBeforeEveryPathThatIsOpenedAgain) {
  EXPECT_EQ(next({}, {{a_, 1, kAgain}, {b_, 2, kFirst}}), 1u);
  EXPECT_EQ(next({{b_}, {b_}}, {{a_, 1, kAgain}, {b_, 2, kFirst}}), 1u);
  EXPECT_EQ(next({}, {{a_, 1, kFirst}, {b_, 2, kAgain}}), 0u);
  EXPECT_EQ(next({}, {{a_, 2, kAgain}, {b_, 1, kAgain}}), 1u);
}

TEST_F(BringUpTurn, PathsThatAreOpenedAgainLeaveThreadsToFirstOnes) {
  const Turns many = of_many_peers(engine::kReopensMax, kAgain);
  EXPECT_EQ(next(many, {{a_, 1, kAgain}}), 1u);
  EXPECT_EQ(next(many, {{a_, 1, kAgain}, {a_, 2, kFirst}}), 1u);
  const Turns of_a(engine::kReopensPerPeerMax, {a_, 0, kAgain});
  EXPECT_EQ(next(of_a, {{a_, 1, kAgain}}), 1u);
  EXPECT_EQ(next(of_a, {{a_, 1, kAgain}, {a_, 2, kFirst}}), 1u);
  EXPECT_EQ(next(of_a, {{a_, 1, kAgain}, {b_, 2, kAgain}}), 1u);
}

TEST_F(BringUpTurn, OnlyThoseOnTheSameCardCount) {
  constexpr std::uint64_t kSick = 1, kWell = 2, kBoth = 3;
  const Turns of_a(engine::kBringUpsPerPeerMax, {a_, 0, kFirst, kSick});
  EXPECT_EQ(next(of_a, {{a_, 1, kFirst, kSick}, {a_, 2, kFirst, kWell}}), 1u);
  EXPECT_EQ(next(of_a, {{a_, 1, kFirst, kBoth}}), 1u) << "it needs the sick one, too";
  Turns all = of_many_peers(engine::kBringUpsMax, kAgain);
  EXPECT_EQ(next(all, {{b_, 1, kAgain, kSick}, {b_, 2, kAgain, kWell}}), 1u);
  all = of_many_peers(engine::kBringUpsMax, kFirst);
  EXPECT_EQ(next(all, {{b_, 1, kFirst, kSick}, {b_, 2, kFirst, kWell}}), 1u);
}

}  // namespace
}  // namespace mesh
