// A management network with nothing but IPv6 link-local addresses. They have a meaning only
// together with an interface, which no peer can name. Runs in a network namespace of the test's
// own.

#include "engine/control/control_listener.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/patience.h"

#include <net/route.h>

namespace mesh {
namespace {

// Returns true if the calling thread's network namespace delivers packets for this address of this
// interface to itself. The address is 32 hexadecimal digits, as the kernel lists it.
bool delivers_to_itself(const std::string& address, const std::string& interface) {
  std::ifstream routes("/proc/thread-self/net/ipv6_route");
  std::string to, prefix, from, from_prefix, by, metric, holders, uses, flags, name;
  while (routes >> to >> prefix >> from >> from_prefix >> by >> metric >> holders >> uses >>
         flags >> name) {
    if (to == address && prefix == "80" && name == interface &&
        (std::stoul(flags, nullptr, 16) & RTF_LOCAL) != 0)
      return true;
  }
  return false;
}

// Waits for the kernel's local routes to the two addresses. The kernel makes them on its own
// thread, some time after it has confirmed the addresses. A dial before that looks for the address
// on the cable, where no host has it, and gets no answer for seconds.
bool both_ends_deliver() {
  return testkit::wait_until([] {
    return delivers_to_itself("fe80000000000000000000000000000a", "mesh0") &&
           delivers_to_itself("fe80000000000000000000000000000b", "mesh1");
  });
}

// Runs the function on a thread with its own network namespace, which has a veth cable to itself
// with a link-local address on each end. Returns what this machine lacks for that, or an empty
// text.
std::string in_link_local_network(const std::function<void()>& run) {
  std::string missing;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      missing = std::string("no network namespace may be made: ") + std::strerror(errno);
      return;
    }
    constexpr const char* kMake =
        "ip link add mesh0 type veth peer name mesh1 && ip link set mesh0 addrgenmode none && ip "
        "link set mesh1 addrgenmode none "
        "&& "
        "ip link set lo up && ip link set mesh0 up && ip link set mesh1 up && ip -6 addr add "
        "fe80::a/64 dev mesh0 nodad && "
        "ip -6 addr add fe80::b/64 dev mesh1 nodad";
    if (std::system(kMake) != 0) {
      missing = "iproute2 makes no veth with link-local addresses here";
      return;
    }
    ASSERT_TRUE(both_ends_deliver()) << "the kernel has made no local route to its own addresses";
    run();
  }).join();
  return missing;
}

TEST(LinkLocalNetwork, CarriesHandshakesAndLostConnections) {
  const std::string missing = in_link_local_network([] {
    testkit::Bed bed({.socket_ifname = "mesh0"});
    const testkit::LogCapture log;
    testkit::Talk talk(bed, testkit::kA, testkit::kB, 4096);
    talk.exchange(4096);
    EXPECT_TRUE(log.warned("", 0));
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(LinkLocalNetwork, ListensOnAllInterfacesThatAreNamed) {
  const std::string missing = in_link_local_network([] {
    engine::ControlPlaneOptions options;
    options.socket_ifname = "mesh0,mesh1";
    const auto listener = engine::open_listener(options);
    ASSERT_TRUE(listener.ok());
    EXPECT_EQ(listener->addresses.size(), 2u);
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(LinkLocalNetwork, NeedsNoSetting) {
  const std::string missing = in_link_local_network([] {
    testkit::Bed bed({.socket_ifname = ""});
    testkit::Talk talk(bed, testkit::kA, testkit::kB, 4096);
    talk.exchange(4096);
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

}  // namespace
}  // namespace mesh
