// Faults while a host runs: ports that report them, and queue pairs that fail at once.

#include "src/soft/nic.h"
#include "src/soft/queue_pair.h"
#include "tests/prelude.h"
#include "tests/unit/soft/manual_fabric.h"

namespace mesh::soft {
namespace {

using verbs::DeviceEvent, verbs::DeviceEventKind;

std::optional<DeviceEventKind> next_kind(const contract::Endpoint& endpoint) {
  DeviceEvent event;
  if (!endpoint.provider->next_event(endpoint.context, &event)) return std::nullopt;
  return event.kind;
}

ibv_port_state state_of(const contract::Endpoint& endpoint) {
  ibv_port_attr attr{};
  EXPECT_EQ(endpoint.provider->query_port(endpoint.context, 1, &attr), 0);
  return attr.state;
}

TEST(Faults, APortSaysWhenTimeTakesItDownAndUp) {
  ManualFabric fabric("", 1);
  const std::uint64_t start_ns = fabric.now_ns();
  const Fault down{.kind = FaultKind::PortDown, .after_ns = 1000, .duration_ns = 500'000};
  ASSERT_TRUE(fabric.a->faults().arm(down, start_ns).ok());
  fabric.run(start_ns);  // work that connecting left to do
  EXPECT_EQ(fabric.a->next_due_ns(), start_ns + 1000);
  EXPECT_EQ(next_kind(fabric.left[0]), std::nullopt);
  fabric.run(start_ns + 1000);
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortError);
  EXPECT_EQ(state_of(fabric.left[0]), IBV_PORT_DOWN);
  EXPECT_EQ(state_of(fabric.right[0]), IBV_PORT_ACTIVE)
      << "the other end has its own fault, or none";
  EXPECT_EQ(fabric.a->next_due_ns(), start_ns + 501'000);
  fabric.run();
  EXPECT_EQ(fabric.now_ns(), start_ns + 501'000);
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortActive);
  EXPECT_EQ(state_of(fabric.left[0]), IBV_PORT_ACTIVE);
  EXPECT_EQ(next_kind(fabric.left[0]), std::nullopt);
  EXPECT_EQ(next_kind(fabric.right[0]), std::nullopt);
}

// The port is down for its whole duration, however long the work requests take to come.
TEST(Faults, APortThatGoesDownAtAWorkRequestIsDownForAllItsTime) {
  ManualFabric fabric("", 1);
  const Fault down{.kind = FaultKind::PortDown, .after_work_requests = 2, .duration_ns = 500'000};
  ASSERT_TRUE(fabric.a->faults().arm(down).ok());
  ASSERT_EQ(fabric.write(0, 1, 64), 0);
  fabric.run(fabric.now_ns() + 10 * down.duration_ns);
  EXPECT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(next_kind(fabric.left[0]), std::nullopt);
  ASSERT_EQ(fabric.write(0, 2, 64), 0);
  const std::uint64_t struck_ns = fabric.now_ns();
  fabric.run(struck_ns);
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortError);
  EXPECT_EQ(fabric.a->next_due_ns(), struck_ns + down.duration_ns);
  fabric.run(struck_ns + down.duration_ns - 1);
  EXPECT_EQ(state_of(fabric.left[0]), IBV_PORT_DOWN);
  fabric.run();
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortActive);
  EXPECT_EQ(next_kind(fabric.left[0]), std::nullopt) << "it goes down once";
  ASSERT_EQ(fabric.write(0, 3, 64), 0);
  fabric.run();
  EXPECT_EQ(fabric.sent[0].size(), 3u);
}

TEST(Faults, ALiftedPortFaultEndsAtOnceAndOthersStay) {
  ManualFabric fabric("", 1);
  const Fault down{.kind = FaultKind::PortDown, .nic = "mesh0"};
  ASSERT_TRUE(fabric.a->faults().arm(down).ok());
  ASSERT_TRUE(fabric.a->faults().arm({.kind = FaultKind::WriteDelay, .delay_ns = 5000}).ok());
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortError)
      << "nobody turns, and still it is said";
  ASSERT_EQ(fabric.write(0, 1, 64), 0);
  fabric.run(fabric.now_ns() + 10'000);
  EXPECT_TRUE(fabric.sent[0].empty());
  fabric.a->faults().lift(down);
  EXPECT_EQ(next_kind(fabric.left[0]), DeviceEventKind::PortActive);
  EXPECT_TRUE(fabric.a->faults().armed());
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_SUCCESS);
}

TEST(Faults, ARefusedPostLeavesTheQueuePairAsItWas) {
  ManualFabric fabric("", 1);
  ASSERT_TRUE(
      fabric.a->faults().arm({.kind = FaultKind::PostRefused, .after_work_requests = 1}).ok());
  EXPECT_EQ(fabric.write(0, 1, 64), 0);
  EXPECT_EQ(fabric.write(0, 2, 64), EIO);
  EXPECT_EQ(fabric.write(0, 3, 64), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 2u);
  EXPECT_EQ(fabric.sent[0][1].wc.wr_id, 3u);
  EXPECT_EQ(fabric.sent[0][1].wc.status, IBV_WC_SUCCESS);
}

TEST(Faults, TheNthQueuePairFailsOrAllDo) {
  ManualFabric fabric("", 3);
  EXPECT_EQ(fabric.a->fail_queue_pairs("mesh0", 1), 1u);
  EXPECT_EQ(fabric.a->fail_queue_pairs("mesh9", 0), 0u);
  DeviceEvent event;
  EXPECT_TRUE(fabric.a->next_event(fabric.left[1].context, &event));
  EXPECT_EQ(event.qp_num, fabric.left[1].qp->qp_num);
  EXPECT_EQ(next_kind(fabric.left[0]), std::nullopt) << "only who made it is told";
  for (std::size_t pair = 0; pair < 3; ++pair) ASSERT_EQ(fabric.write(pair, 1, 64), 0);
  fabric.run();
  EXPECT_EQ(fabric.sent[0].at(0).wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(fabric.sent[1].at(0).wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(fabric.a->fail_queue_pairs("", -1), 2u) << "those that are left";
}

// A fault may come after modify_qp has read the state and before it takes the lock.
TEST(Faults, AStateChangeThatAFaultOvertookBringsNoQueuePairBack) {
  ManualFabric fabric("", 1);
  QueuePair& qp = soft(fabric.left[0].qp);
  const Attributes attributes = qp.attributes;
  ASSERT_EQ(fabric.a->fail_queue_pairs("", -1), 1u);
  static_cast<void>(qp.nic->start(qp, attributes));
  EXPECT_EQ(qp.state.load(), IBV_QPS_ERR);
  EXPECT_EQ(fabric.write(0, 1, 64), 0);
  fabric.run();
  ASSERT_EQ(fabric.sent[0].size(), 1u);
  EXPECT_EQ(fabric.sent[0][0].wc.status, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace mesh::soft
