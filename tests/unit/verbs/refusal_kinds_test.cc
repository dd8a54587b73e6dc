// The kinds of ports that are no rails, from which tools derive the remedy.
#include "src/verbs/discovery.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <vector>

namespace mesh::verbs {
namespace {

using mesh::testkit::LogCapture, testkit::device, testkit::two_devices, testkit::ethernet_port;
using testkit::FakeProvider, testkit::gid_of;

// The GIDs of an iWARP port say RoCE v1, and no address gives it one of RoCE v2.
TEST(DiscoveryRefusals, AnIWarpDeviceIsSaidToBeOne) {
  FakeProvider provider;
  provider.fakes.push_back(
      device("irdma0", {ethernet_port({gid_of(0, "10.0.0.1", GidType::RoceV1)})}));
  provider.fakes[0].entry.iwarp = true;
  const LogCapture log;
  std::vector<RefusedPort> refused;
  EXPECT_EQ(discover(provider, {}, &refused).code(), Errc::NotFound);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].kind, RefusalKind::IWarp);
  EXPECT_TRUE(log.said(LogLevel::Info, "irdma0 speaks iWARP, and the plugin needs RoCE"));
}

// A user must be able to tell an address that is missing from a device that cannot be used.
TEST(DiscoveryRefusals, EachRefusalHasItsKind) {
  const auto kind = [](const std::function<void(FakeProvider&)>& spoil) {
    FakeProvider provider = two_devices();
    spoil(provider);
    std::vector<RefusedPort> refused;
    const LogCapture log;
    EXPECT_FALSE(discover(provider, {}, &refused).ok());
    return refused.empty() ? RefusalKind::Down : refused.front().kind;
  };
  EXPECT_EQ(kind([](FakeProvider& p) { p.cq_error = ENOMEM; }), RefusalKind::NoMemory);
  EXPECT_EQ(kind([](FakeProvider& p) { p.qp_error = EOPNOTSUPP; }), RefusalKind::Unusable);
  EXPECT_EQ(kind([](FakeProvider& p) { p.grants.max_inline_data = 32; }), RefusalKind::Limited);
  EXPECT_EQ(kind([](FakeProvider& p) {
              for (testkit::FakeDevice& device : p.fakes)
                for (testkit::FakePort& port : device.ports) port.gids.clear();
            }),
            RefusalKind::NoAddress);
}

}  // namespace
}  // namespace mesh::verbs
