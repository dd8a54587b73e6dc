// A thread that waits for the progress lock leaves the processor to the holder of the progress
// lock.

#include "engine/data/progress_loop_datapath.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <future>
#include <thread>

namespace mesh::engine {
namespace {

using std::chrono::nanoseconds;

struct NoControl final : ControlWaker {
  void wake_control() noexcept override {}
};

// Processor time of the calling thread, and how often it slept (a yield is no sleep to the kernel).
struct Usage {
  nanoseconds processor_time;
  long sleeps;
};

Usage usage_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  rusage counts{};
  ::getrusage(RUSAGE_THREAD, &counts);
  return {std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec), counts.ru_nvcsw};
}

TEST(Guard, WaitingForTheProgressLockLeavesTheProcessorToItsHolder) {
  NoControl control;
  ProgressLoop loop(control);
  std::promise<void> held, asked;
  std::thread holder([&] {
    const ProgressLoop::Guard guard(loop);
    held.set_value();
    asked.get_future().wait();  // so that the waiting thread waits through the sleep
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  });
  held.get_future().wait();
  const auto began = std::chrono::steady_clock::now();
  const Usage before = usage_of_this_thread();
  asked.set_value();
  { const ProgressLoop::Guard guard(loop); }
  const Usage after = usage_of_this_thread();
  const nanoseconds waited = std::chrono::steady_clock::now() - began;
  holder.join();
  // 64 yields for each sleep: a tenth of the wait where system calls are dear, under a sanitizer.
  EXPECT_LT(after.processor_time - before.processor_time, waited / 2);
  EXPECT_GE(after.sleeps - before.sleeps, 10);
}

// A thread claims the lock while it yields, which takes long on a busy machine, and sleeps between:
// on a very busy one it is hardly ever found asleep.
TEST(Guard, AThreadThatSleepsUntilItIsFreeKeepsNobodyOut) {
  NoControl control;
  ProgressLoop loop(control);
  bool taken = false;
  for (int attempt = 0; !taken && attempt < 80; ++attempt) {
    const std::chrono::milliseconds held{10 << attempt % 8};
    std::thread waiting;
    {
      const ProgressLoop::Guard guard(loop);
      waiting = std::thread([&loop] { const ProgressLoop::Guard late(loop); });
      std::this_thread::sleep_for(held);
    }
    taken = ProgressLoop::Attempt(loop).held();
    waiting.join();
  }
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace mesh::engine
