#pragma once
// A device that takes long to deregister memory, or to make or destroy a queue pair, and the time
// that a failover takes beside it. Thread: the test's; the device's calls may come from any.
// Bounds: patience.h.

#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh::testkit {

// Makes some calls wait until the test sets `done`: the deregistration of the memory at `slow`, the
// deregistration of each region registered while `marks` was set (if `marked_is_slow`), the next
// create_qp (if `next_queue_pair_is_slow`), and the next destroy_qp (if `next_end_is_slow`). While
// `ignores_stops`, a queue pair does not go to ERR, and its receives do not come back. While
// `refused_domains` is not 0, alloc_pd fails and lowers it.
class SlowDevice final : public PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  int dereg_mr(ibv_mr* mr) override {
    if (mr->addr == slow.load() || (is_marked(mr) && marked_is_slow.load())) wait();
    return PassingProvider::dereg_mr(mr);
  }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) override {
    ibv_mr* const mr = PassingProvider::reg_mr(pd, address, length, access);
    const std::lock_guard guard(mutex_);
    if (marks.load()) marked_.insert(mr);
    return mr;
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    if (next_queue_pair_is_slow.exchange(false)) wait();
    made.fetch_add(1);
    if (pd == destroys_in.load()) made_beside.fetch_add(1);
    return PassingProvider::create_qp(pd, attr);
  }

  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    if (attr->qp_state == IBV_QPS_ERR && ignores_stops.load()) return 0;
    return PassingProvider::modify_qp(qp, attr, mask);
  }
  int destroy_qp(ibv_qp* qp) override {
    if (next_end_is_slow.exchange(false)) {
      destroys_in.store(qp->pd);
      wait();
      destroys_in.store(nullptr);
    }
    return PassingProvider::destroy_qp(qp);
  }
  ibv_pd* alloc_pd(ibv_context* context) override {
    if (refused_domains.load() == 0) return PassingProvider::alloc_pd(context);
    refused_domains.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  int close_device(ibv_context* context) override {
    const int error = PassingProvider::close_device(context);
    if (error == 0) closed.fetch_add(1);
    return error;
  }

  std::atomic<const void*> slow{nullptr};
  std::atomic<bool> marks{false}, marked_is_slow{false}, next_queue_pair_is_slow{false},
      next_end_is_slow{false}, ignores_stops{false}, at_it{false}, done{false};
  std::atomic<const ibv_pd*> destroys_in{nullptr};  // domain of the destroy_qp that waits
  std::atomic<int> made{0}, made_beside{0};         // queue pairs: all; in that domain, meanwhile
  std::atomic<int> refused_domains{0}, closed{0};   // closed: devices

 private:
  bool is_marked(const ibv_mr* mr) {
    const std::lock_guard guard(mutex_);
    return marked_.erase(mr) != 0;
  }
  void wait() {
    at_it.store(true);
    EXPECT_TRUE(wait_until([this] { return done.load(); }));
  }

  std::mutex mutex_;
  std::set<const ibv_mr*> marked_;
};

// Hosts a and b with two paths and two communicators.
class SlowDeviceTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 << 20;

  void SetUp() override { open(kHalves, 2); }
  void open(const char* fabric, std::size_t count) {
    set_log_level(LogLevel::Info);
    for (std::size_t i = 0; i < count; ++i) {
      hosts_[i].open(std::make_unique<SlowDevice>(open_host(fabric, i)), options_, 2);
    }
  }
  void TearDown() override {
    device().done.store(true);
    for (std::size_t i = hosts_.size(); i-- > 0;) hosts_[i].close();  // a may relay: it is last
  }

  SlowDevice& device() { return *hosts_[0].provider; }
  // Lines of all links: the second link to lose a cable, or not the last to get it back, has
  // detail.
  int lost() const { return count(LogLevel::Warn, "is lost"); }
  int back() const { return count(LogLevel::Info, "is back after"); }
  int count(LogLevel first, const char* text) const {
    return log_.count(first, text) + log_.count(LogLevel::Detail, text);
  }

  // Connects a pair of that communicator. The slow device is the connector, or the acceptor.
  enum class Slow : std::uint8_t { Connects, Accepts };
  Pair connect(std::size_t communicator, Slow slow) {
    const std::size_t from = slow == Slow::Connects ? 0 : 1, to = 1 - from;
    return testkit::connect(hosts_[from].member(communicator), hosts_[to].member(communicator));
  }

  void fail_next(std::size_t host, const char* nic) {
    const soft::Fault fault{.kind = soft::FaultKind::QpError, .nic = nic};
    EXPECT_TRUE(hosts_[host].provider->under().faults().arm(fault).ok());
  }
  void lose_path(const Pair& pair, Slow slow) {
    fail_next(slow == Slow::Connects ? 0 : 1, "n1");
    testkit::exchange(pair, {kBytes}, Leaves::Nothing);
  }
  // Loses a path under traffic. Returns the time until both sides have fenced it and messages
  // arrive; then waits until the path is back.
  std::chrono::steady_clock::duration fail_over(const Pair& pair) {
    const int lost_before = lost(), back_before = back();
    const auto began = std::chrono::steady_clock::now();
    lose_path(pair, Slow::Connects);
    const auto took = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(lost(), lost_before + 2) << log_.joined();
    EXPECT_TRUE(wait_until([&] { return back() == back_before + 2; })) << log_.joined();
    return took;
  }

  // Measures fail_over() alone, and again while the device is held up in `slow_call`.
  void fail_over_beside(
      const char* what, const std::function<void()>& slow_call,
      const std::function<void()>& meanwhile = [] {}) {
    const Pair pair = connect(1, Slow::Connects);
    const auto alone = fail_over(pair);
    std::thread service(slow_call);
    EXPECT_TRUE(wait_until([this] { return device().at_it.load(); }));
    const auto beside = fail_over(pair);
    meanwhile();
    EXPECT_FALSE(device().done.load()) << "it is still at it";
    device().done.store(true);
    service.join();
    using Ms = std::chrono::duration<double, std::milli>;
    std::printf("a failover: %.2f ms alone, %.2f ms beside %s that does not end\n",
                Ms(alone).count(), Ms(beside).count(), what);
  }
  void fail_over_beside_deregistration(const std::function<void()>& call) {
    fail_over_beside("a deregistration", [&] {
      device().slow.store(memory_.data());
      call();
    });
  }
  void fail_over_beside_connecting(Slow slow) {
    fail_over_beside("a queue pair's making", [&] {
      device().next_queue_pair_is_slow.store(true);
      connect(0, slow);
    });
  }
  void fail_over_beside_reopening(Slow slow) {
    const Pair pair = connect(0, slow);
    fail_over_beside("a queue pair's making", [&] {
      device().next_queue_pair_is_slow.store(true);
      lose_path(pair, slow);
    });
    EXPECT_TRUE(wait_until([this] { return back() == 3 * 2; })) << log_.joined();
  }

  // Loses a path of the first communicator while the device is held up in destroying one of its
  // queue pairs. The other path carries on, and the lost one waits.
  void fail_over_beside_destroying(Slow slow) {
    const Pair pair = connect(0, slow);
    std::atomic<bool> arrived{false};
    const auto lose = [&] {
      device().next_end_is_slow.store(true);
      lose_path(pair, slow);
      arrived.store(true);
    };
    fail_over_beside("the end of a queue pair", lose, [&] {
      ASSERT_TRUE(wait_until([&] { return arrived.load(); }));
      testkit::exchange(pair, {kBytes}, Leaves::Nothing);
    });
    EXPECT_TRUE(wait_until([this] { return back() == 3 * 2; })) << log_.joined();
  }

  EngineOptions options_ = on_loopback(0);
  LogCapture log_;
  std::array<EngineHost<SlowDevice>, 3> hosts_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
};

}  // namespace mesh::testkit
