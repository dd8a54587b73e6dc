
#include "engine/link_services.h"
#include "src/soft/soft_provider.h"
#include "tests/prelude.h"
#include "tests/unit/engine/data/nobody.h"

namespace mesh::engine {
namespace {

TEST(ControlMutex, KnowsWhetherThisThreadHoldsIt) {
  ControlMutex mutex;
  EXPECT_FALSE(mutex.held_here());
  {
    const std::unique_lock lock(mutex);
    EXPECT_TRUE(mutex.held_here());
    bool elsewhere = true;
    std::thread([&] { elsewhere = mutex.held_here() || mutex.try_lock(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(mutex.held_here());
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_TRUE(mutex.held_here());
  mutex.unlock();
}

TEST(LinkServices, EndTheProcessWhereTheControlMutexIsNotHeld) {
  ControlMutex mutex;
  const EngineOptions options;
  const std::vector<verbs::Rail> rails;
  const Clock clock;
  const std::unique_ptr<ControlPlane> plane;
  LogBudget lines;
  Figures figures;
  testkit::NoOwner owner;
  testkit::NoWaker waker;
  ThreadPool pool("test");
  LinkServices services({.mutex = mutex,
                         .options = options,
                         .rails = rails,
                         .clock = clock,
                         .plane = plane,
                         .unauthenticated_lines = lines,
                         .figures = figures,
                         .channels = owner,
                         .waker = waker,
                         .thread_pool = pool});
  EXPECT_DEATH(services.tend_soon(), "held_here");
  EXPECT_DEATH(static_cast<void>(services.now_ns()), "held_here");
  const std::unique_lock lock(mutex);
  services.tend_at(7);
  services.tend_soon();
  EXPECT_EQ(services.due_ns(), 7u);
  EXPECT_TRUE(services.due_soon());
}

}  // namespace
}  // namespace mesh::engine
