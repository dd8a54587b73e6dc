// A card that is gone from its slot and comes back as a new device carries its paths again.

#include "engine/data/peer_link.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::LogCapture, testkit::Talk;

constexpr std::size_t kBytes = 4 << 20;
constexpr std::size_t kSmall = 4096;

// The card is that of one host; the port at the other end of its cable is down meanwhile.
class CardReturns : public testing::TestWithParam<std::size_t> {
 protected:
  CardReturns() { set_log_level(LogLevel::Info); }

  void take_card(Bed& bed, const char* nic) {
    const std::size_t host = GetParam();
    ASSERT_TRUE(bed.hosts[host].provider->faults().arm(replaced(nic), bed.now_ns()).ok());
    ASSERT_TRUE(bed.hosts[1 - host].provider->faults().arm(down(nic), bed.now_ns()).ok());
  }
  void bring_card(Bed& bed, const char* nic) {
    const std::size_t host = GetParam();
    bed.hosts[host].provider->faults().lift(replaced(nic));
    bed.hosts[1 - host].provider->faults().lift(down(nic));
  }
  static soft::Fault replaced(const char* nic) {
    return {.kind = soft::FaultKind::CardReplaced, .nic = nic};
  }
  static soft::Fault down(const char* nic) {
    return {.kind = soft::FaultKind::PortDown, .nic = nic};
  }
  // Returns the bytes that a message of kBytes has gone over the NIC with.
  static std::uint64_t carried(Bed& bed, Talk& talk, const char* nic) {
    const std::uint64_t before = bed.hosts[0].provider->counters(nic).bytes;
    talk.exchange(kBytes);
    return bed.hosts[0].provider->counters(nic).bytes - before;
  }
  static bool until_up(Bed& bed, const LogCapture& log, int paths) {
    bed.tick_ns = 100'000;
    const bool up = bed.until([&] { return log.count(LogLevel::Info, "is back after") >= paths; });
    bed.tick_ns = 1000;
    return up;
  }
};

TEST_P(CardReturns, ItsPathCarriesItsShareAgain) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kBytes);
  talk.exchange(kBytes);
  for (int times = 1; times <= 20; ++times) {
    const LogCapture log;
    take_card(bed, "n1");
    bed.rounds(10);
    talk.exchange(kBytes);
    talk.exchange(kSmall);
    bed.tick_ns = 1'000'000;
    bed.rounds(2'000);
    bring_card(bed, "n1");
    const std::uint64_t lifted_ns = bed.now_ns();
    ASSERT_TRUE(until_up(bed, log, 2)) << times << "\n" << log.joined();
    EXPECT_LT(bed.now_ns() - lifted_ns, 5'000'000'000u) << times;
    ASSERT_GE(carried(bed, talk, "n1"), kBytes / 4) << times;
    talk.exchange(kSmall);
  }
}

TEST_P(CardReturns, TheOnlyPathComesBackAndItsRequestsGoOn) {
  Bed bed({.fabric = testkit::kCable});
  Talk talk(bed, kA, kB, kBytes);
  talk.exchange(kBytes);
  for (int times = 1; times <= 3; ++times) {
    const LogCapture log;
    const auto receiving = talk.receive({.bytes = kBytes});
    bed.rounds(2);
    const auto sending = talk.send({.bytes = kBytes});
    take_card(bed, "n0");
    bed.rounds(10);
    bring_card(bed, "n0");
    ASSERT_TRUE(until_up(bed, log, 2)) << times << "\n" << log.joined();
    ASSERT_TRUE(bed.finish_all({*sending, *receiving})) << log.joined();
    EXPECT_TRUE(talk.holds(0, 0, kBytes));
    talk.exchange(kSmall);
  }
}

// Entries that were written before hold keys of the former card: they must not count as new ones.
TEST_P(CardReturns, TheKeysOfAReceiversNewCardAreAnotherSet) {
  Bed bed({.fabric = testkit::kCable});
  Talk talk(bed, kA, kB, kBytes);
  talk.exchange(kSmall);
  const engine::PathSet& at_sender = talk.pair.send->link.paths();
  const engine::PathSet& at_receiver = talk.pair.receive->link.paths();
  const std::uint32_t before = at_receiver.key_set();
  const LogCapture log;
  take_card(bed, "n0");
  bed.rounds(10);
  bring_card(bed, "n0");
  ASSERT_TRUE(until_up(bed, log, 2)) << log.joined();
  talk.exchange(kSmall);
  const bool of_receiver = GetParam() == 1;
  EXPECT_EQ(at_receiver.key_set() != before, of_receiver);
  EXPECT_EQ(at_sender.key_set(), at_receiver.key_set());
}

TEST_P(CardReturns, WhatComesWhileTheCardIsGoneUsesTheNewOneToo) {
  Bed bed({.fabric = testkit::kHalves, .contexts = 2});
  Talk talk(bed, kA, kB, kBytes);
  talk.exchange(kBytes);
  const LogCapture log;
  take_card(bed, "n1");
  bed.rounds(10);
  Talk channel(bed, kA, kB, kBytes);  // memory, and a channel of the link
  channel.exchange(kBytes);
  Talk link(bed, {0, 1}, {1, 1}, kBytes);  // a link of another communicator
  link.exchange(kBytes);
  bed.tick_ns = 100'000;
  bed.rounds(20'000);
  bring_card(bed, "n1");
  ASSERT_TRUE(until_up(bed, log, 2)) << log.joined();
  bed.tick_ns = 100'000;
  bed.rounds(30'000);
  for (Talk* const each : {&talk, &channel, &link})
    EXPECT_GE(carried(bed, *each, "n1"), kBytes / 4);
  for (Talk* const each : {&talk, &channel, &link}) each->end();
  EXPECT_TRUE(bed.empties());
}

TEST_P(CardReturns, ALinkThatIsMadeWithoutItsOnlyCardWaitsForTheNewOne) {
  Bed bed({.fabric = testkit::kCable, .contexts = 2});
  Talk talk(bed, kA, kB, kSmall);
  talk.exchange(kSmall);
  const LogCapture log;
  take_card(bed, "n0");
  bed.rounds(10);
  Talk link(bed, {0, 1}, {1, 1}, kBytes);
  const auto receiving = link.receive({.bytes = kBytes});
  bed.rounds(2);
  const auto sending = link.send({.bytes = kBytes});
  bed.rounds(100);
  bring_card(bed, "n0");
  bed.tick_ns = 100'000;
  ASSERT_TRUE(bed.finish_all({*sending, *receiving})) << log.joined();
  EXPECT_TRUE(link.holds(0, 0, kBytes));
  talk.exchange(kSmall);
}

// A receive on a card that is gone does not come back, so its path's fence waits for none.
TEST_P(CardReturns, WhatIsUnderWayGoesOverTheOtherPathAtOnce) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kBytes);
  talk.exchange(kBytes);
  const soft::Fault slow{.kind = soft::FaultKind::WriteDelay, .delay_ns = 1'000'000};
  ASSERT_TRUE(bed.hosts[0].provider->faults().arm(slow, bed.now_ns()).ok());
  for (int rounds = 1; rounds <= 10; ++rounds) {
    const auto receiving = talk.receive({.bytes = kBytes});
    bed.rounds(2);
    const auto sending = talk.send({.bytes = kBytes});
    bed.rounds(rounds);
    const LogCapture log;
    take_card(bed, "n1");
    const std::uint64_t left_ns = bed.now_ns();
    bed.tick_ns = 20'000;
    ASSERT_TRUE(bed.finish_all({*sending, *receiving})) << log.joined();
    EXPECT_LT(bed.now_ns() - left_ns, 200'000'000u) << rounds;
    EXPECT_TRUE(talk.holds(0, 0, kBytes));
    bring_card(bed, "n1");
    ASSERT_TRUE(until_up(bed, log, 2)) << rounds << "\n" << log.joined();
  }
}

// More channels than the keys of one CARD KEYS frame are for.
TEST_P(CardReturns, EachOfManyChannelsGoesOn) {
  constexpr std::size_t kChannels = 1200;
  TransferPolicy policy;
  policy.slots = kSlotsMax;  // so a key is for eight channels
  Bed bed({.fabric = testkit::kCable, .policy = policy});
  std::deque<Talk> channels;
  for (std::size_t i = 0; i < kChannels; ++i) channels.emplace_back(bed, kA, kB, kSmall);
  const LogCapture log;
  take_card(bed, "n0");
  bed.rounds(10);
  bring_card(bed, "n0");
  ASSERT_TRUE(until_up(bed, log, 2)) << log.joined();
  for (Talk& each : channels) each.exchange(kSmall);
}

// a reaches c over b alone. The card of an end, or of the host between, is replaced.
TEST(CardReturnsOfRelays, MessagesGoOnOverTheNewCard) {
  struct Card {
    std::size_t host;
    const char* nic;
  };
  for (const Card& card : {Card{0, "n0"}, Card{1, "n0"}, Card{1, "n1"}, Card{2, "n0"}}) {
    Bed bed({.fabric = testkit::kLine, .rails = "auto"});
    const Talk to_b(bed, kA, kB, kSmall), to_c(bed, kB, {2, 0}, kSmall);
    Talk talk(bed, kA, {2, 0}, kBytes);
    bed.tick_ns = 10'000;
    ASSERT_TRUE(talk.wakes());
    talk.exchange(kBytes);
    for (int times = 0; times < 3; ++times) {
      const soft::Fault gone{.kind = soft::FaultKind::CardReplaced, .nic = card.nic};
      ASSERT_TRUE(bed.hosts[card.host].provider->faults().arm(gone, bed.now_ns()).ok());
      bed.tick_ns = 100'000;
      bed.rounds(2000);
      bed.hosts[card.host].provider->faults().lift(gone);
      talk.exchange(kBytes);
      talk.exchange(kSmall);
      if (HasFailure()) FAIL() << card.host << " " << card.nic << " " << times;
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::size_t>& info) {
  return info.param == 0 ? "OfTheSender" : "OfTheReceiver";
}
INSTANTIATE_TEST_SUITE_P(Cards, CardReturns, testing::Values(0, 1), name_of);

}  // namespace
}  // namespace mesh
