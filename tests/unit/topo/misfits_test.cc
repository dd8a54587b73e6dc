// Rails that share a subnet and cannot exchange a packet.
#include "src/topo/pairing.h"

#include "tests/prelude.h"
#include "tests/unit/topo/rail_ends.h"

namespace mesh::topo {
namespace {

using testkit::address_of, testkit::ib_rail, testkit::Pairs, testkit::rail, testkit::rail_with,
    testkit::Rails;

RailEnd of_packets(const char* address, std::uint8_t packets) {
  RailEnd end = rail(address);
  end.packets = packets;
  return end;
}

RailEnd in_partition(const char* address, std::uint16_t partition) {
  RailEnd end = ib_rail(address);
  end.partition = partition;
  return end;
}

std::vector<Misfit> why(const Rails& locals, const Rails& peers, Sides sides = Sides::TwoHosts) {
  std::vector<Misfit> found;
  for (const MisfitPair& each : misfits(locals, peers, {}, sides)) found.push_back(each.why);
  return found;
}

using Why = std::vector<Misfit>;

TEST(Misfits, RailsOfTwoKindsOfPacketsDoNotPair) {
  const Rails a{of_packets("10.0.12.1", 1), of_packets("10.0.13.1", 2)};
  const Rails b{of_packets("10.0.12.2", 2), of_packets("10.0.13.2", 2)};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{1, 1}}));
  EXPECT_EQ(why({a[0]}, {b[0]}), Why{Misfit::Packets});
  EXPECT_EQ(why({a[1]}, {b[1]}), Why{});
  const CableProof proof{.asked = {{0, 0}}, .met = {{0, 0}}};
  EXPECT_EQ(pair_rails(Rails{a[0]}, Rails{b[0]}, {.proof = &proof}), Pairs{});
  const AskReach all = [](const RailPair&) { return Reach::Yes; };
  EXPECT_EQ(pair_rails(Rails{of_packets("10.1.0.1", 1)}, Rails{of_packets("10.2.0.1", 2)},
                       {.reach = all}),
            Pairs{})
      << "nor across a router";
}

// Two limited members of a partition do not hear each other.
TEST(Misfits, RailsOfTwoPartitionsDoNotPair) {
  const RailEnd full = in_partition("fe80::1", 0xffff), limited = in_partition("fe80::2", 0x7fff);
  const RailEnd other = in_partition("fe80::3", 0x8001);
  EXPECT_EQ(pair_rails(Rails{full}, Rails{full}).size(), 1u);
  EXPECT_EQ(pair_rails(Rails{full}, Rails{limited}).size(), 1u);
  EXPECT_EQ(pair_rails(Rails{limited}, Rails{limited}), Pairs{});
  EXPECT_EQ(pair_rails(Rails{full}, Rails{other}), Pairs{});
  EXPECT_EQ(why({full}, {limited}), Why{});
  EXPECT_EQ(why({limited}, {limited}), Why{Misfit::Partitions});
  EXPECT_EQ(why({full}, {other}), Why{Misfit::Partitions});
  EXPECT_EQ(why({full}, {in_partition("fec0::1", 0x8001)}), Why{}) << "another subnet";
}

TEST(Misfits, OneAddressOnBothEndsIsACopiedSetting) {
  const Rails a{rail("192.168.177.11")}, b{rail("192.168.177.11")};
  EXPECT_EQ(pair_rails(a, b, {.sides = Sides::TwoHosts}), Pairs{});
  EXPECT_EQ(why(a, b), Why{Misfit::EqualAddresses});
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 0}})) << "one host, as far as is known";
  EXPECT_EQ(why(a, b, Sides::Unknown), Why{});
  const Rails halves_a{rail("192.168.177.11"), rail("192.168.178.11")};
  const Rails halves_b{rail("192.168.177.11"), rail("192.168.178.12")};
  const Pairs pairs = pair_rails(halves_a, halves_b, {.sides = Sides::TwoHosts});
  EXPECT_EQ(pairs, (Pairs{{1, 1}}));
  const std::vector<MisfitPair> found = misfits(halves_a, halves_b, pairs, Sides::TwoHosts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pair, (RailPair{0, 0}));
  EXPECT_EQ(found[0].why, Misfit::EqualAddresses);
}

TEST(Misfits, AnAddressThatIsNotCopiedIsEnough) {
  const Rails a{rail_with({address_of("10.0.0.1"), address_of("10.1.0.1")})};
  const Rails b{rail_with({address_of("10.0.0.1"), address_of("10.1.0.2")})};
  EXPECT_EQ(why(a, b), Why{});
}

}  // namespace
}  // namespace mesh::topo
