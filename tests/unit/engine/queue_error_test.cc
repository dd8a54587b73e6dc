// A device reports that a completion queue has failed. The paths that use it are lost, as if it
// could not be polled, and come back on another queue.

#include "src/base/log.h"
#include "src/base/unique_fd.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh {
namespace {

using testkit::EngineHost, testkit::kHalves, testkit::Leaves, testkit::LogCapture;

// Reports no event but the failure of a queue, when a test asks for it.
class QueuesFail final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const context = PassingProvider::open_device(name);
    const std::lock_guard guard(mutex_);
    devices_[context] = {.name = name, .fd = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
    return context;
  }
  int event_fd(ibv_context* context) const noexcept override {
    const std::lock_guard guard(mutex_);
    return devices_.at(context).fd.get();
  }
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override {
    const std::lock_guard guard(mutex_);
    eventfd_t count = 0;
    if (::eventfd_read(devices_.at(context).fd.get(), &count) != 0) return false;
    *event = {.kind = verbs::DeviceEventKind::CqError, .cq = devices_.at(context).queues.back()};
    return true;
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    ibv_cq* const queue = PassingProvider::create_cq(context, entries);
    const std::lock_guard guard(mutex_);
    devices_.at(context).queues.push_back(queue);
    return queue;
  }

  // Fails the queue that was made last on the device.
  void fail_queue(const std::string& name) {
    const std::lock_guard guard(mutex_);
    for (const auto& [context, device] : devices_)
      if (device.name == name) ::eventfd_write(device.fd.get(), 1);
  }
  std::size_t queues(const std::string& name) const {
    const std::lock_guard guard(mutex_);
    for (const auto& [context, device] : devices_)
      if (device.name == name) return device.queues.size();
    return 0;
  }

 private:
  struct Device {
    std::string name;
    UniqueFd fd;
    std::vector<const ibv_cq*> queues{};
  };
  mutable std::mutex mutex_;
  std::map<const ibv_context*, Device> devices_;
};

// Two hosts whose first message has been exchanged.
class QueueError : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 << 20;

  void SetUp() override {
    set_log_level(LogLevel::Info);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].open(std::make_unique<QueuesFail>(testkit::open_host(kHalves, i)),
                     testkit::on_loopback(0));
    }
    pair_ = testkit::connect(hosts_[0].member(), hosts_[1].member());
    testkit::exchange(pair_, {kBytes}, Leaves::Nothing);
  }
  void TearDown() override {
    for (EngineHost<QueuesFail>& host : hosts_) host.close();
  }

  const LogCapture log_;
  std::array<EngineHost<QueuesFail>, 2> hosts_;
  testkit::Pair pair_;
};

TEST_F(QueueError, ThePathsOfAFailedCompletionQueueAreLostAndComeBackOnAnother) {
  QueuesFail& device = *hosts_[0].provider;
  const std::size_t queues = device.queues("n1");
  device.fail_queue("n1");
  const char* const cause = "is lost: its completion queue has failed";
  ASSERT_TRUE(testkit::wait_until([&] { return log_.count(LogLevel::Warn, cause) == 1; }))
      << log_.joined();
  testkit::exchange(pair_, {kBytes}, Leaves::Nothing);
  ASSERT_TRUE(testkit::wait_until([&] { return log_.count(LogLevel::Info, "is back after") == 2; }))
      << log_.joined();
  EXPECT_EQ(device.queues("n1"), queues + 1);
  const std::uint64_t before = device.under().counters("n1").bytes;
  testkit::exchange(pair_, {kBytes, kBytes}, Leaves::Nothing);
  EXPECT_GT(device.under().counters("n1").bytes, before);
  EXPECT_TRUE(log_.warned("", 2)) << "of both sides, once";
}

TEST_F(QueueError, WhatTheQueueStillShowsCounts) {
  std::vector<std::byte> source(kBytes, std::byte{1}), target(kBytes);
  Registration* const from =
      register_memory(*pair_.send, source.data(), kBytes, MemoryType::Host).value();
  Registration* const to =
      register_memory(*pair_.receive, target.data(), kBytes, MemoryType::Host).value();
  Request* const receiving =
      irecv(*pair_.receive, {.data = target.data(), .bytes = kBytes, .region = to}).value();
  Request* const sending =
      isend(*pair_.send, {.data = source.data(), .bytes = kBytes, .region = from}).value();
  // Nobody tests the receive, so its completions stay in their queues.
  ASSERT_TRUE(testkit::wait_until([&] { return test(*sending, nullptr).ok(); }));
  hosts_[1].provider->fail_queue("n1");
  ASSERT_TRUE(testkit::wait_until(
      [&] { return log_.count(LogLevel::Info, "a completion queue has failed") == 1; }));
  Status received = Errc::WouldBlock;
  EXPECT_TRUE(testkit::wait_until([&] {
    received = test(*receiving, nullptr);
    return received.code() != Errc::WouldBlock;
  }));
  EXPECT_TRUE(received.ok()) << errc_name(received.code()) << log_.joined();
  EXPECT_EQ(source, target);
  testkit::exchange(pair_, {kBytes}, Leaves::Nothing);
  deregister_memory(*pair_.receive, to);
  deregister_memory(*pair_.send, from);
}

}  // namespace
}  // namespace mesh
