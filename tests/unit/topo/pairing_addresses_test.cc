// The pairing of rails that have several addresses: the common subnet that a path uses.

#include "src/topo/pairing.h"

#include "tests/unit/topo/rail_ends.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace mesh::topo {
namespace {

using testkit::address_of, testkit::rail, testkit::rail_with;
using testkit::Pairs, testkit::Rails;

TEST(Pairing, AnyAddressOfAPortMayBeTheCommonOne) {
  const Rails locals{
      rail_with({address_of("192.168.50.1"), address_of("10.0.12.1"), address_of("fd12::1", 64)})};
  const Rails peers{rail_with({address_of("192.168.60.2"), address_of("172.16.0.2"),
                               address_of("fd12::2", 64), address_of("10.0.12.2")})};
  EXPECT_EQ(pair_rails(locals, peers), (Pairs{{0, 0, 1, 3}}))
      << "the first of ours that the peer shares";
  EXPECT_EQ(pair_rails(peers, locals), (Pairs{{0, 0, 2, 2}}));
  EXPECT_EQ(no_common_subnet_text(locals, peers),
            "the first has 192.168.50.0/24, 10.0.12.0/24, fd12::/64; the second 192.168.60.0/24, "
            "172.16.0.0/24, fd12::/64, "
            "10.0.12.0/24");
}

RailEnd two(const char* cable, int prefix_len, const char* wide, bool wide_first = false) {
  std::vector<RailAddress> addresses{address_of(cable, prefix_len), address_of(wide)};
  if (wide_first) std::swap(addresses[0], addresses[1]);
  return rail_with(std::move(addresses));
}

TEST(Pairing, ACablesOwnSubnetGoesBeforeAWiderOneThatAllShare) {
  const Rails a{two("10.0.12.1", 30, "10.9.0.1"), two("10.0.13.1", 30, "10.9.0.2")};
  const Rails b{two("10.0.13.2", 30, "10.9.0.3"), two("10.0.12.2", 30, "10.9.0.4")};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  EXPECT_EQ(pair_rails(b, a), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  // Neither the order of the addresses nor the prefix lengths decide.
  const Rails c{two("10.0.12.1", 24, "10.9.0.1", true), two("10.0.13.1", 24, "10.9.0.2", true)};
  const Rails d{two("10.0.13.2", 24, "10.9.0.3", true), two("10.0.12.2", 24, "10.9.0.4", true)};
  EXPECT_EQ(pair_rails(c, d), (Pairs{{0, 1, 1, 1}, {1, 0, 1, 1}}));
  // Only one cable has a subnet of its own, and its rails are not used for other pairs.
  EXPECT_EQ(pair_rails(Rails{rail("10.9.0.1"), c[1]}, Rails{d[0], rail("10.9.0.4")}),
            (Pairs{{0, 1, 0, 0}, {1, 0, 1, 1}}));
}

TEST(Pairing, ACopiedAddressIsNoWay) {
  const RailAddress copied = address_of("192.168.100.1");
  const Rails a{rail_with({copied, address_of("10.0.12.1")}),
                rail_with({copied, address_of("10.0.13.1")})};
  const Rails b{rail_with({copied, address_of("10.0.13.2")}),
                rail_with({copied, address_of("10.0.12.2")})};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 1, 1, 1}, {1, 0, 1, 1}}));
  EXPECT_EQ(pair_rails(Rails{a[0]}, Rails{rail_with({copied, address_of("192.168.100.2")})}),
            (Pairs{{0, 0, 0, 1}}));
  EXPECT_EQ(pair_rails(Rails{rail_with({copied, address_of("fe80::1", 64)})},
                       Rails{rail_with({copied, address_of("fe80::2", 64)})}),
            (Pairs{{0, 0, 1, 1}}))
      << "a link-local address may lead there";
  // The peer process was given fewer rails of its host.
  EXPECT_EQ(pair_rails(a, Rails{rail_with({copied})}), (Pairs{{0, 0}, {1, 0}}));
}

}  // namespace
}  // namespace mesh::topo
