#include "src/topo/pairing.h"

#include <gtest/gtest.h>

namespace mesh::topo {
namespace {

SubnetMember member(const char* text, int prefix_len) {
  return {*SocketAddress::from_text(text), prefix_len};
}

TEST(Subnet, PrefixDecides) {
  EXPECT_TRUE(same_subnet(member("10.0.12.1", 24), member("10.0.12.200", 24)));
  EXPECT_FALSE(same_subnet(member("10.0.12.1", 24), member("10.0.13.1", 24)));
  EXPECT_TRUE(same_subnet(member("10.0.12.1", 23), member("10.0.13.1", 23)));
  EXPECT_TRUE(same_subnet(member("1.2.3.4", 0), member("200.2.3.4", 0)));
}

TEST(Subnet, PointToPointPrefixes) {
  EXPECT_TRUE(same_subnet(member("10.0.0.1", 30), member("10.0.0.2", 30)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 30), member("10.0.0.5", 30)));
  EXPECT_TRUE(same_subnet(member("10.0.0.4", 31), member("10.0.0.5", 31)));
  EXPECT_FALSE(same_subnet(member("10.0.0.5", 31), member("10.0.0.6", 31)));
  EXPECT_FALSE(same_subnet(member("10.0.0.4", 32), member("10.0.0.5", 32)));
  EXPECT_TRUE(same_subnet(member("10.0.0.4", 32), member("10.0.0.4", 32)));
  EXPECT_TRUE(same_subnet(member("2001:db8::2", 127), member("2001:db8::3", 127)));
  EXPECT_FALSE(same_subnet(member("2001:db8::1", 127), member("2001:db8::2", 127)));
}

TEST(Subnet, BothSidesMustAgree) {
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 16), member("10.0.5.1", 24)));
  EXPECT_FALSE(same_subnet(member("10.0.5.1", 24), member("10.0.0.1", 16)));
  EXPECT_TRUE(same_subnet(member("10.0.5.1", 16), member("10.0.5.2", 24)));
}

TEST(Subnet, FamiliesNeverMixAndIpv6Counts) {
  EXPECT_TRUE(same_subnet(member("2001:db8:0:1::1", 64), member("2001:db8:0:1::ffff", 64)));
  EXPECT_FALSE(same_subnet(member("2001:db8:0:1::1", 64), member("2001:db8:0:2::1", 64)));
  EXPECT_TRUE(same_subnet(member("fe80::1", 64), member("fe80::2", 64)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 0), member("2001:db8::1", 0)));
}

TEST(Subnet, PrefixOutOfRangeReachesNobody) {
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 33), member("10.0.0.1", 33)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", -1), member("10.0.0.1", 24)));
  EXPECT_FALSE(same_subnet({}, {}));
}

TEST(Subnet, TextIsTheNetwork) {
  EXPECT_EQ(subnet_text(member("10.0.12.7", 24)), "10.0.12.0/24");
  EXPECT_EQ(subnet_text(member("10.0.12.7", 30)), "10.0.12.4/30");
  EXPECT_EQ(subnet_text(member("2001:db8:0:1::9", 64)), "2001:db8:0:1::/64");
  EXPECT_EQ(subnet_text(member("fe80::1%lo", 64)), "fe80::/64");
}

}  // namespace
}  // namespace mesh::topo
