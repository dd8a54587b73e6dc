// Asynchronous events of devices and of completion queues, and a port that goes down and comes
// back.

#include "src/base/clock.h"
#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

constexpr std::uint64_t kPatienceNs = 50'000'000'000;
constexpr int kLookMs = 100;

class ContractEvents : public Contract {
 protected:
  void TearDown() override {
    EXPECT_TRUE(!port_is_down_ || set_port(PortState::Up));
    Contract::TearDown();
  }

  bool readable(const Endpoint& endpoint, int timeout_ms) const {
    pollfd waiting{endpoint.provider->event_fd(endpoint.context), POLLIN, 0};
    return ::poll(&waiting, 1, timeout_ms) == 1;
  }
  // Waits as the engine does: for the event descriptor, then reads the pending events. Skips events
  // of other kinds.
  std::optional<verbs::DeviceEvent> wait_event(const Endpoint& endpoint,
                                               verbs::DeviceEventKind kind) {
    const Clock clock;
    const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
    while (clock.now_ns() < until_ns) {
      if (!readable(endpoint, kLookMs)) continue;
      verbs::DeviceEvent event;
      while (endpoint.provider->next_event(endpoint.context, &event))
        if (event.kind == kind) return event;
    }
    return std::nullopt;
  }
  bool set_port(PortState state) {
    port_is_down_ = state == PortState::Down;
    return GetParam().set_port(left_host_, left_.gid.netdev, state);
  }
  static ibv_port_state state_of(const Endpoint& endpoint) {
    ibv_port_attr attr{};
    EXPECT_EQ(endpoint.provider->query_port(endpoint.context, 1, &attr), 0);
    return attr.state;
  }
  bool port_is_down_ = false;
};

TEST_P(ContractEvents, WithoutAnEventNothingIsToBeReadAndNothingBlocks) {
  connect_pair();
  if (left_.provider->event_fd(left_.context) < 0)
    GTEST_SKIP() << "this device never says anything";
  verbs::DeviceEvent event;
  while (left_.provider->next_event(left_.context, &event)) continue;  // events of the start
  EXPECT_FALSE(readable(left_, 0));
  EXPECT_FALSE(left_.provider->next_event(left_.context, &event));
}

TEST_P(ContractEvents, APortSaysThatItIsDownAndThatItIsBack) {
  if (GetParam().set_port == nullptr)
    GTEST_SKIP() << "the port of this device is not ours to take down";
  connect_pair();
  ibv_context* const second = left_.provider->open_device(left_host_.device);
  ASSERT_NE(second, nullptr);
  Endpoint listener;
  listener.provider = left_.provider;
  listener.context = second;
  EXPECT_EQ(state_of(left_), IBV_PORT_ACTIVE);
  ASSERT_TRUE(set_port(PortState::Down));
  for (const Endpoint* each : {&left_, &listener}) {
    const auto down = wait_event(*each, verbs::DeviceEventKind::PortError);
    ASSERT_TRUE(down.has_value()) << "every context of the device is told";
    EXPECT_EQ(down->port, 1);
  }
  EXPECT_NE(state_of(left_), IBV_PORT_ACTIVE);
  ASSERT_TRUE(set_port(PortState::Up));
  const auto up = wait_event(left_, verbs::DeviceEventKind::PortActive);
  ASSERT_TRUE(up.has_value());
  EXPECT_EQ(up->port, 1);
  EXPECT_EQ(state_of(left_), IBV_PORT_ACTIVE);
  EXPECT_EQ(left_.provider->close_device(second), 0);
}

TEST_P(ContractEvents, WhatIsPostedToAPortThatStaysDownRunsOutOfRetries) {
  if (GetParam().set_port == nullptr)
    GTEST_SKIP() << "the port of this device is not ours to take down";
  connect_pair();
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 64)), 0);
  ASSERT_EQ(wait(left_.send_cq, 1).at(0).status, IBV_WC_SUCCESS);
  ASSERT_TRUE(set_port(PortState::Down));
  ASSERT_EQ(post(left_, write_request(left_, right_, 2, 64)), 0);
  ASSERT_EQ(post(right_, write_request(right_, left_, 3, 64)),
            0);  // from the side whose port stays up
  EXPECT_EQ(wait_one(left_.send_cq).status, GetParam().traits.port_down);
  EXPECT_EQ(wait_one(right_.send_cq).status, GetParam().traits.port_down);
}

TEST_P(ContractEvents, AShortOutageIsRetriedThrough) {
  if (GetParam().traits.port_down != IBV_WC_RETRY_EXC_ERR)
    GTEST_SKIP() << "a port that is down ends its queue pairs at once";
  if (GetParam().set_port == nullptr)
    GTEST_SKIP() << "the port of this device is not ours to take down";
  PairOptions options = pair_options();
  options.timeout = 18;  // 1.07 s a try: a test that stalls for seconds does not exhaust them
  options.retry_count = 7;
  connect_pair(options);
  ASSERT_TRUE(set_port(PortState::Down));
  std::memset(left_.memory.data(), 0xc3, 100'000);
  ASSERT_EQ(post(left_, write_request(left_, right_, 2, 100'000)), 0);
  EXPECT_TRUE(settle(left_.send_cq).empty());
  EXPECT_EQ(right_.memory[99'999], std::byte{0}) << "nothing gets through";
  ASSERT_TRUE(set_port(PortState::Up));
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(left_.memory.data(), right_.memory.data(), 100'000), 0);
}

TEST_P(ContractEvents, AQueuePairThatFailsIsNamedAndFlushed) {
  if (GetParam().fail_queue_pairs == nullptr)
    GTEST_SKIP() << "no way to make this device fail a queue pair";
  connect_pair();
  ASSERT_EQ(post_receive(left_, 5), 0);
  ASSERT_TRUE(GetParam().fail_queue_pairs(left_host_));
  const auto event = wait_event(left_, verbs::DeviceEventKind::QpFatal);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->qp_num, left_.qp->qp_num);
  EXPECT_EQ(wait_one(left_.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(post(right_, write_request(right_, left_, 7, 64)), 0);
  EXPECT_EQ(wait_one(right_.send_cq).status, IBV_WC_RETRY_EXC_ERR)
      << "the peer finds out by itself";
}

TEST_P(ContractEvents, ADestroyedQueuePairIsNamedByNoEvent) {
  if (GetParam().fail_queue_pairs == nullptr)
    GTEST_SKIP() << "no way to make this device fail a queue pair";
  connect_pair();
  ASSERT_TRUE(GetParam().fail_queue_pairs(left_host_));
  ASSERT_EQ(left_.provider->destroy_qp(std::exchange(left_.qp, nullptr)), 0);
  verbs::DeviceEvent event;
  EXPECT_FALSE(left_.provider->next_event(left_.context, &event));
  EXPECT_FALSE(readable(left_, 0));
}

class ContractCompletionEvents : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    PairOptions options = pair_options();
    options.reports = true;
    connect_pair(options);
    if (right_.channel == nullptr) GTEST_SKIP() << "this device has no completion events";
  }
  bool readable(int timeout_ms) const {
    pollfd waiting{right_.channel->fd, POLLIN, 0};
    return ::poll(&waiting, 1, timeout_ms) == 1;
  }
  bool take_event() { return right_.provider->next_completion_event(right_.channel); }
  bool announce() {
    SendRequest request = write_request(left_, right_, 1, 64);
    request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    return post_receive(right_, 5) == 0 && post(left_, request) == 0;
  }
};

TEST_P(ContractCompletionEvents, AnArmedQueueReportsItsNextCompletionOnce) {
  EXPECT_FALSE(take_event()) << "and nothing blocks";
  ASSERT_EQ(ibv_req_notify_cq(right_.receive_cq, 0), 0);
  EXPECT_FALSE(readable(0));
  ASSERT_TRUE(announce());
  while (!readable(kLookMs)) poll_both();
  EXPECT_TRUE(take_event());
  EXPECT_EQ(wait_one(right_.receive_cq).status, IBV_WC_SUCCESS);
  while (take_event()) continue;
  ASSERT_TRUE(announce());
  EXPECT_EQ(wait_one(right_.receive_cq).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(0)) << "nobody has armed it again";
}

// The rule that a sleeper lives by: it arms, polls once more, and only then sleeps.
TEST_P(ContractCompletionEvents, ACompletionMeetsTheEventOrThePollAfterArming) {
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(announce());
    for (int polls = 0; polls < round; ++polls) poll_both();
    while (take_event()) continue;
    ASSERT_EQ(ibv_req_notify_cq(right_.receive_cq, 0), 0);
    poll_both();
    const Clock clock;
    const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
    while (seen(right_.receive_cq).empty() && clock.now_ns() < until_ns) {
      ASSERT_TRUE(readable(static_cast<int>(kPatienceNs / kNsPerMs))) << "round " << round;
      take_event();
      EXPECT_EQ(ibv_req_notify_cq(right_.receive_cq, 0), 0);
      poll_both();
    }
    ASSERT_EQ(seen(right_.receive_cq).size(), 1u);
    seen(right_.receive_cq).clear();
  }
}

TEST_P(ContractCompletionEvents, AChannelStaysWhileAQueueReportsToIt) {
  EXPECT_EQ(right_.provider->destroy_channel(right_.channel), EBUSY);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Providers, ContractCompletionEvents, ::testing::ValuesIn(provider_kinds()),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Providers, ContractEvents, ::testing::ValuesIn(provider_kinds()),
                         kind_name);

}  // namespace mesh::contract
