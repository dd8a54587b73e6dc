// A poller whose CPU another thread takes stands back, and callers turn its loops.

#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

// Returns the last CPU that this process may use.
int last_cpu() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  int cpu = CPU_SETSIZE - 1;
  while (cpu > 0 && CPU_ISSET(cpu, &allowed) == 0) --cpu;
  return cpu;
}

// Keeps a CPU busy until its end.
class BusyThread {
 public:
  explicit BusyThread(int cpu) : thread_([this, cpu] { run(cpu); }) {}
  ~BusyThread() {
    over_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;

 private:
  void run(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    while (!over_.load(std::memory_order_relaxed)) {
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

class StandBack : public testing::Test {
 protected:
  StandBack() {
    set_log_level(LogLevel::Info);
    EngineOptions options = testkit::on_loopback(1);
    options.settings.cpus = std::to_string(cpu_);
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(testkit::open_host(testkit::kCable, i), options);
    pair_ = testkit::connect(hosts_[0].member(), hosts_[1].member());
  }
  ~StandBack() override {
    close(pair_.send);
    close(pair_.receive);
    for (testkit::EngineHost<>& host : hosts_) host.close_context(0);
    for (testkit::EngineHost<>& host : hosts_) host.close();
    set_log_level(LogLevel::Warn);
  }
  void exchange() { testkit::exchange(pair_, {0, 100, 100'000}, testkit::Leaves::Nothing); }

  const testkit::LogCapture log_;
  const int cpu_ = last_cpu();
  std::array<testkit::EngineHost<>, 2> hosts_;
  testkit::Pair pair_;
};

TEST_F(StandBack, MessagesGoWhileABusyThreadHasThePollersCpu) {
  const BusyThread neighbour(cpu_);
  const std::string line = "other threads take CPU " + std::to_string(cpu_);
  EXPECT_TRUE(testkit::wait_until([&] {
    exchange();
    return log_.count(LogLevel::Info, line) == 2;  // each host has a poller
  })) << log_.joined();
  for (int i = 0; i < 100; ++i) exchange();
  EXPECT_TRUE(log_.said(LogLevel::Info, line, 2)) << "each poller says it once";
}

}  // namespace
}  // namespace mesh
