// A device that takes long to take memory back, or to make a queue pair: nobody else waits for it.

#include "tests/unit/engine/slow_device.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mesh
