// The guarantees of isend, irecv and test that NCCL relies on, over the engine's own classes on the
// software fabric.

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "engine/message/wire.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::delay_writes, testkit::kA, testkit::kB, testkit::kKiB, testkit::kMs,
    testkit::lose_path, testkit::Talk;

// The immediate tells the number of up to fifteen stripes. A record tells larger numbers, and
// stripes of several work requests.
TEST(Message, StripesOfAnyNumberArriveWhole) {
  const std::size_t size = 2 << 20;
  for (const std::uint32_t qps :
       {1u, 2u, engine::kStripesTold, engine::kStripesTold + 1, kQpsMax}) {
    for (const std::uint64_t wr_bytes : {std::uint64_t{65536}, std::uint64_t{size}}) {
      TransferPolicy policy;
      policy.qps = qps;
      policy.wr_bytes = wr_bytes;
      policy.stripe_bytes = 65536;
      Bed bed({.policy = policy});
      Talk talk(bed, kA, kB, size);
      for (const std::size_t bytes :
           {size, size - 1, size / 2, std::size_t{65537}, std::size_t{65536}})
        talk.exchange(bytes);
      ASSERT_FALSE(HasFailure()) << qps << " queue pairs, work requests of " << wr_bytes
                                 << " bytes";
    }
  }
}

TEST(Message, OneWorkRequestAStripeAndNoneBeside) {
  const auto sent = [](std::uint32_t stripes) {
    TransferPolicy policy;
    policy.qps = stripes;
    policy.stripe_bytes = 65536;
    Bed bed({.policy = policy});
    Talk talk(bed, kA, kB, stripes * policy.stripe_bytes);
    const auto posted = [&bed] {
      return bed.hosts[0].engine->snapshot().peers.at(0).paths.at(0).counters.work_requests;
    };
    const std::uint64_t probes = posted();
    for (int i = 0; i < 10; ++i) talk.exchange(stripes * policy.stripe_bytes);
    return posted() - probes;
  };
  EXPECT_EQ(sent(4), 40u);
  EXPECT_EQ(sent(engine::kStripesTold), 10u * engine::kStripesTold);
  EXPECT_EQ(sent(engine::kStripesTold + 1), 10u * (engine::kStripesTold + 2)) << "and a record";
}

// Many channels fill the chains of their queue pairs before one doorbell is rung.
TEST(Message, LargeMessagesOfManyChannelsAtOnce) {
  TransferPolicy policy;
  policy.stripe_bytes = 1024;
  policy.express_bytes = 512;
  Bed bed({.policy = policy});
  std::vector<std::unique_ptr<Talk>> talks;
  talks.reserve(40);
  for (int i = 0; i < 40; ++i) talks.push_back(std::make_unique<Talk>(bed, kA, kB, 4096));
  for (int round = 0; round < 3; ++round) {
    std::vector<Request*> open;
    bed.hosts[0].loops_stand = bed.hosts[1].loops_stand = true;
    for (const auto& talk : talks) {
      for (std::size_t part = 0; part < 4; ++part)
        open.push_back(*talk->receive({.at = part * 1024, .bytes = 1024}));
    }
    for (const auto& talk : talks) {
      for (std::size_t part = 0; part < 4; ++part)
        open.push_back(*talk->send({.at = part * 1024, .bytes = 1024}));
    }
    bed.hosts[0].loops_stand = bed.hosts[1].loops_stand = false;
    for (Request* const request : open) EXPECT_TRUE(bed.finish(request).ok());
    for (const auto& talk : talks) EXPECT_TRUE(talk->holds(0, 0, 4096));
  }
}

TEST(Message, EndedRequestIsNotAnsweredTwice) {
  Bed bed({});
  Talk talk(bed, kA, kB, 64);
  const auto receiving = talk.receive({.bytes = 8});
  const auto sending = talk.send({.bytes = 8});
  EXPECT_TRUE(bed.finish_all({*sending, *receiving}));
  EXPECT_EQ(test(**sending, nullptr).code(), Errc::InvalidArgument);
  EXPECT_EQ(test(**receiving, nullptr).code(), Errc::InvalidArgument);
}

TEST(Message, OutOfRequestsIsWouldBlock) {
  TransferPolicy policy;
  policy.slots = 32;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 1024);
  std::deque<Request*> sends, receives;
  for (std::size_t i = 0; i < 32; ++i) sends.push_back(talk.send({.at = i, .bytes = 1}).value());
  EXPECT_EQ(talk.send({.at = 40, .bytes = 1}).code(), Errc::WouldBlock);
  for (std::size_t i = 0; i < 32; ++i)
    receives.push_back(talk.receive({.at = i, .bytes = 1}).value());
  EXPECT_EQ(talk.receive({.at = 40, .bytes = 1}).code(), Errc::WouldBlock);
  for (int i = 0; i < 2; ++i) {  // when one ends, exactly one more fits
    EXPECT_TRUE(bed.finish_all({sends.front(), receives.front()}));
    sends.pop_front(), receives.pop_front();
    sends.push_back(talk.send({.at = 40, .bytes = 1}).value());
    receives.push_back(talk.receive({.at = 40, .bytes = 1}).value());
    ASSERT_NE(sends.back(), nullptr);
    ASSERT_NE(receives.back(), nullptr);
    EXPECT_EQ(talk.send({.at = 41, .bytes = 1}).code(), Errc::WouldBlock);
    EXPECT_EQ(talk.receive({.at = 41, .bytes = 1}).code(), Errc::WouldBlock);
  }
  while (!sends.empty()) {
    EXPECT_TRUE(bed.finish_all({sends.front(), receives.front()}));
    sends.pop_front(), receives.pop_front();
  }
  EXPECT_TRUE(talk.holds(0, 0, 32));
}

TEST(Message, OpOfAnotherTagIsPassedOverAndOrderWithinATagKept) {
  Bed bed({});
  Talk talk(bed, kA, kB, 100'000);
  constexpr std::size_t kStep = 10'000;
  const std::array<std::uint32_t, 8> sent{7, 5, 5, 7, 9, 5, 9, 7};
  const std::array<std::uint32_t, 8> received{5, 5, 5, 9, 7, 7, 9, 7};
  const std::array<std::size_t, 8> meets{1, 2, 5, 4,
                                         0, 3, 6, 7};  // the send that each receive must get
  std::vector<Request*> open;
  for (std::size_t i = 0; i < sent.size(); ++i)
    open.push_back(talk.send({.at = i * kStep, .bytes = 9000 + i, .tag = sent[i]}).value());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    Request* const receiving =
        talk.receive({.at = i * kStep, .bytes = kStep, .tag = received[i]}).value();
    std::size_t bytes = 0;
    ASSERT_TRUE(bed.finish(receiving, &bytes).ok());
    EXPECT_EQ(bytes, 9000 + meets[i]);
    EXPECT_TRUE(talk.holds(i * kStep, meets[i] * kStep, bytes)) << "receive " << i;
  }
  for (Request* request : open) EXPECT_TRUE(bed.finish(request).ok());
}

TEST(Message, SendLargerThanItsReceiveFailsBothAndTheChannelGoesOn) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, 2 << 20);
  struct Case {
    std::size_t sent, room;
  };
  for (const Case& each : {Case{2, 1}, Case{100, 0}, Case{9000, 8999}, Case{2 << 20, 300'000}}) {
    const testkit::LogCapture log;
    std::fill(talk.target.begin(), talk.target.end(), std::byte{0xcc});
    const auto receiving = talk.receive({.bytes = each.room});
    const auto sending = talk.send({.bytes = each.sent});
    EXPECT_EQ(bed.finish(*sending).code(), Errc::Truncated);
    EXPECT_EQ(bed.finish(*receiving).code(), Errc::Truncated);
    for (const std::byte byte : talk.target)
      ASSERT_EQ(byte, std::byte{0xcc}) << "no byte of it may be written";
    const std::string text =
        fmt::format("a send of {} bytes met a receive of {} bytes", each.sent, each.room);
    EXPECT_TRUE(log.warned(text, 2));  // one on each side
    talk.exchange(100'000);
    ASSERT_FALSE(HasFailure()) << each.sent << " into " << each.room;
  }
}

TEST(Message, RangeOutsideItsMemoryHandleIsRefused) {
  Bed bed({});
  Talk talk(bed, kA, kB, 4096);
  const testkit::LogCapture log;
  EXPECT_EQ(talk.send({.at = 4000, .bytes = 97}).code(), Errc::InvalidArgument);
  EXPECT_EQ(talk.receive({.at = 4096, .bytes = 1}).code(), Errc::InvalidArgument);
  EXPECT_EQ(isend(*talk.pair.send, {.data = talk.source.data(), .bytes = 1}).code(),
            Errc::InvalidArgument);
  EXPECT_TRUE(log.warned("not within the memory handle", 3));
  talk.exchange(4096);
}

// 32 slots and 70,000 messages: every slot is used 2,187 times, so that the 7 bits of the
// generation on the wire wrap.
TEST(Message, SlotsAndGenerationsWrap) {
  TransferPolicy policy;
  policy.slots = 32;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 1 << 16);
  constexpr std::uint64_t kMessages = 70'000;
  constexpr std::size_t kBytes = 24;
  const auto place = [](std::uint64_t message) {
    return static_cast<std::size_t>(message * 37 % 60'000);
  };
  struct Open {
    Request* request;
    std::uint64_t message;
  };
  std::deque<Open> sends, receives;
  std::uint64_t next_send = 0, next_receive = 0, received = 0;
  for (std::uint64_t round = 0; received < kMessages && round < 10 * kMessages; ++round) {
    while (next_receive < kMessages && receives.size() < 30) {
      // Each open receive has its own target, far from the next one's.
      receives.push_back(
          {talk.receive({.at = next_receive % 64 * 512, .bytes = kBytes}).value(), next_receive});
      ++next_receive;
    }
    while (next_send < kMessages && sends.size() < 30) {
      sends.push_back({talk.send({.at = place(next_send), .bytes = kBytes}).value(), next_send});
      ++next_send;
    }
    bed.data_round();
    while (!sends.empty() && test(*sends.front().request, nullptr).ok()) sends.pop_front();
    while (!receives.empty() && test(*receives.front().request, nullptr).ok()) {
      const std::uint64_t message = receives.front().message;
      ASSERT_TRUE(talk.holds(message % 64 * 512, place(message), kBytes)) << "message " << message;
      receives.pop_front();
      ++received;
    }
  }
  EXPECT_EQ(received, kMessages);
  EXPECT_EQ(bed.stats(1).late_announcements, 0u);
}

TEST(Message, LargeMessageDoesNotHoldUpAnotherChannel) {
  Bed bed({});
  Talk large(bed, kA, kB, 64 << 20);
  Talk small(bed, kA, kB, 1 << 20);
  for (const std::size_t bytes :
       {std::size_t{2048},
        std::size_t{20'000}}) {  // over express, and over a queue pair that the large one uses
    const auto large_receive = large.receive({.bytes = 64 << 20});
    const auto large_send = large.send({.bytes = 64 << 20});
    for (int i = 0; i < 5; ++i) bed.data_round();
    for (int message = 0; message < 8; ++message) {
      const auto receiving = small.receive({.bytes = bytes});
      const auto sending = small.send({.bytes = bytes});
      int rounds = 0;
      while (test(**receiving, nullptr).code() == Errc::WouldBlock && rounds < 1000)
        bed.data_round(), ++rounds;
      EXPECT_LE(rounds, bytes <= 8192 ? 4 : 12) << bytes << " bytes, message " << message;
      EXPECT_TRUE(bed.finish(*sending).ok());
    }
    EXPECT_EQ(test(**large_receive, nullptr).code(), Errc::WouldBlock)
        << "the large one was to be under way all the time";
    EXPECT_TRUE(bed.finish_all({*large_send, *large_receive}));
    EXPECT_TRUE(large.holds(0, 0, 64 << 20));
  }
}

// Messages over paths that are alike. Each path carries an equal part and counts it for itself, and
// a lost path loses its part like any other data.

constexpr std::size_t kRoom = 4096 * kKiB;

TransferPolicy two_queue_pairs() {
  TransferPolicy policy;
  policy.qps = 2;
  return policy;
}

class SharedMessageTest : public testing::Test {
 protected:
  SharedMessageTest()
      : bed_({.fabric = testkit::kHalves, .policy = two_queue_pairs()}),
        talk_(bed_, kA, kB, kRoom) {}

  const engine::Path& path(std::uint32_t index) const {
    return talk_.pair.send->link.paths()[index];
  }
  std::uint64_t bytes_over(std::uint32_t index) const { return path(index).counters().bytes_sent; }
  // Posts a message that is under way on return. Its receive is still to be finished.
  Request* begin(std::size_t bytes) {
    receiving_ = *talk_.receive({.bytes = bytes});
    bed_.rounds(100);
    for (const char* const nic : {"n0", "n1"}) delay_writes(bed_.hosts[0], nic, 50 * kMs);
    Request* const sending = *talk_.send({.bytes = bytes});
    EXPECT_EQ(test(*sending, nullptr).code(), Errc::WouldBlock);
    for (int i = 0; i < 20; ++i) bed_.data_round();
    return sending;
  }
  void expect_whole(Request* sending, std::size_t bytes) {
    bed_.tick_ns = kMs;
    EXPECT_TRUE(bed_.finish_all({sending, receiving_}));
    EXPECT_TRUE(talk_.holds(0, 0, bytes));
    for (const std::uint32_t index : {0u, 1u}) EXPECT_EQ(path(index).inflight_bytes(), 0u);
    EXPECT_EQ(talk_.pair.send->outstanding, 0u);
  }

  Bed bed_;
  Talk talk_;
  Request* receiving_ = nullptr;
};

TEST_F(SharedMessageTest, EachPathCarriesTheSamePart) {
  Request* const sending = begin(1024 * kKiB);
  EXPECT_EQ(sending->cut.stripe_bytes, 256 * kKiB) << "one of four stripes";
  for (const std::uint32_t index : {0u, 1u}) {
    EXPECT_EQ(bytes_over(index), 512 * kKiB);
    EXPECT_EQ(path(index).inflight_bytes(), 512 * kKiB);
  }
  expect_whole(sending, 1024 * kKiB);
}

TEST_F(SharedMessageTest, TheLastStripeMayHaveLess) {
  constexpr std::size_t kOdd = 1'000'003;
  Request* const sending = begin(kOdd);
  EXPECT_EQ(sending->cut.stripe_bytes, 250'112u);
  EXPECT_EQ(bytes_over(0), 500'224u);
  EXPECT_EQ(bytes_over(1), kOdd - 500'224u);
  expect_whole(sending, kOdd);
}

TEST_F(SharedMessageTest, MessagesOfOneStripeTakeTurns) {
  for (int i = 0; i < 8; ++i) talk_.exchange(64 * kKiB);
  for (const std::uint32_t index : {0u, 1u}) EXPECT_EQ(bytes_over(index), 4 * 64 * kKiB);
}

TEST_F(SharedMessageTest, WhatALostPathCarriedGoesOverTheOther) {
  for (const std::size_t bytes : {std::size_t{1024 * kKiB}, std::size_t{1'000'003}}) {
    Request* const sending = begin(bytes);
    lose_path(*talk_.pair.send, 1);
    expect_whole(sending, bytes);
    EXPECT_EQ(path(1).health.replayed_stripes % 2, 0u) << "two stripes of each message";
    ASSERT_TRUE(bed_.until([&] { return path(1).health.state == engine::PathState::Up; }));
  }
  EXPECT_EQ(path(1).health.replayed_stripes, 4u);
}

TEST_F(SharedMessageTest, WhatFollowsALossIsCutForThePathThatIsLeft) {
  talk_.exchange(1024 * kKiB);
  lose_path(*talk_.pair.send, 0);
  const std::uint64_t before = bytes_over(1);
  Request* const sending = begin(1024 * kKiB);
  EXPECT_EQ(sending->cut.stripe_bytes, 512 * kKiB) << "one of two stripes";
  EXPECT_EQ(bytes_over(1) - before, 1024 * kKiB);
  expect_whole(sending, 1024 * kKiB);
}

// Small messages above near_bytes: one alone takes the express queue pair, further ones take idle
// bulk queue pairs, none goes behind stripes, and a lost path loses and doubles none. Messages of
// one stripe go in halves while the path has little in flight.

constexpr std::size_t kMiddleRoom = 1024 * kKiB;
constexpr std::size_t kMiddle = 4 * kKiB;
constexpr std::uint64_t kMiddleDelay = 4'000'000'000;  // longer than any test takes

class MiddleMessageTest : public testing::Test {
 protected:
  explicit MiddleMessageTest(const char* fabric = nullptr)
      : bed_(fabric == nullptr ? testkit::BedOptions{} : testkit::BedOptions{.fabric = fabric}),
        talk_(bed_, kA, kB, kMiddleRoom) {}

  engine::Path& path() { return talk_.pair.send->link.paths()[0]; }
  // Returns the messages and stripes that each queue pair of the first path has under way.
  std::vector<std::uint64_t> under_way() {
    std::vector<std::uint64_t> found;
    for (const auto& queue_pair : path().queue_pairs) found.push_back(queue_pair->outstanding());
    return found;
  }
  void give_receives(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i)
      open_.push_back(*talk_.receive({.at = received_bytes_, .bytes = bytes})),
          received_bytes_ += bytes;
    EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);
    bed_.rounds(100);
  }
  void send(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      open_.push_back(*talk_.send({.at = sent_bytes_, .bytes = bytes}));
      sent_bytes_ += bytes;
      EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);  // it is posted now
    }
  }
  void expect_whole() {
    bed_.hosts[0].provider->faults().disarm_all();
    for (Request* const request : open_) EXPECT_TRUE(bed_.finish(request).ok());
    EXPECT_TRUE(talk_.holds(0, 0, sent_bytes_));
    EXPECT_EQ(talk_.pair.send->outstanding, 0u);
    EXPECT_EQ(path().inflight_bytes(), 0u);
  }

  Bed bed_;
  Talk talk_;
  std::vector<Request*> open_;
  std::size_t sent_bytes_ = 0, received_bytes_ = 0;
};

using Counts = std::vector<std::uint64_t>;

TEST_F(MiddleMessageTest, WhatIsBeyondOneUnderWayTakesTheQueuePairsInTurn) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, kMiddle);
  EXPECT_EQ(under_way(), (Counts{1, 0, 0, 0, 0})) << "one alone";
  send(7, kMiddle);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  EXPECT_EQ(path().inflight_bytes(), 0u) << "only stripes are bulk bytes";
  expect_whole();
}

TEST_F(MiddleMessageTest, AMessageUpToNearBytesKeepsToTheExpressQueuePair) {
  give_receives(8, TransferPolicy{}.near_bytes);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(8, TransferPolicy{}.near_bytes);
  EXPECT_EQ(under_way(), (Counts{8, 0, 0, 0, 0}));
  expect_whole();
}

TEST_F(MiddleMessageTest, NoneGoesBehindStripes) {
  give_receives(1, 64 * kKiB);
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, 64 * kKiB);
  send(8, kMiddle);
  EXPECT_EQ(under_way(), (Counts{8, 1, 1, 0, 0}));
  expect_whole();
}

TEST_F(MiddleMessageTest, OneStripeAloneGoesInHalvesAndTheNextOneWhole) {
  give_receives(2, 64 * kKiB);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, 64 * kKiB);
  EXPECT_EQ(under_way(), (Counts{0, 1, 1, 0, 0}));
  send(1, 64 * kKiB);
  EXPECT_EQ(under_way(), (Counts{0, 1, 1, 1, 0})) << "the path has enough in flight";
  expect_whole();
}

TEST_F(MiddleMessageTest, SeveralPostedTogetherAreSharedOutToo) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  bed_.hosts[0].loops_stand = true;
  for (int i = 0; i < 8; ++i) {
    open_.push_back(*talk_.send({.at = sent_bytes_, .bytes = kMiddle}));
    sent_bytes_ += kMiddle;
  }
  bed_.hosts[0].loops_stand = false;
  EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  expect_whole();
}

// On each of the five queue pairs some messages have landed and others have not.
TEST_F(MiddleMessageTest, ALostPathLosesAndDoublesNone) {
  give_receives(16, kMiddle);
  send(8, kMiddle);
  bed_.rounds(3);
  delay_writes(bed_.hosts[0], "", kMiddleDelay);
  send(8, kMiddle);
  lose_path(*talk_.pair.send, 0);
  expect_whole();
  EXPECT_GE(path().health.replayed_stripes, 6u);
}

class MiddleMessageOverPathsTest : public MiddleMessageTest {
 protected:
  MiddleMessageOverPathsTest() : MiddleMessageTest(testkit::kThreeCables) {}
};

TEST_F(MiddleMessageOverPathsTest, StaysOnThePathOfItsExpressQueuePair) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(8, kMiddle);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  expect_whole();
}

}  // namespace
}  // namespace mesh
