// The control connection is lost and comes back. Data, channels and memory do not notice.

#include "tests/unit/engine/link/resume_fixture.h"

#include <random>

namespace mesh {
namespace {

using engine::FrameHeader;
using engine::MessageType;
using testkit::Fate;
using testkit::kA, testkit::kB;
using testkit::kMs, testkit::kSecond;
using testkit::ResumeTest;
using testkit::Talk;

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
  EXPECT_EQ(log_.count(LogLevel::Info, "peer b: control connection lost (127.0.0.1:"), 1)
      << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Info, "control connection is back"), 2) << log_.joined();
  live();
  end(talk);
  EXPECT_EQ(log_.count(LogLevel::Warn, ""), 0) << log_.joined();
}

// Each frame of a channel's life is lost with the connection, or arrives before the connection is
// lost, or arrives twice.
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
  ASSERT_TRUE(
      bed_.until([&] { return bed_.stats(0).channels == 1 && bed_.stats(1).channels == 1; }));
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
  const char* const fate = info.param.fate == Fate::Lose    ? "Lost"
                           : info.param.fate == Fate::Twice ? "Twice"
                                                            : "Cut";
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
    if (header.sequence == 0)
      return Fate::Pass;  // a frame that opens a connection never comes twice
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
  ASSERT_TRUE(bed_.until([&] {
    return bed_.stats(0).channels == 1 && bed_.stats(1).channels == 1;
  })) << log_.joined();
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

// A middlebox has forgotten the connection and tells only one side.
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

// A process that is stopped for longer than any bound is waited for, whichever side it is.
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

// Nothing ends the connection, but half of a message is missing. The message's deadline ends it.
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

}  // namespace
}  // namespace mesh
