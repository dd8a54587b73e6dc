#include "src/verbs/kernel_route.h"

#include "tests/prelude.h"
#include "tests/unit/verbs/fake_provider.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

namespace mesh::verbs {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* value, std::size_t count) {
  const auto* const raw = static_cast<const std::byte*>(value);
  bytes.insert(bytes.end(), raw, raw + count);
  bytes.resize(NLMSG_ALIGN(bytes.size()));
}

void attribute(Bytes& bytes, std::uint16_t type, const Bytes& value) {
  const rtattr head{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(value.size())),
                    .rta_type = type};
  append(bytes, &head, sizeof head);
  append(bytes, value.data(), value.size());
}

template <typename T>
Bytes raw(const T& value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Builds an answer of the kernel in the format of rtnetlink(7).
Bytes answer_of(unsigned char type, unsigned flags,
                const std::vector<std::pair<std::uint16_t, Bytes>>& attributes) {
  Bytes bytes;
  const nlmsghdr header{
      .nlmsg_len = 0, .nlmsg_type = RTM_NEWROUTE, .nlmsg_flags = 0, .nlmsg_seq = 1, .nlmsg_pid = 0};
  append(bytes, &header, sizeof header);
  rtmsg route{};
  route.rtm_type = type;
  route.rtm_flags = flags;
  append(bytes, &route, sizeof route);
  for (const auto& [kind, value] : attributes) attribute(bytes, kind, value);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes;
}

TEST(KernelRoute, ReadsByWhichDeviceARouteLeaves) {
  const Bytes bytes = answer_of(RTN_UNICAST, 0, {{RTA_OIF, raw(7)}, {RTA_GATEWAY, raw(0x0101u)}});
  const auto own = read_route_answer(bytes, 7);
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(own->unicast && own->through_oif && !own->guessed);
  EXPECT_EQ(own->oif, 7);
  EXPECT_FALSE(read_route_answer(bytes, 8)->through_oif);
}

TEST(KernelRoute, OneOfSeveralWaysIsEnough) {
  Bytes hops;
  for (const int oif : {5, 7}) {
    rtnexthop hop{};
    hop.rtnh_len = sizeof hop;
    hop.rtnh_ifindex = oif;
    append(hops, &hop, sizeof hop);
  }
  const Bytes bytes = answer_of(RTN_UNICAST, 0, {{RTA_MULTIPATH, hops}});
  EXPECT_TRUE(read_route_answer(bytes, 7)->through_oif);
  EXPECT_FALSE(read_route_answer(bytes, 6)->through_oif);
}

TEST(KernelRoute, AGuessIsNoRoute) {
  const Bytes guess = answer_of(RTN_UNICAST, RTM_F_CLONED, {{RTA_OIF, raw(7)}});
  EXPECT_TRUE(read_route_answer(guess, 7)->guessed);
  const Bytes gateway =
      answer_of(RTN_UNICAST, RTM_F_CLONED, {{RTA_OIF, raw(7)}, {RTA_GATEWAY, raw(0x0101u)}});
  EXPECT_FALSE(read_route_answer(gateway, 7)->guessed) << "of a kernel that does not know the flag";
}

TEST(KernelRoute, ARefusalIsRead) {
  EXPECT_FALSE(read_route_answer(answer_of(RTN_BLACKHOLE, 0, {}), 7)->unicast);
  Bytes bytes;
  const nlmsghdr header{.nlmsg_len = NLMSG_LENGTH(sizeof(nlmsgerr)),
                        .nlmsg_type = NLMSG_ERROR,
                        .nlmsg_flags = 0,
                        .nlmsg_seq = 1,
                        .nlmsg_pid = 0};
  append(bytes, &header, sizeof header);
  const nlmsgerr error{.error = -ENETUNREACH, .msg = {}};
  append(bytes, &error, sizeof error);
  EXPECT_EQ(read_route_answer(bytes, 7)->error, ENETUNREACH);
}

TEST(KernelRoute, WhatIsCutShortIsNotBelieved) {
  const Bytes whole = answer_of(RTN_UNICAST, 0, {{RTA_OIF, raw(7)}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_route_answer({whole.data(), size}, 7).has_value()) << size;
  Bytes wrong = whole;
  wrong[NLMSG_HDRLEN + sizeof(rtmsg)] = std::byte{255};  // the length of the attribute
  EXPECT_FALSE(read_route_answer(wrong, 7)->through_oif);
}

// Asks this machine's kernel: addresses on "lo" are its own, and no other host is behind "lo".
TEST(KernelRoute, TheLoopbackLeadsNowhere) {
  GidEntry own = testkit::gid_of(0, "127.0.0.1");
  EXPECT_EQ(kernel_route(own, testkit::gid_bytes("192.0.2.1")).kind, RouteKind::Unknown)
      << "no net device is visible";
  own.netdev = "lo";
  const Route route = kernel_route(own, testkit::gid_bytes("192.0.2.1"));
  EXPECT_NE(route.kind, RouteKind::ByPort);
  EXPECT_EQ(kernel_route(own, testkit::gid_bytes("2001:db8::1")).kind, RouteKind::Unknown)
      << "of another family";
  own.netdev = "no-such-device";
  EXPECT_EQ(kernel_route(own, testkit::gid_bytes("192.0.2.1")).kind, RouteKind::Unknown);
}

}  // namespace
}  // namespace mesh::verbs
