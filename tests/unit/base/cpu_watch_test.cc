#include "src/base/cpu_watch.h"

#include "tests/prelude.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::wait_until;

// Moves the calling thread to the first CPU that it may use. Threads that it starts stay there.
void share_one_cpu() {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (CPU_ISSET(cpu, &allowed) == 0) ++cpu;
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
}

TEST(CpuWatch, AThreadNoticesThatAnotherOneTakesItsCpu) {
  std::thread both([] {
    share_one_cpu();
    std::atomic<bool> over{false};
    std::thread neighbour([&over] {
      while (!over.load(std::memory_order_relaxed)) {
      }
    });
    CpuWatch watch;
    EXPECT_TRUE(wait_until([&watch] { return watch.lost(); }));
    over.store(true, std::memory_order_relaxed);
    neighbour.join();
  });
  both.join();
}

TEST(CpuWatch, AThreadThatHasSleptBeginsAnew) {
  CpuWatch watch;
  EXPECT_FALSE(watch.lost());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the time that is not to count
  watch.restart();
  EXPECT_FALSE(watch.lost());
}

}  // namespace
}  // namespace mesh
