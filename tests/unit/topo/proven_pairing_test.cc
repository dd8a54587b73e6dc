// The pairing where addresses leave a choice: which pairs are doubtful, and what a proof changes.

#include "src/topo/pairing.h"

#include "tests/prelude.h"
#include "tests/unit/topo/rail_ends.h"

namespace mesh::topo {

inline void PrintTo(const WirePair& pair, std::ostream* out) {
  *out << pair.local << "-" << pair.peer;
}

namespace {

using testkit::address_of, testkit::ib_rail, testkit::Pairs, testkit::rail, testkit::rail_with,
    testkit::Rails;
using Wires = std::vector<WirePair>;

const Wires kAll{{0, 0}, {0, 1}, {1, 0}, {1, 1}};

Rails of_subnet(const char* first, const char* second) { return {rail(first), rail(second)}; }
const Rails kA = of_subnet("192.168.1.1", "192.168.1.2");
const Rails kB = of_subnet("192.168.1.3", "192.168.1.4");
const Rails kLocalA{rail("169.254.12.1", 16), rail("169.254.13.1", 16)};
const Rails kLocalB{rail("169.254.23.2", 16), rail("169.254.12.2", 16)};

Wires doubtful(const Rails& locals, const Rails& peers) { return doubtful_pairs(locals, peers); }

Pairs paired(const Rails& locals, const Rails& peers, const CableProof& proof) {
  return pair_rails(locals, peers, {.proof = &proof});
}

TEST(ProvenPairing, ASharedSubnetIsDoubtful) {
  EXPECT_EQ(doubtful(kA, kB), kAll);
  EXPECT_EQ(doubtful(kLocalA, kLocalB), kAll);
  EXPECT_EQ(doubtful(kA, {rail("192.168.1.9")}), (Wires{{0, 0}, {1, 0}}));
  const Rails global6{rail("fd00::1", 64), rail("fd00::2", 64)};
  EXPECT_EQ(doubtful(global6, {rail("fd00::3", 64), rail("fd00::4", 64)}), kAll);
}

// A clone of a host has its addresses on all ports, and a port has no cable to one of its address.
TEST(ProvenPairing, TwoHostsWithEqualAddressesAreNotOneHost) {
  EXPECT_EQ(pair_rails(kA, kA, {.sides = Sides::TwoHosts}), (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(doubtful_pairs(kA, kA, Sides::TwoHosts), (Wires{{0, 1}, {1, 0}}))
      << "both pairs are in one subnet, which may be on several cables";
  const Rails three{rail("192.168.1.1"), rail("192.168.1.2"), rail("192.168.1.3")};
  const Wires asked = doubtful_pairs(three, three, Sides::TwoHosts);
  EXPECT_EQ(asked, (Wires{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}));
  const CableProof proof{.asked = asked, .met = {{0, 2}, {1, 0}}};
  EXPECT_EQ(pair_rails(three, three, {.proof = &proof, .sides = Sides::TwoHosts}),
            (Pairs{{0, 2}, {1, 0}}));
  const Rails alone{rail("10.0.0.1")};
  EXPECT_EQ(pair_rails(alone, alone, {.sides = Sides::TwoHosts}), Pairs{});
}

TEST(ProvenPairing, AddressesThatLeaveNoChoiceAreNotDoubtful) {
  const Rails a = of_subnet("10.0.12.1", "10.0.13.1"), b = of_subnet("10.0.13.2", "10.0.12.2");
  EXPECT_EQ(doubtful(a, b), Wires{}) << "each cable has its subnet";
  EXPECT_EQ(doubtful({rail("10.0.12.1")}, {rail("10.0.12.2")}), Wires{});
  EXPECT_EQ(doubtful({rail("169.254.1.1", 16)}, {rail("169.254.1.2", 16)}), Wires{});
  EXPECT_EQ(doubtful(a, of_subnet("10.7.0.1", "10.8.0.1")), Wires{}) << "nothing meets";
  EXPECT_EQ(doubtful(kA, kA), Wires{}) << "a host meets itself";
  EXPECT_EQ(
      doubtful({ib_rail("fe80::1"), ib_rail("fe80::2")}, {ib_rail("fe80::3"), ib_rail("fe80::4")}),
      Wires{})
      << "within one InfiniBand subnet everything meets";
  // Both rails of each host have a wider subnet, too, but each cable one of its own.
  const auto with_wide = [](const char* cable, const char* wide) {
    return rail_with({address_of(cable), address_of(wide)});
  };
  EXPECT_EQ(doubtful({with_wide("10.0.12.1", "10.9.0.1"), with_wide("10.0.13.1", "10.9.0.2")},
                     {with_wide("10.0.13.2", "10.9.0.3"), with_wide("10.0.12.2", "10.9.0.4")}),
            Wires{});
}

// Two leaves of a star whose cables are all in one subnet have one port each in it.
TEST(ProvenPairing, ASubnetThatIsKnownToBeOnSeveralCablesIsDoubtful) {
  Rails leaf{rail("10.0.12.1")}, local{rail("169.254.1.1", 16)};
  leaf[0].shared = local[0].shared = true;
  EXPECT_EQ(doubtful(leaf, {rail("10.0.12.2")}), (Wires{{0, 0}}));
  EXPECT_EQ(doubtful({rail("10.0.12.2")}, leaf), (Wires{{0, 0}}));
  EXPECT_EQ(doubtful(local, {rail("169.254.1.2", 16)}), (Wires{{0, 0}}));
  EXPECT_EQ(doubtful(leaf, {rail("10.0.13.2")}), Wires{}) << "they share no subnet";
}

// The cable may be that of the ports that are down, so those that are up are not its ends for sure.
TEST(ProvenPairing, APortThatIsDownIsDoubtfulAsWell) {
  Rails a = kA, b = kB;
  a[0].up = b[1].up = false;
  EXPECT_EQ(doubtful(a, b), kAll);
}

TEST(ProvenPairing, LinkLocalAddressesBesideOthersAreDoubtful) {
  const Rails a{rail("10.0.12.1"), rail("169.254.12.1", 16)};
  const Rails b{rail("10.0.12.2"), rail("169.254.12.2", 16)};
  EXPECT_EQ(doubtful(a, b), (Wires{{1, 1}}));
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 0}})) << "without proof they are left out";
  EXPECT_EQ(paired(a, b, {.asked = {{1, 1}}, .met = {{1, 1}}}), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_EQ(paired(a, b, {.asked = {{1, 1}}, .met = {}}), (Pairs{{0, 0}}));
}

TEST(ProvenPairing, OnlyProvenPairsMeetIfSomeAre) {
  for (const auto& [a, b] : {std::pair(kA, kB), std::pair(kLocalA, kLocalB)}) {
    EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 0}, {1, 1}}));
    EXPECT_EQ(paired(a, b, {.asked = kAll, .met = {{0, 1}}}), (Pairs{{0, 1}})) << "a triangle";
    EXPECT_EQ(paired(a, b, {.asked = kAll, .met = {{0, 1}, {1, 0}}}), (Pairs{{0, 1}, {1, 0}}));
    EXPECT_EQ(paired(a, b, {.asked = kAll, .met = kAll}), (Pairs{{0, 0}, {1, 1}})) << "a switch";
  }
}

TEST(ProvenPairing, WithoutAnyAnswerTheirPlaceDecides) {
  EXPECT_EQ(paired(kA, kB, {.asked = kAll, .met = {}}), (Pairs{{0, 0}, {1, 1}}));
}

TEST(ProvenPairing, RailsThatCouldNotBeAskedTakeWhatIsLeft) {
  EXPECT_EQ(paired(kA, kB, {.asked = {{0, 0}, {0, 1}}, .met = {{0, 1}}}), (Pairs{{0, 1}, {1, 0}}));
}

// On a switch a port has several counterparts, and one that is down keeps its place.
TEST(ProvenPairing, APortThatIsDownTakesItsLikeOnASwitch) {
  Rails b = kB;
  for (std::uint32_t i = 0; i < 2; ++i) b[i].identity = i;
  Rails a = kA;
  for (std::uint32_t i = 0; i < 2; ++i) a[i].identity = i;
  b[1].up = false;
  const CableProof proof{.asked = {{0, 0}, {1, 0}}, .met = {{0, 0}, {1, 0}}};
  EXPECT_EQ(paired(a, b, proof), (Pairs{{0, 0}, {1, 1}}));
}

TEST(ProvenPairing, ASilentPairIsNotTakenForARoutedOne) {
  const CableProof proof{.asked = kAll, .met = {{0, 1}}};
  const AskReach all_reach = [](const RailPair&) { return Reach::Yes; };
  EXPECT_EQ(pair_rails(kA, kB, {.reach = all_reach, .proof = &proof}), (Pairs{{0, 1}}));
}

}  // namespace
}  // namespace mesh::topo
