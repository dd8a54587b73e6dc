#include "src/verbs/handle.h"

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using mesh::testkit::LogCapture, testkit::FakeProvider;

TEST(Handle, DestroysOnceWhereverItMoved) {
  FakeProvider provider;
  {
    PdHandle first(provider, provider.alloc_pd(nullptr));
    PdHandle second = std::move(first);
    // NOLINTNEXTLINE(bugprone-use-after-move): the test is about what a move leaves behind.
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    PdHandle third;
    third = std::move(second);
    EXPECT_TRUE(third);
    EXPECT_EQ(provider.destroyed, 0);
    third.reset();
    EXPECT_EQ(provider.destroyed, 1);
    third.reset();
  }
  EXPECT_EQ(provider.destroyed, 1);
}

TEST(Handle, AssigningDestroysWhatWasThere) {
  FakeProvider provider;
  CqHandle cq(provider, provider.create_cq(nullptr, 1));
  cq = CqHandle(provider, provider.create_cq(nullptr, 1));
  EXPECT_EQ(provider.destroyed, 1);
  EXPECT_TRUE(cq);
  static_assert(!std::is_copy_constructible_v<CqHandle> && !std::is_copy_assignable_v<CqHandle>);
}

TEST(Handle, WhatAnObjectWasMadeOnGoesAfterTheLastObject) {
  FakeProvider provider;
  auto pd = std::make_shared<PdHandle>(provider, provider.alloc_pd(nullptr));
  MrHandle first(provider, provider.reg_mr(nullptr, nullptr, 0, 0), pd);
  MrHandle second(provider, provider.reg_mr(nullptr, nullptr, 0, 0), pd);
  const MrHandle none(provider, nullptr, pd);
  pd.reset();
  second = std::move(first);
  EXPECT_EQ(provider.destroyed, 1);
  second.reset();
  EXPECT_EQ(provider.destroyed, 3);
}

TEST(Handle, NullObjectIsEmpty) {
  FakeProvider provider;
  { const QpHandle none(provider, nullptr); }
  EXPECT_EQ(provider.destroyed, 0);
}

TEST(Handle, FailedDestroyIsNamedInOneWarning) {
  FakeProvider provider;
  provider.destroy_answer = EBUSY;
  const LogCapture log;
  { const QpHandle qp(provider, provider.create_qp(nullptr, nullptr)); }
  { const MrHandle mr(provider, provider.reg_mr(nullptr, nullptr, 0, 0)); }
  EXPECT_TRUE(log.warned("queue pair"));
  EXPECT_TRUE(log.warned("memory region"));
  EXPECT_TRUE(log.warned("busy", 2));
}

}  // namespace
}  // namespace mesh::verbs
