#include "engine/message/stripe.h"

#include <gtest/gtest.h>

#include <random>

namespace mesh::engine {
namespace {

const TransferPolicy kPolicy{};

// The plan covers the message once, without a gap, in 128-byte units.
void expect_covers(const StripePlan& plan, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    EXPECT_EQ(plan.offset(i), at) << bytes;
    EXPECT_TRUE(plan.bytes(i) > 0 || bytes == 0) << bytes;
    if (i + 1 < plan.count) {
      EXPECT_EQ(plan.bytes(i) % kStripeAlign, 0u) << bytes;
    }
    at += plan.bytes(i);
  }
  EXPECT_EQ(at, bytes);
}

TEST(Stripe, EmptyMessageIsOneExpressStripe) {
  const StripePlan plan = plan_stripes(0, kPolicy, 4);
  EXPECT_EQ(plan.route, Route::Express);
  EXPECT_EQ(plan.count, 1u);
  EXPECT_EQ(plan.bytes(0), 0u);
}

TEST(Stripe, SmallMessagesStayOnExpress) {
  EXPECT_EQ(plan_stripes(kPolicy.express_bytes, kPolicy, 4).route, Route::Express);
  EXPECT_EQ(plan_stripes(kPolicy.express_bytes + 1, kPolicy, 4).route, Route::Bulk);
}

TEST(Stripe, MiddleMessagesUseOneQueuePair) {
  EXPECT_EQ(plan_stripes(kPolicy.stripe_bytes, kPolicy, 4).count, 1u);
  EXPECT_EQ(plan_stripes(kPolicy.stripe_bytes + 1, kPolicy, 4).count, 2u);
}

TEST(Stripe, LargeMessagesUseAllQueuePairs) {
  EXPECT_EQ(plan_stripes(1u << 20, kPolicy, 4).count, 4u);
}

TEST(Stripe, LastStripeTakesTheRemainder) {
  const StripePlan plan = plan_stripes((1u << 20) + 1, kPolicy, 4);
  EXPECT_EQ(plan.bytes(0), plan.bytes(2));
  EXPECT_LT(plan.bytes(3), plan.bytes(0));
  expect_covers(plan, (1u << 20) + 1);
}

TEST(Stripe, EvenPlanIsThePlanWhereEveryStripeIsOneWorkRequest) {
  const StripePlan plan = plan_stripes((1u << 20) + 1, kPolicy, 4);
  const UniformPlan uniform = uniform_plan(plan, kPolicy.wr_bytes);
  EXPECT_EQ(uniform.count, 4u);
  EXPECT_EQ(uniform.total_bytes, plan.total_bytes);
  EXPECT_EQ(uniform.stripe_bytes, plan.stripe_bytes);
  EXPECT_EQ(uniform.last_bytes, plan.bytes(3));
  EXPECT_EQ(uniform_plan(plan, plan.stripe_bytes).count, 4u);
  EXPECT_EQ(uniform_plan(plan, plan.stripe_bytes - 1).count, 0u);
  EXPECT_EQ(uniform_plan(plan_stripes(8, kPolicy, 4), kPolicy.wr_bytes).count, 0u) << "express";
  StripeTable table;
  StripePlan spread = plan;
  spread.table = &table;
  EXPECT_EQ(uniform_plan(spread, kPolicy.wr_bytes).count, 0u) << "over several paths";
}

TEST(Stripe, EvenPlanHasNoMoreStripesThanAnImmediateCanSay) {
  TransferPolicy policy;
  policy.stripe_bytes = 65536;
  EXPECT_EQ(
      uniform_plan(plan_stripes(kStripesTold * policy.stripe_bytes, policy, 64), policy.wr_bytes)
          .count,
      kStripesTold);
  EXPECT_EQ(uniform_plan(plan_stripes((kStripesTold + 1) * policy.stripe_bytes, policy, 64),
                         policy.wr_bytes)
                .count,
            0u);
}

TEST(Stripe, EveryPlanCoversItsMessage) {
  const std::uint64_t seed = 20;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    TransferPolicy policy;
    policy.stripe_bytes = 1u << (7 + random() % 12);
    policy.express_bytes = random() % 2 == 0 ? 0 : 8192;
    const std::uint64_t bytes = random() % (std::uint64_t{1} << (1 + random() % 31));
    const auto queue_pairs = static_cast<std::uint32_t>(1 + random() % 256);
    const StripePlan plan = plan_stripes(bytes, policy, queue_pairs);
    ASSERT_LE(plan.count, std::min(queue_pairs, kStripesMax));
    expect_covers(plan, bytes);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << " round " << round << " bytes " << bytes;
  }
}

}  // namespace
}  // namespace mesh::engine
