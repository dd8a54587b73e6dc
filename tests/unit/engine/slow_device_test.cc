// A device that takes long to take memory back: nobody else waits for it.

#include "src/base/log.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/passing_provider.h"
#include "tests/unit/engine/patience.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

namespace mesh {
namespace {

using testkit::wait_until;
using Time = std::chrono::steady_clock;

// Deregisters the memory that it is told when the test says so.
class SlowDevice final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  int dereg_mr(ibv_mr* mr) override {
    if (mr->addr == slow.load()) {
      at_it.store(true);
      EXPECT_TRUE(wait_until([this] { return done.load(); }));
    }
    return PassingProvider::dereg_mr(mr);
  }

  std::atomic<const void*> slow{nullptr};
  std::atomic<bool> at_it{false}, done{false};
};

// a and b, two paths and two communicators.
class SlowDeviceTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 << 20;

  void SetUp() override {
    set_log_level(LogLevel::Info);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].open(std::make_unique<SlowDevice>(testkit::open_host(testkit::kHalves, i)),
                     testkit::on_loopback(0), 2);
    }
  }
  void TearDown() override {
    device().done.store(true);
    for (auto& host : hosts_) host.close();
  }

  SlowDevice& device() { return *hosts_[0].provider; }
  testkit::Pair connect(std::size_t communicator) {
    return testkit::connect({*hosts_[0].engine, *hosts_[0].contexts[communicator]},
                            {*hosts_[1].engine, *hosts_[1].contexts[communicator]});
  }
  int back() const { return log_.count(LogLevel::Info, "is back after"); }

  // A path is lost under traffic and comes back, in that communicator. How long until both sides
  // have fenced it and messages arrive.
  Time::duration fail_over(const testkit::Pair& pair) {
    const int lost_before = log_.count(LogLevel::Warn, "is lost"), back_before = back();
    const soft::Fault fault{.kind = soft::FaultKind::QpError, .nic = "n1"};
    const auto began = Time::now();
    EXPECT_TRUE(device().under().faults().arm(fault).ok());
    testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
    const auto took = Time::now() - began;
    EXPECT_EQ(log_.count(LogLevel::Warn, "is lost"), lost_before + 2) << log_.joined();
    EXPECT_TRUE(wait_until([&] { return back() == back_before + 2; })) << log_.joined();
    return took;
  }

  // The same while a thread of NCCL's waits for the device.
  void fail_over_beside(const std::function<void()>& slow_call) {
    const testkit::Pair pair = connect(1);
    const auto alone = fail_over(pair);
    device().slow.store(memory_.data());
    std::thread service(slow_call);
    EXPECT_TRUE(wait_until([this] { return device().at_it.load(); }));
    const auto beside = fail_over(pair);
    EXPECT_FALSE(device().done.load()) << "it still deregisters";
    device().done.store(true);
    service.join();
    using Ms = std::chrono::duration<double, std::milli>;
    std::printf("a failover: %.2f ms alone, %.2f ms beside a deregistration that does not end\n",
                Ms(alone).count(), Ms(beside).count());
  }

  testkit::LogCapture log_;
  std::array<testkit::EngineHost<SlowDevice>, 2> hosts_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
};

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfAnotherCommunicator) {
  const testkit::Pair pair = connect(0);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfItsOwnCommunicator) {
  const testkit::Pair pair = connect(1);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, TheEndOfACommunicatorWithRegistrationsDelaysNoFailoverOfAnother) {
  const testkit::Pair pair = connect(0);
  ASSERT_TRUE(register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).ok());
  fail_over_beside([&] { hosts_[0].close_context(0); });
}

}  // namespace
}  // namespace mesh
