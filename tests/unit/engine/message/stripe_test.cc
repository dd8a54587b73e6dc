#include "engine/message/stripe.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

const TransferPolicy kPolicy{};

// Checks that the plan covers the message once, without a gap, in 128-byte units.
void expect_covers(const StripePlan& plan, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    const StripeSpan span = plan.span(i);
    EXPECT_EQ(span.offset, at) << bytes;
    EXPECT_TRUE(span.bytes > 0 || bytes == 0) << bytes;
    if (i + 1 < plan.count) {
      EXPECT_EQ(span.bytes % kStripeAlign, 0u) << bytes;
    }
    at += span.bytes;
  }
  EXPECT_EQ(at, bytes);
}

TEST(Stripe, EmptyMessageIsOneExpressStripe) {
  const StripePlan plan = plan_stripes(0, kPolicy, 4);
  EXPECT_EQ(plan.route, Route::Express);
  EXPECT_EQ(plan.count, 1u);
  EXPECT_EQ(plan.span(0).bytes, 0u);
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
  EXPECT_EQ(plan.span(0).bytes, plan.span(2).bytes);
  EXPECT_LT(plan.span(3).bytes, plan.span(0).bytes);
  expect_covers(plan, (1u << 20) + 1);
}

TEST(Stripe, PlanIsUniformWhereEveryStripeIsOneWorkRequest) {
  const StripePlan plan = plan_stripes((1u << 20) + 1, kPolicy, 4);
  EXPECT_EQ(plan.last_bytes, plan.span(3).bytes);
  EXPECT_TRUE(plan.uniform(kPolicy.wr_bytes));
  EXPECT_TRUE(plan.uniform(plan.stripe_bytes));
  EXPECT_FALSE(plan.uniform(plan.stripe_bytes - 1));
  EXPECT_FALSE(plan_stripes(8, kPolicy, 4).uniform(kPolicy.wr_bytes)) << "express";
}

TEST(Stripe, UniformPlanHasNoMoreStripesThanAnImmediateCanSay) {
  TransferPolicy policy;
  policy.stripe_bytes = 65536;
  const StripePlan most = plan_stripes(kStripesTold * policy.stripe_bytes, policy, 64);
  EXPECT_TRUE(most.uniform(policy.wr_bytes));
  EXPECT_EQ(most.count, kStripesTold);
  EXPECT_EQ(pack({.stripes = 1}) + most.imm_more(), pack({.stripes = kStripesTold}));
  EXPECT_FALSE(
      plan_stripes((kStripesTold + 1) * policy.stripe_bytes, policy, 64).uniform(policy.wr_bytes));
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
