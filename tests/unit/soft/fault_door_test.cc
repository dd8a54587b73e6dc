// The fault door, through which other processes tell a running host of faults.

#include "src/soft/fault_door.h"
#include "src/base/clock.h"
#include "tests/prelude.h"
#include "tests/unit/soft/manual_fabric.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::soft {
namespace {

using verbs::DeviceEvent, verbs::DeviceEventKind;

// Two hosts with one cable in a fabric of their own, in real time and with their own threads.
class Door : public testing::Test {
 protected:
  Door()
      : fabric_(*parse(R"({"name": "door",
    "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.12.1/24"}]},
              {"name": "b", "nics": [{"name": "n0", "address": "10.0.12.2/24"}]}],
    "links": [{"ends": ["a/n0", "b/n0"]}]})")) {
    host_ = testkit::open_host({.fabric = fabric_, .host = "a", .clock = Clock()});
    context_ = host_->open_device("n0");
  }
  ~Door() override { host_->close_device(context_); }

  Result<FaultAnswer> tell(FaultVerb verb, const Fault& fault) {
    return tell_host(fabric_, "a", {.verb = verb, .fault = fault});
  }

  // Returns the next event within 60 s. Does not turn the host.
  std::optional<DeviceEventKind> next_event_in_time() {
    const Clock wall;
    const std::uint64_t until_ns = wall.now_ns() + 60 * kNsPerSecond;
    DeviceEvent event;
    while (!host_->next_event(context_, &event)) {
      if (wall.now_ns() > until_ns) return std::nullopt;
      ::sched_yield();
    }
    return event.kind;
  }

  FabricFile fabric_;
  std::unique_ptr<SoftProvider> host_;
  ibv_context* context_ = nullptr;
};

TEST_F(Door, AnAnswerMeansThatItHasHappened) {
  const Fault down{.kind = FaultKind::PortDown, .nic = "n0"};
  DeviceEvent event;
  ASSERT_EQ(tell(FaultVerb::Arm, down).value().code, Errc::Ok);
  ASSERT_TRUE(host_->next_event(context_, &event));
  EXPECT_EQ(event.kind, DeviceEventKind::PortError);
  EXPECT_FALSE(tell(FaultVerb::Look, down).value().port_up);
  ASSERT_EQ(tell(FaultVerb::Lift, down).value().code, Errc::Ok);
  ASSERT_TRUE(host_->next_event(context_, &event));
  EXPECT_EQ(event.kind, DeviceEventKind::PortActive);
  EXPECT_FALSE(host_->faults().armed());
  EXPECT_TRUE(tell(FaultVerb::Look, down).value().port_up);
}

TEST_F(Door, APeerIsCutOffUntilAllIsLifted) {
  ASSERT_EQ(tell(FaultVerb::Arm, {.kind = FaultKind::PeerLost, .peer_host = "b"}).value().code,
            Errc::Ok);
  EXPECT_TRUE(host_->faults().cut_off("n0", "b", 0));
  ASSERT_EQ(tell(FaultVerb::LiftAll, {}).value().code, Errc::Ok);
  EXPECT_FALSE(host_->faults().armed());
  EXPECT_EQ(tell(FaultVerb::FailQueuePairs, {.nic = "n0"}).value().count, 0u)
      << "none is connected";
}

// A port that is down only for a moment may be up again before a busy machine looks at it.
TEST_F(Door, TimeTakesAPortDownThoughNobodyTurnsIt) {
  const Fault down{.kind = FaultKind::PortDown, .nic = "n0", .after_ns = 20'000'000};
  ASSERT_EQ(tell(FaultVerb::Arm, down).value().code, Errc::Ok);
  EXPECT_EQ(next_event_in_time(), DeviceEventKind::PortError);
}

TEST_F(Door, TimeTakesAPortUpThoughNobodyTurnsIt) {
  const Fault down{.kind = FaultKind::PortDown, .nic = "n0", .duration_ns = 20'000'000};
  ASSERT_TRUE(host_->faults().arm(down).ok());  // its time begins with the first look
  EXPECT_EQ(next_event_in_time(), DeviceEventKind::PortError);
  EXPECT_EQ(next_event_in_time(), DeviceEventKind::PortActive);
}

TEST_F(Door, WhatIsWrongIsAnswered) {
  EXPECT_EQ(tell(FaultVerb::Arm, {.kind = FaultKind::PortDown, .nic = "n7"}).value().code,
            Errc::NotFound);
  EXPECT_EQ(tell(FaultVerb::Arm, {.kind = FaultKind::WriteDelay, .delay_ns = kFaultDelayMaxNs + 1})
                .value()
                .code,
            Errc::InvalidArgument);
  EXPECT_EQ(tell_host(fabric_, "b", {}).code(), Errc::NotFound) << "nobody is that host";
  const std::vector<std::byte> shorter(100);
  FaultOrder order;
  EXPECT_FALSE(decode(shorter, &order));
}

}  // namespace
}  // namespace mesh::soft
