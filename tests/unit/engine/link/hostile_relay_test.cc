// Hostile callers that ask this host to relay: unauthenticated connections without the ticket, and
// a member of the job that has it. Forged orders are refused and counted, an order that is repeated
// or out of order ends the connection, rings and queue pairs stay within their bounds, and nothing
// is left.
#include "tests/unit/engine/link/hostile_relay.h"
#include "engine/link/relay/relay_service.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

using engine::AskPeers, engine::Chain, engine::Chained, engine::Cut, engine::Join, engine::Joined,
    engine::MessageType, engine::PeersAre, testkit::Bed, testkit::hop_of, testkit::HostileRelay,
    testkit::RawPeer;

TEST_F(HostileRelay, WithoutTheTicketNothingIsAnswered) {
  engine::Id128 guessed = ticket_;
  guessed[15] ^= 1;
  for (const engine::Id128& shown : {guessed, engine::Id128{}}) {
    const auto asks = caller();
    asks->say(AskPeers{.ticket = shown});
    expect_dropped(*asks);
    Chain forged = order(1);
    forged.ticket = shown;
    const auto orders = caller();
    orders->say(forged);
    expect_dropped(*orders);
  }
  const auto joins = caller(), cuts = caller();
  joins->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(2)});
  expect_dropped(*joins);
  cuts->say(Cut{.chain = 1});
  expect_dropped(*cuts);
}

TEST_F(HostileRelay, AnotherVersionEndsTheConnection) {
  const auto from = caller();
  engine::Bytes frame = encode(engine::FrameHeader{}, order(1));
  frame[4] ^= std::byte{1};  // a byte of the version, behind the magic
  from->send(frame);
  EXPECT_TRUE(from->ended());
}

TEST_F(HostileRelay, OrdersThatCannotBeFilledAreAnsweredByName) {
  const auto from = caller();
  Chain asked = order(1);
  asked.far_rail = 7;
  EXPECT_EQ(why_not(*from, asked), "host b: rail 7 was asked for; it has 0 to 1");
  asked = order(2);
  asked.near_address = engine::kRailAddressesMax - 1;
  EXPECT_EQ(why_not(*from, asked), "host b: address 7 of n0:1 was asked for; it has 0 to 0");
  asked = order(3);
  asked.sizes.sq_depth = 65536;
  EXPECT_EQ(why_not(*from, asked),
            "host b: rings of 65536 slots were asked for; the limit is 16384");
  asked = order(4);
  asked.sizes.wr_bytes = 1 << 30;
  EXPECT_EQ(why_not(*from, asked),
            "host b: work requests of 1073741824 bytes were asked for; the limit is 16777216");
  asked = order(5);
  asked.sizes.qps = 17;
  asked.sizes.wr_bytes = 16 << 20;
  EXPECT_NE(why_not(*from, asked).find("the limit is 536870912 (NCCL_MESH_RELAY_BYTES)"),
            std::string::npos);
  EXPECT_EQ(bed_.stats(1).queue_pairs, queue_pairs_);
  EXPECT_EQ(relay().ring_bytes, 0u);
}

TEST_F(HostileRelay, ChainsAreBoundedWhoeverAsks) {
  std::vector<std::unique_ptr<RawPeer>> callers;
  for (std::size_t i = 0; i < engine::kCarriedMax; ++i) {
    if (i % 16 == 0) callers.push_back(caller());
    callers.back()->say(order(1 + i));
    const auto answer = callers.back()->hear<Chained>(MessageType::Chained);
    ASSERT_TRUE(answer && answer->result == Errc::Ok) << i << log_.joined();
    ASSERT_LE(relay().ring_bytes, 512u << 20);
  }
  const std::uint64_t each_bytes = relay().ring_bytes / engine::kCarriedMax;
  EXPECT_EQ(each_bytes, HostileRelay::kRingBytes);
  EXPECT_EQ(why_not(*callers.front(), order(1000)),
            "host b: it carries 128 paths already, which is the limit");
  callers.clear();
}

TEST_F(HostileRelay, ANumberIsUsedOnce) {
  const auto from = caller();
  from->say(order(1));
  ASSERT_TRUE(from->hear<Chained>(MessageType::Chained));
  from->say(order(1));
  expect_dropped(*from);
}

TEST_F(HostileRelay, AJoinFitsItsChainOrEndsTheConnection) {
  for (const std::size_t queue_pairs : {std::size_t{1}, std::size_t{3}}) {
    const auto from = caller();
    from->say(order(1));
    ASSERT_TRUE(from->hear<Chained>(MessageType::Chained));
    from->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(queue_pairs)});
    expect_dropped(*from);
  }
}

TEST_F(HostileRelay, ANeighbourThatCannotBeReachedIsSaidAndNoMoreIsDone) {
  const auto from = caller();
  from->say(order(1));
  ASSERT_TRUE(from->hear<Chained>(MessageType::Chained));
  from->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(2)});
  const auto answer = from->hear<Joined>(MessageType::Joined);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result, Errc::Unreachable);
  EXPECT_EQ(relay().ring_bytes, 0u);
  from->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(2)});
  from->say(AskPeers{.ticket = ticket_});
  EXPECT_TRUE(from->hear<PeersAre>(MessageType::PeersAre)) << "still heard";
}

TEST_F(HostileRelay, WhatIsNotThereIsCutAndJoinedInVain) {
  const auto from = caller();
  from->say(order(1));
  ASSERT_TRUE(from->hear<Chained>(MessageType::Chained));
  for (const std::uint64_t number : {7u, 1u, 1u, 0u}) from->say(Cut{.chain = number});
  from->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(2)});
  from->say(AskPeers{.ticket = ticket_});
  EXPECT_TRUE(from->hear<PeersAre>(MessageType::PeersAre)) << "still heard";
  EXPECT_EQ(relay().refused_frames, 0u);
  EXPECT_EQ(bed_.stats(1).queue_pairs, queue_pairs_);
}

// Sends five messages about one chain in every order, on one connection for each order.
TEST_F(HostileRelay, EveryOrderOfMessagesEndsWithNothingLeft) {
  std::array<int, 5> turns{0, 1, 2, 3, 4};
  int orders = 0;
  do {
    const auto from = caller();
    from->say(AskPeers{.ticket = ticket_});
    try {
      for (const int turn : turns) {
        switch (turn) {
          case 0: from->say(order(1)); break;
          case 1: from->say(Join{.chain = 1, .near = hop_of(2), .far = hop_of(2)}); break;
          case 2: from->say(Cut{.chain = 1}); break;
          case 3: from->say(Cut{.chain = 1, .text = "again"}); break;
          case 4: from->say(order(2)); break;
        }
        bed_.rounds(orders % 3);
      }
    } catch (const std::exception&) {
      // the host has ended the connection, as it should
    }
    bed_.rounds(20);
    EXPECT_LE(relay().ring_bytes, 2 * HostileRelay::kRingBytes);
    ++orders;
  } while (std::next_permutation(turns.begin(), turns.end()));
  EXPECT_EQ(orders, 120);
}

TEST(HostileRelayRefused, AHostThatTakesNoPartHasNoTicketToShow) {
  Bed bed{{.fabric = testkit::kLine, .rails = "auto", .relay = 0}};
  HandleBytes handle{};
  ASSERT_TRUE(bed.hosts[1].engine->listen(*bed.hosts[1].contexts[0], 0, handle).ok());
  RawPeer member(bed, handle), from(bed, handle);
  ASSERT_TRUE(member.shake_hands());
  EXPECT_EQ(member.welcome->ticket, engine::Id128{});
  from.say(Chain{.ticket = {}, .chain = 1, .sizes = {.qps = 1, .sq_depth = 16}});
  EXPECT_TRUE(from.ended());
  EXPECT_EQ(bed.hosts[1].engine->snapshot().relay.refused_frames, 1u);
}

}  // namespace
}  // namespace mesh
