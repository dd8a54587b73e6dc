#include "src/base/thread_pool.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(ThreadPool, TasksAtTheSameTimeHaveAThreadEach) {
  ThreadPool pool("test");
  std::promise<void> later;
  ThreadPool::Task waits, lets;
  ASSERT_TRUE(pool.begin(waits, [&] { later.get_future().wait(); }).ok());
  ASSERT_TRUE(pool.begin(lets, [&] { later.set_value(); }).ok());
  lets.wait();
  waits.wait();
  EXPECT_FALSE(waits.begun());
}

// A machine that stands still between two tasks ends the thread, so a few more are no mistake.
TEST(ThreadPool, TasksInSuccessionShareThreads) {
  constexpr int kTasks = 200;
  ThreadPool pool("test");
  pid_t last = 0, own = 0;
  int changes = 0;
  for (int i = 0; i < kTasks; ++i) {
    ThreadPool::Task task;
    ASSERT_TRUE(pool.begin(task, [&] { own = ::gettid(); }).ok());
    task.wait();
    if (own != last) ++changes;
    last = own;
  }
  EXPECT_LT(changes, kTasks / 2);
}

// A thread that was just started looks at the tasks like one that waited.
TEST(ThreadPool, EachOfManyTasksRunsOnce) {
  ThreadPool pool("test");
  std::atomic<int> ran{0};
  for (int round = 0; round < 50; ++round) {
    std::array<ThreadPool::Task, 20> tasks;
    for (ThreadPool::Task& task : tasks)
      ASSERT_TRUE(pool.begin(task, [&] { ran.fetch_add(1); }).ok());
    for (ThreadPool::Task& task : tasks) task.wait();
    EXPECT_EQ(ran.load(), (round + 1) * 20);
  }
}

TEST(ThreadPool, EndsAfterItsTasks) {
  std::atomic<bool> ran{false};
  std::promise<void> later;
  std::thread ends;
  {
    ThreadPool pool("test");
    ThreadPool::Task task;
    ASSERT_TRUE(pool.begin(task,
                           [&] {
                             later.get_future().wait();
                             ran.store(true);
                           })
                    .ok());
    ends = std::thread([&] { later.set_value(); });
  }
  EXPECT_TRUE(ran.load());
  ends.join();
}

// A closure that is larger than std::function's own room asks for memory, as this one's copy does.
TEST(ThreadPool, ATaskWithoutMemoryForItsClosureDoesNotBegin) {
  struct Scarce {
    Scarce() = default;
    Scarce(const Scarce&) { throw std::bad_alloc(); }
  };
  const Scarce scarce;
  const auto work = [&scarce, copy = std::array<Scarce, 1>()] {
    static_cast<void>(scarce);
    static_cast<void>(copy);
  };
  ThreadPool pool("test");
  ThreadPool::Task task;
  EXPECT_EQ(pool.begin(task, work).code(), Errc::System);
  EXPECT_FALSE(task.begun());
}

TEST(ThreadPool, ATaskThatWasNotBegunNeedNotBeWaitedFor) {
  ThreadPool::Task none;
  none.wait();
  EXPECT_FALSE(none.begun());
}

}  // namespace
}  // namespace mesh
