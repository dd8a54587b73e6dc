// A device takes long to deregister memory, or to make or destroy a queue pair. Nobody else waits
// for it.

#include "tests/unit/engine/slow_device.h"

namespace mesh {
namespace {

using testkit::SlowDeviceTest;

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfAnotherCommunicator) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside_deregistration([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfItsOwnCommunicator) {
  const testkit::Pair pair = connect(1, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside_deregistration([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, TheEndOfACommunicatorWithRegistrationsDelaysNoFailoverOfAnother) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  ASSERT_TRUE(register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).ok());
  fail_over_beside_deregistration([&] { hosts_[0].close_context(0); });
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorMakesDelaysNoFailover) {
  fail_over_beside_connecting(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorMakesDelaysNoFailover) {
  fail_over_beside_connecting(Slow::Accepts);
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorMakesAnewDelaysNoFailover) {
  fail_over_beside_reopening(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorMakesAnewDelaysNoFailover) {
  fail_over_beside_reopening(Slow::Accepts);
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorDestroysDelaysNoMessageAndNoFailover) {
  fail_over_beside_destroying(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorDestroysDelaysNoMessageAndNoFailover) {
  fail_over_beside_destroying(Slow::Accepts);
}

// Late data of the old queue pairs could overwrite the replayed data, so FENCE waits for their end.
TEST_F(SlowDeviceTest, AnAcceptorWithoutItsReceivesSendsNoFenceBeforeItsQueuePairsAreDestroyed) {
  const testkit::Pair pair = connect(0, Slow::Accepts);
  const testkit::Pair other = connect(1, Slow::Connects);
  std::atomic<bool> arrived{false};
  device().ignores_stops.store(true);
  device().next_end_is_slow.store(true);
  std::thread traffic([&] {
    lose_path(pair, Slow::Accepts);
    arrived.store(true);
  });
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  device().ignores_stops.store(false);
  fail_over(other);
  EXPECT_FALSE(arrived.load());
  device().done.store(true);
  traffic.join();
  EXPECT_TRUE(testkit::wait_until([this] { return back() == 2 * 2; })) << log_.joined();
}

// The queue pairs of a failed try to open the path must be destroyed before others are made.
TEST_F(SlowDeviceTest, AnAcceptorMakesNoQueuePairBesideOneOfThePathThatIsBeingDestroyed) {
  const testkit::Pair pair = connect(0, Slow::Accepts);
  const soft::Fault nothing_gets_through{
      .kind = soft::FaultKind::QpError, .nic = "n1", .work_requests = std::uint64_t{1} << 32};
  soft::FaultPlan& faults = hosts_[1].provider->under().faults();
  ASSERT_TRUE(faults.arm(nothing_gets_through).ok());
  const int made = device().made.load();
  testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  EXPECT_TRUE(testkit::wait_until([&] { return device().made.load() > made; }));
  device().next_end_is_slow.store(true);
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  faults.lift(nothing_gets_through);
  fail_over(connect(1, Slow::Connects));
  EXPECT_EQ(device().made_beside.load(), 0);
  device().done.store(true);
  EXPECT_TRUE(testkit::wait_until([this] { return back() == 2 * 2; })) << log_.joined();
}

class OnePortTest : public SlowDeviceTest {
 protected:
  static constexpr const char* kSwitch = R"({"name":"switch","hosts":[
    {"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},
    {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"}]},
    {"name":"c","nics":[{"name":"n0","address":"10.0.1.3/24"}]}],
    "links":[{"switch":["a/n0","b/n0","c/n0"]}]})";

  void SetUp() override { open(kSwitch, 3); }
  // The path is the only one, so the message arrives when the path is back.
  void lose_path_from(std::size_t host, const testkit::Pair& pair) {
    fail_next(host, "n0");
    testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  }
};

TEST_F(OnePortTest, AQueuePairThatIsNotDestroyedDelaysNoPathToAnotherPeer) {
  const testkit::Pair from_b = testkit::connect(hosts_[1].member(), hosts_[0].member());
  const testkit::Pair from_c = testkit::connect(hosts_[2].member(), hosts_[0].member());
  device().next_end_is_slow.store(true);
  std::thread waits([&] { lose_path_from(1, from_b); });
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  lose_path_from(2, from_c);
  EXPECT_FALSE(device().done.load());
  device().done.store(true);
  waits.join();
}

// A communicator goes when all its queue pairs are destroyed, and nobody waits for that.
TEST_F(SlowDeviceTest, ACommunicatorGoesWhenItsQueuePairsAreDestroyed) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  Engine& engine = *hosts_[0].engine;
  const std::size_t before = engine.stats().contexts;
  std::atomic<bool> closed{false};
  const auto close = [&] {
    device().next_end_is_slow.store(true);
    hosts_[0].close_context(0);
    closed.store(true);
  };
  fail_over_beside("the end of a communicator", close, [&] {
    EXPECT_TRUE(testkit::wait_until([&] { return closed.load(); }));
    EXPECT_EQ(engine.stats().contexts, before);
  });
  EXPECT_TRUE(testkit::wait_until([&] { return engine.stats().contexts == before - 1; }));
}

class LateQueuePairsTest : public SlowDeviceTest {
 protected:
  void SetUp() override {
    options_.policy.late_qps = true;
    open(testkit::kHalves, 2);
  }
  // A path is lost, fenced and destroyed while the device makes its late queue pairs.
  void lose_path_beside_making(Slow slow) {
    const testkit::Pair pair = connect(0, slow);
    device().next_queue_pair_is_slow.store(true);
    std::thread traffic([&] { testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing); });
    EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
    const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n0"};
    soft::FaultPlan& faults = hosts_[1].provider->under().faults();
    ASSERT_TRUE(faults.arm(down).ok());
    EXPECT_TRUE(testkit::wait_until([this] { return count(LogLevel::Info, "is fenced") == 2; }));
    device().done.store(true);
    traffic.join();
    faults.lift(down);
    EXPECT_TRUE(testkit::wait_until([this] { return back() == 2; })) << log_.joined();
    testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  }
};

TEST_F(LateQueuePairsTest, APathThatIsLostWhileAConnectorMakesThemComesBack) {
  lose_path_beside_making(Slow::Connects);
}

TEST_F(LateQueuePairsTest, APathThatIsLostWhileAnAcceptorMakesThemComesBack) {
  lose_path_beside_making(Slow::Accepts);
}

// The express queue pair carries it, and bulk ones carry the next when they are there.
TEST_F(LateQueuePairsTest, AMessageIsCarriedWhileTheyAreMade) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  device().next_queue_pair_is_slow.store(true);
  testkit::exchange(pair, {kBytes, kBytes, 8, kBytes}, testkit::Leaves::Nothing);
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  EXPECT_FALSE(device().done.load());
  device().done.store(true);
  testkit::exchange(pair, {2 * kBytes}, testkit::Leaves::Nothing);  // it takes bulk ones
  testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
}

// One queue pair would take longer for it than the device for the others.
TEST_F(LateQueuePairsTest, AMessageOfMoreThanFourMebibytesWaitsForThem) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  device().next_queue_pair_is_slow.store(true);
  std::atomic<bool> arrived{false};
  std::thread traffic([&] {
    testkit::exchange(pair, {kBytes + 1}, testkit::Leaves::Nothing);
    arrived.store(true);
  });
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  EXPECT_FALSE(arrived.load());
  device().done.store(true);
  traffic.join();
}

class ImpatientSlowDeviceTest : public SlowDeviceTest {
 protected:
  // Returns the results of the requests. Only these calls of test() turn the loops.
  static std::vector<Status> outcomes(const std::vector<Request*>& requests) {
    std::vector<Status> ended(requests.size(), Errc::WouldBlock);
    EXPECT_TRUE(testkit::wait_until([&] {
      bool all = true;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        if (ended[i].code() == Errc::WouldBlock) ended[i] = test(*requests[i], nullptr);
        all = all && ended[i].code() != Errc::WouldBlock;
      }
      return all;
    }));
    return ended;
  }
  void SetUp() override {
    options_.settings.path_timeout_s = 1;
    open(testkit::kHalves, 2);
  }
};

TEST_F(ImpatientSlowDeviceTest, ALinkThatFailsSaysWhichPathWaitsForTheEndOfItsQueuePairs) {
  const testkit::Pair pair = connect(0, Slow::Accepts);
  Registration* const region =
      register_memory(*pair.receive, memory_.data(), kBytes, MemoryType::Host).value();
  device().next_end_is_slow.store(true);
  soft::Fault lost;
  lost.kind = soft::FaultKind::PeerLost;
  lost.peer_host = "b";
  ASSERT_TRUE(device().under().faults().arm(lost).ok());
  Request* const receiving =
      irecv(*pair.receive, {.data = memory_.data(), .bytes = kBytes, .region = region}).value();
  EXPECT_EQ(outcomes({receiving}).front().code(), Errc::Timeout);
  const char* const says = "(the device has not yet destroyed the former queue pairs)";
  EXPECT_TRUE(log_.warned("peer b: none of its 2 paths"));
  EXPECT_GE(log_.count(LogLevel::Warn, says), 1) << "the peer is told it, too: " << log_.joined();
  device().done.store(true);
  deregister_memory(*pair.receive, region);
}

}  // namespace
}  // namespace mesh
