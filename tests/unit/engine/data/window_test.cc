// The bounds on a sender: the peer's receives, its send queues, the bytes it may have in flight.

#include "tests/unit/engine/bed.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Talk;

using testkit::kA, testkit::kB;

TransferPolicy narrow() {
  TransferPolicy policy;
  policy.qps = 1;
  policy.slots = 64;
  policy.rq_depth = 16;
  return policy;
}

std::size_t ended(std::vector<Request*>& requests) {
  return std::erase_if(requests, [](Request* request) {
    return test(*request, nullptr).code() != Errc::WouldBlock;
  });
}

// The receiver's NIC works but its loop stops, so that any message that the window does not hold
// back finds no posted receive.
void announce_to_a_loop_that_stands(std::size_t bytes) {
  Bed bed({.policy = narrow()});
  Talk talk(bed, kA, kB, 64 * bytes);
  std::vector<Request*> sends, receives;
  for (std::size_t i = 0; i < 64; ++i)
    receives.push_back(talk.receive({.at = i * bytes, .bytes = bytes}).value());
  bed.rounds(100);
  bed.hosts[1].loops_stand = true;
  for (std::size_t i = 0; i < 64; ++i)
    sends.push_back(talk.send({.at = i * bytes, .bytes = bytes}).value());
  std::size_t sent = 0;
  for (int i = 0; i < 2000; ++i) bed.round(), sent += ended(sends);
  EXPECT_EQ(sent, 16u) << "as many as the receive queue is deep";
  EXPECT_EQ(bed.rnr_events(), 0u);
  bed.hosts[1].loops_stand = false;
  EXPECT_TRUE(
      bed.until([&] { return ended(sends), ended(receives), sends.empty() && receives.empty(); }));
  EXPECT_TRUE(talk.holds(0, 0, 64 * bytes));
  EXPECT_EQ(bed.rnr_events(), 0u);
}

TEST(Window, HoldsSmallMessagesBackFromALoopThatStands) { announce_to_a_loop_that_stands(200); }
TEST(Window, HoldsBulkMessagesBackFromALoopThatStands) { announce_to_a_loop_that_stands(20'000); }

TEST(Window, ManyRoundsOfTheSmallestWindowCountNoReceiverNotReady) {
  TransferPolicy policy = narrow();
  policy.qps = 3;
  Bed bed({.fabric = testkit::kHalves, .policy = policy});
  Talk one(bed, kA, kB, 1 << 20), other(bed, kA, kB, 1 << 20);
  for (std::size_t i = 0; i < 500; ++i) {
    std::vector<Request*> open;
    for (Talk* talk : {&one, &other}) {
      for (std::size_t m = 0; m < 8; ++m) {
        const Talk::Part part{.at = m << 17,
                              .bytes = i % 4 == 0 ? std::size_t{1} << 17 : (i * 37 + m) % 9000};
        open.push_back(talk->receive(part).value());
        open.push_back(talk->send(part).value());
      }
    }
    ASSERT_TRUE(bed.until([&] { return ended(open), open.empty(); }));
  }
  EXPECT_EQ(bed.rnr_events(), 0u);
  EXPECT_EQ(bed.stats(0).errors + bed.stats(1).errors, 0u);
}

// Sends `bytes` to a peer whose NIC executes nothing for a time. Returns the work requests that are
// posted then.
std::uint64_t posted_to_a_nic_that_stands(Bed& bed, std::size_t bytes) {
  Talk talk(bed, kA, kB, bytes);
  const auto receiving = talk.receive({.bytes = bytes});
  bed.rounds(100);
  const std::uint64_t before = bed.stats(0).work_requests;
  bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = true;
  const auto sending = talk.send({.bytes = bytes});
  bed.rounds(2000);
  const std::uint64_t posted = bed.stats(0).work_requests - before;
  bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = false;
  EXPECT_TRUE(bed.finish_all({*sending, *receiving}));
  EXPECT_TRUE(talk.holds(0, 0, bytes));
  return posted;
}

TEST(Window, SendQueueIsNeverOverfilled) {
  TransferPolicy policy = narrow();
  policy.sq_depth = 64;
  policy.wr_bytes = 4096;
  Bed bed({.policy = policy});
  const std::uint64_t posted = posted_to_a_nic_that_stands(bed, 1 << 20);  // of 256
  EXPECT_LE(posted, 64u);
  EXPECT_GE(posted, 62u);
}

// The credits of a receiver and its window words share one send queue, and no cap bounds either.
TEST(Window, CreditsWaitForRoomInTheSendQueue) {
  TransferPolicy policy = narrow();
  policy.sq_depth = 64;
  policy.slots = 256;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 256);
  bed.hosts[0].nics_stand = bed.hosts[0].loops_stand = true;
  std::vector<Request*> receives, sends;
  for (std::size_t i = 0; i < 256; ++i)
    receives.push_back(talk.receive({.at = i, .bytes = 1}).value());
  bed.rounds(100);
  EXPECT_LE(bed.stats(1).work_requests, 64u);
  bed.hosts[0].nics_stand = bed.hosts[0].loops_stand = false;
  for (std::size_t i = 0; i < 256; ++i) sends.push_back(talk.send({.at = i, .bytes = 1}).value());
  EXPECT_TRUE(
      bed.until([&] { return ended(sends), ended(receives), sends.empty() && receives.empty(); }));
  EXPECT_TRUE(talk.holds(0, 0, 256));
}

TEST(Window, BytesInFlightStayUnderTheCapOfAPath) {
  TransferPolicy policy;
  policy.qps = 4;
  policy.wr_bytes = 65536;
  policy.inflight_bytes = 262'144;
  Bed bed({.fabric = testkit::kHalves, .policy = policy});
  EXPECT_EQ(posted_to_a_nic_that_stands(bed, 8 << 20), 8u) << "four of 64 KiB on each of two paths";
}

// Each path takes one work request at a time, for two large messages. A third channel, which comes
// before them, only waits for a credit.
TEST(Window, ChannelsTakeTurnsAtTheCapOfAPath) {
  constexpr std::size_t kBytes = 1 << 20, kRequest = 1 << 16;
  TransferPolicy policy = narrow();
  policy.stripe_bytes = kBytes;
  policy.wr_bytes = policy.inflight_bytes = kRequest;
  Bed bed({.policy = policy});
  Talk waiting(bed, kA, kB, 64), one(bed, kA, kB, kBytes), other(bed, kA, kB, kBytes);
  ASSERT_TRUE(waiting.send({.bytes = 64}).ok());
  std::vector<Request*> open;
  for (Talk* talk : {&one, &other}) open.push_back(talk->receive({.bytes = kBytes}).value());
  bed.rounds(100);
  for (Talk* talk : {&one, &other}) open.push_back(talk->send({.bytes = kBytes}).value());
  const auto landed = [](const Talk& talk) {
    std::size_t requests = 0;
    while (requests < kBytes / kRequest &&
           talk.holds(requests * kRequest, requests * kRequest, kRequest))
      ++requests;
    return requests;
  };
  for (std::size_t half = 1; half <= kBytes / kRequest / 2; ++half) {
    ASSERT_TRUE(bed.until([&] { return landed(one) >= half || landed(other) >= half; }));
    EXPECT_LE(landed(one), landed(other) + 2) << "the first one had a start";
    EXPECT_LE(landed(other), landed(one) + 2);
  }
  EXPECT_TRUE(bed.until([&] { return ended(open), open.empty(); }));
}

// At 100 Gb/s a work request of 64 KiB takes some rounds of the clock, so they complete one by one.
const char* const kPaced = R"({"name":"paced",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},{"name":"b",
     "nics":[{"name":"n0","address":"10.0.1.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"],"gbps":100}]})";

// Sends messages of one size without end over one channel.
struct Stream {
  Stream(Bed& bed, std::size_t size) : talk(bed, kA, kB, size), bytes(size) {}
  void receive_ahead() {
    done_receives += ended(receives);
    while (receives.size() < 32) receives.push_back(talk.receive({.bytes = bytes}).value());
  }
  void send_ahead(std::size_t depth) {
    while (sends.size() < depth) sends.push_back(talk.send({.bytes = bytes}).value());
  }
  Talk talk;
  const std::size_t bytes;
  std::vector<Request*> sends, receives;
  std::size_t done_receives = 0;
};

// Small messages must not overtake the large one, even if they are started more than once a turn.
TEST(Window, ALargeRequestGoesThroughAFullPath) {
  constexpr std::size_t kLarge = 1 << 19, kSmall = 1 << 16;
  TransferPolicy policy = narrow();
  policy.stripe_bytes = policy.wr_bytes = policy.inflight_bytes = kLarge;
  for (const std::size_t depth : {std::size_t{2}, std::size_t{9}, std::size_t{24}}) {
    Bed bed({.fabric = kPaced, .policy = policy});
    Stream one(bed, kSmall), other(bed, kSmall), large(bed, kLarge);
    const auto turn = [&](bool with_large) {
      for (Stream* stream : {&one, &other, &large}) stream->receive_ahead();
      for (Stream* stream : {&one, &other}) ended(stream->sends), stream->send_ahead(depth);
      if (with_large) ended(large.sends), large.send_ahead(1);
      bed.round();
    };
    for (int i = 0; i < 500; ++i) turn(false);
    const std::size_t before = one.done_receives + other.done_receives;
    ASSERT_GT(before, 20u) << "the path is full";
    for (int i = 0; i < 4000; ++i) turn(true);
    // The cable carries 95 large messages in that time. If channels take turns, a large message
    // waits for at most 16 small ones.
    EXPECT_GE(large.done_receives, 15u) << "depth " << depth;
    EXPECT_GE(one.done_receives + other.done_receives, before + 2 * large.done_receives - 4)
        << "depth " << depth;
    EXPECT_EQ(bed.stats(0).errors + bed.stats(1).errors, 0u);
    for (Stream* stream : {&one, &other, &large}) {
      ASSERT_TRUE(bed.until([&] { return ended(stream->sends), stream->sends.empty(); }))
          << "nothing writes into what goes now";
    }
  }
}

// A channel that waits for bytes in flight and is closed leaves the path to the others.
TEST(Window, AWaiterThatClosesHoldsNobodyBack) {
  constexpr std::size_t kLarge = 1 << 19, kSmall = 1 << 16;
  TransferPolicy policy = narrow();
  policy.stripe_bytes = policy.wr_bytes = policy.inflight_bytes = kLarge;
  Bed bed({.fabric = kPaced, .policy = policy});
  Stream small(bed, kSmall), large(bed, kLarge);
  for (Stream* stream : {&small, &large}) stream->receive_ahead();
  bed.rounds(100);
  bed.hosts[0].nics_stand = true;
  small.send_ahead(4);
  large.send_ahead(1);
  bed.rounds(10);
  const std::uint64_t before = bed.stats(0).work_requests;
  small.send_ahead(6);
  bed.rounds(10);
  ASSERT_EQ(bed.stats(0).work_requests, before) << "the large one waits, and two small ones for it";
  bed.hosts[0].nics_stand = false;
  close(large.talk.pair.send);
  close(large.talk.pair.receive);
  for (int message = 0; message < 100; ++message) {
    ASSERT_TRUE(bed.until([&] {
      return small.receive_ahead(), ended(small.sends), small.sends.size() < 6;
    })) << message;
    small.send_ahead(6);
  }
  EXPECT_TRUE(bed.until([&] { return ended(small.sends), small.sends.empty(); }));
}

// Only test() of one channel's request turns the loop, and that channel gets no more turns than the
// other channel.
TEST(Window, AskingAboutOneChannelDoesNotGiveItTheWholePath) {
  constexpr std::size_t kBytes = 1 << 20, kRequest = 1 << 16;
  TransferPolicy policy = narrow();
  policy.stripe_bytes = kBytes;
  policy.wr_bytes = policy.inflight_bytes = kRequest;
  Bed bed({.fabric = kPaced, .policy = policy});
  Talk asked(bed, kA, kB, kBytes), other(bed, kA, kB, kBytes);
  std::vector<Request*> receives;
  for (Talk* talk : {&asked, &other}) receives.push_back(talk->receive({.bytes = kBytes}).value());
  bed.rounds(100);
  bed.hosts[0].loops_stand = true;
  Request* const sending = asked.send({.bytes = kBytes}).value();
  Request* const sending_too = other.send({.bytes = kBytes}).value();
  ASSERT_TRUE(bed.until([&] { return test(*sending, nullptr).code() != Errc::WouldBlock; }));
  EXPECT_TRUE(other.holds(0, 0, kBytes - 3 * kRequest))
      << "it had as many turns, but the last ones";
  bed.hosts[0].loops_stand = false;
  EXPECT_TRUE(bed.finish(sending_too).ok());
  EXPECT_TRUE(bed.until([&] { return ended(receives), receives.empty(); }));
}

// A port of 100 Gb/s carries 262,500 bytes in 21 us: four work requests of 64 KiB, but not five.
TEST(Window, BytesInFlightStayUnderWhatThePortCarriesInATime) {
  TransferPolicy policy;
  policy.wr_bytes = 65536;
  policy.inflight_us = 21;
  Bed bed({.fabric = kPaced, .policy = policy});
  EXPECT_EQ(posted_to_a_nic_that_stands(bed, 4 << 20), 4u);
}

// The ports of the software fabric, like those of soft-RoCE, refuse work requests above 8 MiB.
TEST(Window, NoWorkRequestIsLongerThanThePortAllows) {
  TransferPolicy policy;
  policy.qps = 1;
  policy.wr_bytes = policy.stripe_bytes = policy.inflight_bytes = 1 << 30;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 20 << 20);
  talk.exchange(20 << 20);
  EXPECT_GE(bed.stats(0).work_requests, 3u);
}

// A cap below one work request must not stop all traffic.
TEST(Window, CapBelowOneWorkRequestStillMovesData) {
  TransferPolicy policy;
  policy.inflight_bytes = 4096;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 4 << 20);
  talk.exchange(4 << 20);
}

// Express messages must give their bytes in flight back.
TEST(Window, CapIsFreeAgainAfterTraffic) {
  TransferPolicy policy;
  policy.inflight_bytes = 1 << 20;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, 1 << 20);
  for (int i = 0; i < 200; ++i) {
    talk.exchange(i % 2 == 0 ? 8000 : 1 << 20);
    ASSERT_FALSE(HasFailure()) << "message " << i;
  }
}

}  // namespace
}  // namespace mesh
