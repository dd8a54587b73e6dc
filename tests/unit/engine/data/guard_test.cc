// A thread that waits for the progress lock leaves the processor to the holder of the progress
// lock.

#include "engine/data/progress_loop_datapath.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

using std::chrono::nanoseconds;

struct NoControl final : ControlWaker {
  void wake_control() noexcept override {}
};

nanoseconds processor_time_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
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
  const nanoseconds used_before = processor_time_of_this_thread();
  asked.set_value();
  { const ProgressLoop::Guard guard(loop); }
  const nanoseconds used = processor_time_of_this_thread() - used_before;
  const nanoseconds waited = std::chrono::steady_clock::now() - began;
  holder.join();
  // A waiter that never sleeps takes a whole processor. One that sleeps still yields 64 times
  // before each sleep, which is a tenth of the wait under a sanitizer where system calls are slow.
  EXPECT_LT(used, waited / 2);
}

// Returns whether the kernel has the thread of this process asleep.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
}

// A thread claims the lock while it yields, which takes long on a busy machine, and sleeps between.
TEST(Guard, AThreadThatSleepsUntilItIsFreeKeepsNobodyOut) {
  NoControl control;
  ProgressLoop loop(control);
  bool taken = false;
  for (int attempt = 0; !taken && attempt < 80; ++attempt) {
    std::promise<pid_t> begun;
    std::thread waiting;
    {
      const ProgressLoop::Guard guard(loop);
      waiting = std::thread([&] {
        begun.set_value(::gettid());
        const ProgressLoop::Guard late(loop);
      });
      const pid_t thread = begun.get_future().get();
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!is_asleep(thread) && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    }
    taken = ProgressLoop::Attempt(loop).held();
    waiting.join();
  }
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace mesh::engine
