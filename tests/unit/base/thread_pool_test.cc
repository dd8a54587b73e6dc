#include "src/base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>

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

TEST(ThreadPool, TasksInSuccessionShareAThread) {
  ThreadPool pool("test");
  std::thread::id first, own;
  for (int i = 0; i < 100; ++i) {
    ThreadPool::Task task;
    ASSERT_TRUE(pool.begin(task, [&] { own = std::this_thread::get_id(); }).ok());
    task.wait();
    if (i == 0) first = own;
    EXPECT_EQ(own, first);
  }
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

TEST(ThreadPool, ATaskThatWasNotBegunNeedNotBeWaitedFor) {
  ThreadPool::Task none;
  none.wait();
  EXPECT_FALSE(none.begun());
}

}  // namespace
}  // namespace mesh
