// A middle host whose device takes long to deregister the rings of chains. Its own links do not
// wait for that, but the next order waits until the memory is free.

#include "tests/unit/engine/slow_device.h"

#include "tests/prelude.h"

#include <mesh/snapshot.h>

namespace mesh {
namespace {

using testkit::wait_until;

// Host a between b and c, with two paths to b.
class SlowMiddleHost : public testkit::SlowDeviceTest {
 protected:
  static constexpr const char* kFabric = R"({"name":"middle","hosts":[
    {"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},
                        {"name":"n1","address":"10.0.2.1/24"},
                        {"name":"n2","address":"10.0.3.1/24"}]},
    {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},
                        {"name":"n1","address":"10.0.2.2/24"}]},
    {"name":"c","nics":[{"name":"n0","address":"10.0.3.3/24"}]}],
    "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]},{"ends":["a/n2","c/n0"]}]})";

  static constexpr int kRelayBytes = 12 << 20;  // enough for the rings of one path, not of two

  void SetUp() override {
    options_.settings.relay_bytes = kRelayBytes;
    open(kFabric, 3);
  }
  // Sends a message from b to c, which a relays.
  void reach(std::size_t communicator) {
    testkit::exchange(
        testkit::connect(hosts_[1].member(communicator), hosts_[2].member(communicator)), {kBytes},
        testkit::Leaves::Nothing);
  }
  // Sends a message in the first communicator, over rings whose deregistration does not end.
  void reach_over_slow_rings() {
    for (const std::size_t neighbour : {std::size_t{1}, std::size_t{2}})
      testkit::connect(hosts_[0].member(0), hosts_[neighbour].member(0));
    device().marks.store(true);
    reach(0);
    device().marks.store(false);
    device().marked_is_slow.store(true);
  }
  RelaySnapshot relay() const { return hosts_[0].engine->snapshot().relay; }
};

TEST_F(SlowMiddleHost, RingsThatAreDestroyedDelayNoFailover) {
  reach_over_slow_rings();
  ASSERT_TRUE(hosts_[0].engine->carries_for_others());
  fail_over_beside("the end of a path that is carried", [this] { hosts_[1].close_context(0); });
  EXPECT_TRUE(wait_until([this] { return !hosts_[0].engine->carries_for_others(); }));
}

TEST_F(SlowMiddleHost, AnOrderWaitsForTheMemoryOfAPathThatHasEnded) {
  reach_over_slow_rings();
  EXPECT_GT(relay().ring_bytes, std::uint64_t{kRelayBytes} / 2);
  hosts_[1].close_context(0);
  ASSERT_TRUE(wait_until([this] { return device().at_it.load(); }));
  std::thread next([this] { reach(1); });
  EXPECT_TRUE(wait_until([this] { return relay().ring_bytes != 0; })) << "not refused";
  EXPECT_EQ(relay().chains, 0u);
  device().done.store(true);
  next.join();
}

}  // namespace
}  // namespace mesh
