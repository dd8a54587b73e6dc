// The control connection is lost and comes back; data, channels and memory notice nothing. Or it does not come back.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/control_proxy.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace mesh {
namespace {

using engine::FrameHeader;
using engine::MessageType;
using testkit::Bed;
using testkit::ControlProxy;
using testkit::Fate;
using testkit::LogCapture;
using testkit::Talk;

using testkit::kA, testkit::kB;  // a connects to b
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMs;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    bed_.each_round = [this] { proxy_.pump(); };
    bed_.each_handle = [this](HandleBytes& handle) { proxy_.stand_before(handle); };
  }
  std::uint64_t resumes() const { return bed_.stats(0).resumes + bed_.stats(1).resumes; }
  bool back(std::uint64_t times = 1) {
    return bed_.until([&] { return bed_.stats(0).resumes >= times && bed_.stats(1).resumes >= times; });
  }
  // A channel's whole life: opened, used, its memory taken back with a credit open, closed.
  void live() {
    Talk talk(bed_, kA, kB, 4096);
    talk.exchange(4096);
    ASSERT_TRUE(talk.receive({.bytes = 4096}).ok());
    bed_.rounds(10);
    talk.release();
    talk.close_both();
  }
  // Requests that wait on both sides, to see what they are told.
  void wait_on(Talk& talk) {
    sending_ = *talk.send({.bytes = 64, .tag = 1});
    receiving_ = *talk.receive({.bytes = 64, .tag = 2});
    bed_.rounds(50);
  }
  void expect_lost() {
    EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
    EXPECT_EQ(bed_.finish(receiving_).code(), Errc::PeerGone);
  }
  void end(Talk& talk) {
    talk.release();
    talk.close_both();
    EXPECT_TRUE(bed_.empties());
  }

  ControlProxy proxy_;
  Bed bed_{{}};
  const LogCapture log_;
  Request* sending_ = nullptr;
  Request* receiving_ = nullptr;
};

TEST_F(ResumeTest, DataGoesOnAndTheConnectionComesBack) {
  Talk talk(bed_, kA, kB, 1 << 20);
  bed_.hosts[0].control_stands = bed_.hosts[1].control_stands = true;
  proxy_.cut();
  for (int i = 0; i < 5; ++i) talk.exchange(1 << 20);
  bed_.hosts[0].control_stands = bed_.hosts[1].control_stands = false;
  ASSERT_TRUE(back());
  for (int i = 0; i < 5; ++i) talk.exchange(1 << 20);
  EXPECT_EQ(bed_.stats(0).resumes, 1u);
  EXPECT_EQ(bed_.stats(1).resumes, 1u);
  EXPECT_EQ(log_.count(LogLevel::Info, "peer b: control connection lost (127.0.0.1:"), 1) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Info, "control connection is back"), 2) << log_.joined();
  live();
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

// Each message of a channel's life, lost with the connection, or arrived and then the connection lost, or come twice.
struct Case {
  MessageType type;
  bool to_acceptor;
  Fate fate;
  const char* name;
};
class ResumeFrameTest : public ResumeTest, public testing::WithParamInterface<Case> {};

TEST_P(ResumeFrameTest, IsNeitherMissedNorActedOnTwice) {
  Talk stays(bed_, kA, kB, 4096);
  int met = 0;
  proxy_.judge = [&met](const FrameHeader& header, bool to_acceptor) {
    if (header.type != GetParam().type || to_acceptor != GetParam().to_acceptor) return Fate::Pass;
    return ++met == 1 ? GetParam().fate : Fate::Pass;
  };
  live();
  ASSERT_FALSE(HasFailure()) << log_.joined();
  stays.exchange(4096);
  live();
  stays.exchange(4096);
  ASSERT_TRUE(bed_.until([&] { return bed_.stats(0).channels == 1 && bed_.stats(1).channels == 1; }));
  EXPECT_GE(met, 1);
  if (GetParam().fate != Fate::Twice) {
    EXPECT_TRUE(back());
  } else {
    EXPECT_EQ(resumes(), 0u);
  }
  end(stays);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Fate fate : {Fate::Lose, Fate::PassAndCut, Fate::Twice}) {
    all.push_back({MessageType::Open, true, fate, "Open"});
    all.push_back({MessageType::Opened, false, fate, "Opened"});
    all.push_back({MessageType::Revoke, false, fate, "Revoke"});
    all.push_back({MessageType::Revoked, true, fate, "Revoked"});
    all.push_back({MessageType::Close, true, fate, "CloseOfTheSender"});
    all.push_back({MessageType::Close, false, fate, "CloseOfTheReceiver"});
  }
  return all;
}
std::string case_name(const testing::TestParamInfo<Case>& info) {
  const char* const fate = info.param.fate == Fate::Lose ? "Lost" : info.param.fate == Fate::Twice ? "Twice" : "Cut";
  return fmt::format("{}{}", info.param.name, fate);
}
INSTANTIATE_TEST_SUITE_P(Frames, ResumeFrameTest, testing::ValuesIn(cases()), case_name);

TEST_F(ResumeTest, HundredLossesWhileChannelsComeAndGo) {
  Talk stays(bed_, kA, kB, 1 << 16);
  std::mt19937 random(11);
  int frames = 0;
  proxy_.judge = [&](const FrameHeader& header, bool) {
    const auto dice = random() % 16;
    ++frames;
    if (dice == 0) return Fate::Lose;
    if (header.sequence == 0) return Fate::Pass;  // what opens a connection comes once or not at all
    return dice == 1 ? Fate::PassAndCut : dice == 2 ? Fate::Twice : Fate::Pass;
  };
  bed_.tick_ns = 10'000;
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    if (i % 3 == 0) live();
    if (i % 7 == 0) proxy_.cut();
    stays.exchange(1 << 16);
  }
  ASSERT_FALSE(HasFailure()) << log_.joined();
  proxy_.judge = nullptr;
  ASSERT_TRUE(bed_.until([&] { return bed_.stats(0).channels == 1 && bed_.stats(1).channels == 1; })) << log_.joined();
  EXPECT_GE(resumes(), 100u) << frames << " frames";
  end(stays);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

TEST_F(ResumeTest, LostAgainWhileItComesBack) {
  Talk talk(bed_, kA, kB, 4096);
  int left = 12;
  proxy_.judge = [&](const FrameHeader& header, bool) {
    const bool resuming = header.type == MessageType::Resume || header.type == MessageType::Resumed;
    if (!resuming || left == 0) return Fate::Pass;
    return --left % 3 == 0 ? Fate::Lose : Fate::PassAndCut;
  };
  bed_.tick_ns = 100'000;
  proxy_.cut();
  ASSERT_TRUE(bed_.until([&] { return left == 0; })) << log_.joined();
  live();
  talk.exchange(4096);
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

// A middle box has forgotten the connection and tells one side only.
TEST_F(ResumeTest, OnlyTheConnectorNotices) {
  Talk talk(bed_, kA, kB, 4096);
  proxy_.cut_front();
  ASSERT_TRUE(back());
  live();
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

TEST_F(ResumeTest, OnlyTheAcceptorNoticesAndAsksForIt) {
  Talk talk(bed_, kA, kB, 4096);
  bed_.tick_ns = 100'000;
  proxy_.cut_back();
  ASSERT_TRUE(back()) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Info, "the peer has lost it"), 1) << log_.joined();
  live();
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

// A process that stands still for longer than any bound is waited for, whichever side it is.
TEST_F(ResumeTest, AStoppedPeerIsWaitedFor) {
  Talk talk(bed_, kA, kB, 4096);
  for (const std::size_t stopped : {1u, 0u}) {
    const std::uint64_t before = resumes();
    bed_.hosts[stopped].control_stands = true;
    proxy_.cut();
    bed_.tick_ns = 100 * kMs;
    bed_.rounds(2000);  // 200 s
    EXPECT_EQ(resumes(), before);
    bed_.tick_ns = 1000;
    bed_.hosts[stopped].control_stands = false;
    ASSERT_TRUE(bed_.until([&] { return resumes() >= before + 2; })) << log_.joined();
    talk.exchange(4096);
    live();
  }
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

// Nothing ends the connection, but half a message never becomes whole: its deadline does.
TEST_F(ResumeTest, AStalledConnectionIsReplaced) {
  Talk talk(bed_, kA, kB, 4096);
  int met = 0;
  proxy_.judge = [&met](const FrameHeader& header, bool) {
    return header.type == MessageType::Open && ++met == 1 ? Fate::Half : Fate::Pass;
  };
  bed_.tick_ns = kMs;
  Talk other(bed_, kA, kB, 4096);
  EXPECT_EQ(log_.count(LogLevel::Info, "control connection is back"), 2) << log_.joined();
  bed_.tick_ns = 1000;
  other.exchange(4096);
  other.release(), other.close_both();
  end(talk);
}

TEST_F(ResumeTest, ConnectAndCloseWaitForNothingMeanwhile) {
  Talk talk(bed_, kA, kB, 4096), ends(bed_, kA, kB, 4096);
  proxy_.play_dead();
  proxy_.cut();
  bed_.rounds(50);
  const std::uint64_t began_ns = bed_.now_ns();
  ends.release();
  ends.close_both();
  EXPECT_LT(bed_.now_ns() - began_ns, kMs);
  HandleBytes handle{};
  Engine& a = *bed_.hosts[0].engine;
  Engine& b = *bed_.hosts[1].engine;
  Listener* const listener = *b.listen(*bed_.hosts[1].contexts[0], 0, handle);
  EXPECT_EQ(a.connect(*bed_.hosts[0].contexts[0], 0, handle).code(), Errc::WouldBlock);
  bed_.rounds(50);
  EXPECT_EQ(a.connect(*bed_.hosts[0].contexts[0], 0, handle).code(), Errc::WouldBlock);
  talk.exchange(4096);
  proxy_.come_alive();
  bed_.tick_ns = 100'000;
  testkit::Pair pair;
  ASSERT_TRUE(bed_.until([&] {
    if (pair.send == nullptr) pair.send = a.connect(*bed_.hosts[0].contexts[0], 0, handle).value();
    if (pair.receive == nullptr) pair.receive = b.accept(*listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  })) << log_.joined();
  bed_.tick_ns = 1000;
  b.close_listener(listener);
  Talk late(bed_, pair, 4096);
  late.exchange(4096);
  late.release();
  late.close_both();
  EXPECT_EQ(bed_.stats(0).links, 1u);
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

TEST_F(ResumeTest, MemoryIsTakenBackWithinItsBoundMeanwhile) {
  Talk talk(bed_, kA, kB, 4096);
  ASSERT_TRUE(talk.receive({.bytes = 4096}).ok());
  bed_.rounds(50);
  proxy_.play_dead();
  proxy_.cut();
  bed_.tick_ns = kMs;
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_GE(bed_.now_ns() - began_ns, 500 * kMs);
  EXPECT_LE(bed_.now_ns() - began_ns, 510 * kMs);
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer a: no answer within 500 ms"), 1) << log_.joined();
}

// ---- Those that do not come back.

TEST_F(ResumeTest, WhereNobodyListensAnyMoreThePeerIsGoneAtOnce) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  bed_.tick_ns = 100'000;
  const std::uint64_t began_ns = bed_.now_ns();
  proxy_.refuse();
  proxy_.cut();
  expect_lost();
  EXPECT_LT(bed_.now_ns() - began_ns, kSecond);
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer b is lost: nobody listens on its control port any more (127.0.0.1:"), 1)
      << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer a is lost: host a: its end of the link has ended"), 1) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 2) << log_.joined();
  end(talk);
}

TEST_F(ResumeTest, APeerThatKnowsTheLinkNoMoreHasGone) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  bed_.hosts[0].control_stands = true;
  proxy_.cut();
  bed_.close_context(kB);
  bed_.tick_ns = kMs;
  ASSERT_TRUE(bed_.until([&] { return bed_.stats(1).links == 0; }));
  bed_.hosts[0].control_stands = false;
  EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer b is lost: host b: its end of the link has ended"), 1) << log_.joined();
  deregister_memory(*talk.pair.send, talk.source_region);
  close(talk.pair.send);
  EXPECT_TRUE(bed_.empties());
}

TEST_F(ResumeTest, NoAnswerIsAnErrorAfterThePathTimeout) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  const std::uint64_t began_ns = bed_.now_ns();
  proxy_.play_dead();
  proxy_.cut();
  bed_.tick_ns = kMs;
  EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
  EXPECT_GE(bed_.now_ns() - began_ns, 30 * kSecond) << "NCCL_MESH_PATH_TIMEOUT";
  EXPECT_LE(bed_.now_ns() - began_ns, 32 * kSecond) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer b is lost: no way back to its control port in 3"), 1) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Warn, fmt::format("tried 127.0.0.1:{}; last: 127.0.0.1", proxy_.port())), 1) << log_.joined();
  EXPECT_EQ(bed_.finish(receiving_).code(), Errc::PeerGone);
  end(talk);
}

TEST_F(ResumeTest, AMissingMessageIsAProtocolError) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  int met = 0;
  proxy_.judge = [&met](const FrameHeader& header, bool) {
    return header.type == MessageType::Open && ++met == 1 ? Fate::Skip : Fate::Pass;
  };
  HandleBytes first{}, second{};
  for (HandleBytes* handle : {&first, &second}) {
    ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, *handle).ok());
    EXPECT_EQ(bed_.hosts[0].engine->connect(*bed_.hosts[0].contexts[0], 0, *handle).code(), Errc::WouldBlock);
  }
  EXPECT_EQ(bed_.finish(receiving_).code(), Errc::Protocol);
  EXPECT_EQ(log_.count(LogLevel::Warn, "peer a: message 5 after 3"), 1) << log_.joined();
}

// ---- Ends while the connection is away.

TEST_F(ResumeTest, ACommunicatorEndsInBoundedTimeMeanwhile) {
  for (const testkit::Seat& first : {kA, kB}) {
    Bed bed({});
    ControlProxy proxy;
    bed.each_round = [&] { proxy.pump(); };
    bed.each_handle = [&](HandleBytes& handle) { proxy.stand_before(handle); };
    Talk talk(bed, kA, kB, 4096);
    ASSERT_TRUE(talk.receive({.bytes = 64}).ok());
    proxy.play_dead();
    proxy.cut();
    bed.rounds(100);
    bed.tick_ns = kMs;
    const std::uint64_t began_ns = bed.now_ns();
    bed.close_context(first);
    EXPECT_LE(bed.now_ns() - began_ns, 1010 * kMs);
    bed.close_context(first.host == 0 ? kB : kA);
    EXPECT_TRUE(bed.empties());
    EXPECT_LE(bed.now_ns() - began_ns, 4 * kSecond);
  }
}

TEST_F(ResumeTest, WhatWasClosedMeanwhileIsSaidWhenItIsBack) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  proxy_.cut();
  talk.release();
  talk.close_both();
  EXPECT_TRUE(bed_.empties());
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

TEST_F(ResumeTest, LostByeIsNoError) {
  Talk talk(bed_, kA, kB, 4096);
  proxy_.judge = [](const FrameHeader& header, bool) { return header.type == MessageType::Bye ? Fate::Lose : Fate::Pass; };
  bed_.tick_ns = 100'000;
  talk.release();
  talk.close_both();
  EXPECT_TRUE(bed_.empties());
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

}  // namespace
}  // namespace mesh
