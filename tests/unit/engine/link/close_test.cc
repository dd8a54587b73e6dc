// Channels that close: in either order, with open requests, and while other channels go on.

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Talk;

using testkit::kA, testkit::kB;

class Close : public testing::Test {
 protected:
  // Checks that everything was given back without an error, and without a warning but those that
  // the test expects of a peer that closes while requests are open.
  void TearDown() override {
    EXPECT_TRUE(bed_.empties());
    EXPECT_EQ(bed_.stats(0).errors + bed_.stats(1).errors, 0u);
    EXPECT_TRUE(log_.warned("", ends_));
    EXPECT_TRUE(log_.warned("it has closed its end with requests of ours open", ends_));
  }
  int ends_ = 0;
  testkit::LogCapture log_;
  Bed bed_{{.fabric = testkit::kHalves}};
};

TEST_F(Close, WhatWasSentBeforeTheSenderClosedArrives) {
  ends_ = 1;
  Talk talk(bed_, kA, kB, 1 << 20);
  constexpr std::size_t kPart = 50'000;
  std::vector<Request*> sends, receives;
  for (std::size_t i = 0; i < 20; ++i)
    receives.push_back(talk.receive({.at = i * kPart, .bytes = kPart}).value());
  Request* const unmet = talk.receive({.at = 20 * kPart, .bytes = 8}).value();
  bed_.rounds(50);
  bed_.hosts[1].loops_stand = true;  // sees arrivals only after the CLOSE has come
  for (std::size_t i = 0; i < 20; ++i)
    sends.push_back(talk.send({.at = i * kPart, .bytes = kPart}).value());
  for (Request* request : sends) ASSERT_TRUE(bed_.finish(request).ok());
  deregister_memory(*talk.pair.send, talk.source_region);
  close(talk.pair.send);
  bed_.rounds(1000);
  bed_.hosts[1].loops_stand = false;
  for (Request* request : receives) EXPECT_TRUE(bed_.finish(request).ok());
  EXPECT_EQ(bed_.finish(unmet).code(), Errc::PeerClosed);
  EXPECT_TRUE(talk.holds(0, 0, 20 * kPart));
  EXPECT_EQ(talk.receive({.bytes = 8}).code(), Errc::PeerClosed);
  deregister_memory(*talk.pair.receive, talk.target_region);
  close(talk.pair.receive);
}

TEST_F(Close, SenderLearnsThatTheReceiverClosedAndOwedZeroBytesSucceed) {
  ends_ = 1;  // once for all requests
  Talk talk(bed_, kA, kB, 1 << 20);
  Request* const large = talk.send({.bytes = 1 << 20}).value();
  Request* const nothing = isend(*talk.pair.send, {}).value();
  Request* const small = talk.send({.bytes = 1}).value();
  bed_.rounds(50);
  deregister_memory(*talk.pair.receive, talk.target_region);
  close(talk.pair.receive);
  EXPECT_EQ(bed_.finish(large).code(), Errc::PeerClosed);
  std::size_t bytes = 99;
  EXPECT_TRUE(bed_.finish(nothing, &bytes).ok()) << "NCCL sends zero bytes that nobody waits for";
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(bed_.finish(small).code(), Errc::PeerClosed);
  deregister_memory(*talk.pair.send, talk.source_region);
  close(talk.pair.send);
}

TEST_F(Close, BothSidesAtOnceWithRequestsOpen) {
  Talk talk(bed_, kA, kB, 4 << 20);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(talk.send({.at = i << 20, .bytes = 1 << 20}).ok());
    ASSERT_TRUE(talk.receive({.at = i << 20, .bytes = 1 << 20}).ok());
  }
  bed_.data_round();
  talk.end();
}

TEST_F(Close, EitherSideLongAfterTheOther) {
  for (const bool sender_first : {true, false}) {
    Talk talk(bed_, kA, kB, 1 << 20);
    talk.exchange(1 << 20);
    talk.release();
    close(sender_first ? talk.pair.send : talk.pair.receive);
    bed_.tick_ns = 1'000'000;
    bed_.rounds(5000);  // 5 s, longer than any bound
    close(sender_first ? talk.pair.receive : talk.pair.send);
    bed_.tick_ns = 1000;
  }
}

TEST_F(Close, AnotherChannelOfTheLinkGoesOn) {
  Talk stays(bed_, kA, kB, 4 << 20);
  for (int i = 0; i < 20; ++i) {
    Talk goes(bed_, kA, kB, 300'000);
    const auto receiving = stays.receive({.bytes = 4 << 20});
    const auto sending = stays.send({.bytes = 4 << 20});
    ASSERT_TRUE(goes.send({.bytes = 300'000}).ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(goes.receive({.bytes = 300'000}).ok());
    }
    for (int round = 0; round < i; ++round) bed_.data_round();
    goes.release();
    close(i % 3 == 0 ? goes.pair.receive : goes.pair.send);
    bed_.rounds(i);
    close(i % 3 == 0 ? goes.pair.send : goes.pair.receive);
    EXPECT_TRUE(bed_.finish_all({*sending, *receiving}));
    ASSERT_TRUE(stays.holds(0, 0, 4 << 20)) << "round " << i;
    std::fill(stays.target.begin(), stays.target.end(), std::byte{0});
  }
  stays.end();
}

TEST_F(Close, NothingIsNoChannelAndNoMemory) {
  close(nullptr);
  Talk talk(bed_, kA, kB, 64);
  deregister_memory(*talk.pair.send, nullptr);
  deregister_memory(*talk.pair.receive, nullptr);
  talk.exchange(64);
  talk.end();
}

TEST_F(Close, MemoryMayOutliveAndPrecedeTraffic) {
  Talk talk(bed_, kA, kB, 64);
  std::vector<std::byte> other(4096);
  Registration* const region =
      *register_memory(*talk.pair.send, other.data(), other.size(), MemoryType::Host);
  talk.exchange(64);
  deregister_memory(*talk.pair.send, region);
  talk.exchange(64);
  talk.end();
}

// An index is reused with other generations, so that credits and announcements of one life never
// match another life.
TEST_F(Close, FiftyLivesOfOneChannelIndex) {
  Talk holds_the_link(bed_, kA, kB, 64);
  for (int life = 0; life < 50; ++life) {
    Talk talk(bed_, kA, kB, 200'000);
    std::vector<Request*> open;
    for (std::size_t i = 0; i < 5; ++i) {  // unused credits, unmatched sends
      if (life % 2 == 0)
        open.push_back(talk.receive({.at = 1000 * i, .bytes = 1000, .tag = 8}).value());
      if (life % 3 == 0)
        open.push_back(talk.send({.at = 1000 * i, .bytes = 1000, .tag = 9}).value());
    }
    bed_.rounds(life % 7);
    if (life % 2 != 0) talk.exchange(life % 4 == 1 ? 200'000 : 300);
    ASSERT_FALSE(HasFailure()) << "life " << life;
    talk.end();
    ASSERT_TRUE(
        bed_.until([&] { return bed_.stats(0).channels == 1 && bed_.stats(1).channels == 1; }));
  }
  EXPECT_EQ(bed_.stats(1).links, 1u);
  holds_the_link.exchange(64);
  holds_the_link.end();
}

TEST_F(Close, FiftyLinksOneAfterTheOther) {
  for (int i = 0; i < 50; ++i) {
    Talk talk(bed_, kA, kB, 100'000);
    talk.exchange(100'000);
    talk.end();
    if (i % 2 == 0) {
      ASSERT_TRUE(bed_.empties());
    }
  }
}

// A communicator that ends while its peers misbehave. The end is bounded in time, and nothing
// touches the communicator afterwards.
constexpr std::uint64_t kMillisecond = 1'000'000;

class CloseContext : public testing::Test {
 protected:
  // Posts a send that the stopped peer does not execute, so that closing has something to wait for.
  void SetUp() override {
    bed_.tick_ns = kMillisecond;
    ASSERT_TRUE(talk_.receive({.bytes = 1 << 20}).ok());
    bed_.rounds(20);
    bed_.hosts[1].nics_stand = bed_.hosts[1].loops_stand = true;
    ASSERT_TRUE(talk_.send({.bytes = 1 << 20}).ok());
    bed_.data_round();
  }
  testkit::LogCapture log_;
  Bed bed_{{}};
  Talk talk_{bed_, kA, kB, 1 << 20};
};

// The bed's clock would advance whenever close_context() looked at a peer.
TEST_F(CloseContext, StoppedPeerIsNotWaitedFor) {
  const std::uint64_t began_ns = bed_.now_ns();
  bed_.hosts[1].control_stands = true;
  int waits = 0;
  bed_.meanwhile = [&waits] { ++waits; };
  bed_.close_context(kA);
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(bed_.now_ns(), began_ns);
  EXPECT_EQ(bed_.stats(0).registrations, 0u);
}

TEST_F(CloseContext, PeerThatEndsAfterwards) {
  bed_.close_context(kA);
  bed_.hosts[1].contexts.clear();
  bed_.hosts[1].engine.reset();
  for (int i = 0; i < 3000 && bed_.hosts[0].engine->waits_for_peers(); ++i) bed_.rounds(1);
  EXPECT_EQ(bed_.stats(0).contexts, 0u);
}

}  // namespace
}  // namespace mesh
