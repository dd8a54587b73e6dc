// The control connection is lost and comes back. Data, channels and memory do not notice.

#include "engine/control/control_plane.h"
#include "src/base/timeouts.h"
#include "tests/unit/engine/link/raw_peer.h"
#include "tests/unit/engine/link/resume_fixture.h"

namespace mesh {
namespace {

using engine::FrameHeader, engine::MessageType, engine::Refuse, engine::Resume, engine::Resumed,
    engine::Summon, testkit::Bed, testkit::Fate, testkit::kA, testkit::kB, testkit::kMs,
    testkit::kSecond, testkit::LogCapture, testkit::RawPeer, testkit::ResumeTest, testkit::Talk;

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
  EXPECT_TRUE(log_.said(LogLevel::Detail, "peer b: control connection lost (127.0.0.1:"));
  EXPECT_TRUE(log_.said(LogLevel::Info, "control connection is back", 2));
  live();
  end(talk);
  EXPECT_TRUE(log_.warned("", 0));
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
  EXPECT_TRUE(log_.warned("", 0));
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
  EXPECT_TRUE(log_.warned("", 0));
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
  EXPECT_TRUE(log_.warned("", 0));
}

// A middlebox has forgotten the connection and tells only one side.
TEST_F(ResumeTest, OnlyTheConnectorNotices) {
  Talk talk(bed_, kA, kB, 4096);
  proxy_.cut_front();
  ASSERT_TRUE(back());
  live();
  end(talk);
  EXPECT_TRUE(log_.warned("", 0));
}

TEST_F(ResumeTest, OnlyTheAcceptorNoticesAndAsksForIt) {
  Talk talk(bed_, kA, kB, 4096);
  bed_.tick_ns = 100'000;
  proxy_.cut_back();
  ASSERT_TRUE(back()) << log_.joined();
  EXPECT_TRUE(log_.said(LogLevel::Detail, "the peer has lost it"));
  live();
  end(talk);
  EXPECT_TRUE(log_.warned("", 0));
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
  EXPECT_TRUE(log_.warned("", 0));
}

// The path is lost first, as on a host that freezes: TCP gives up later than a queue pair.
TEST_F(ResumeTest, AHostThatAnswersNowhereIsSaidToBeDown) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  const soft::Fault gone{.kind = soft::FaultKind::PeerLost, .peer_host = "b"};
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(gone).ok());
  bed_.tick_ns = kMs;
  ASSERT_TRUE(bed_.until([&] { return log_.count(LogLevel::Warn, "no other path is up") > 0; }));
  proxy_.play_dead();
  proxy_.cut();
  EXPECT_NE(bed_.finish(sending_).code(), Errc::Ok);
  EXPECT_TRUE(log_.warned("nor has its control connection: the host is down"));
  end(talk);
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
  EXPECT_TRUE(log_.said(LogLevel::Info, "control connection is back", 2));
  bed_.tick_ns = 1000;
  other.exchange(4096);
  other.end();
  end(talk);
}

TEST_F(ResumeTest, ConnectAndCloseWaitForNothingMeanwhile) {
  Talk talk(bed_, kA, kB, 4096), ends(bed_, kA, kB, 4096);
  proxy_.play_dead();
  proxy_.cut();
  bed_.rounds(50);
  const std::uint64_t began_ns = bed_.now_ns();
  ends.end();
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
  late.end();
  EXPECT_EQ(bed_.stats(0).links, 1u);
  end(talk);
  EXPECT_TRUE(log_.warned("", 0));
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
  EXPECT_TRUE(log_.warned("peer a: no answer within 500 ms"));
}

// ---- Only a link's connector may resume it, on its latest connection, acknowledging only sent
// frames.

constexpr std::uint64_t kSaidByTheHost = 2;  // WELCOME and READY

class ResumeClaim : public testing::Test {
 protected:
  ResumeClaim() {
    EXPECT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
    first_ = std::make_unique<RawPeer>(bed_, handle_);
    EXPECT_TRUE(first_->shake_hands());
  }
  // Makes another connection of the first peer.
  std::unique_ptr<RawPeer> again() {
    auto peer = std::make_unique<RawPeer>(bed_, handle_);
    peer->link = first_->link;
    peer->context = first_->context;
    return peer;
  }
  static void claim(RawPeer& peer, std::uint32_t attempt,
                    std::uint64_t acknowledged = kSaidByTheHost) {
    const Resume body{{.connector_context = peer.context,
                       .acceptor_context = peer.handle.context,
                       .attempt = attempt}};
    peer.send(engine::encode({.acknowledged = acknowledged, .link = peer.link}, body));
  }
  static bool resumed(RawPeer& peer) {
    return peer.hear<Resumed>(MessageType::Resumed).has_value();
  }
  static bool refused(RawPeer& peer) { return peer.hear<Refuse>(MessageType::Refuse).has_value(); }

  Bed bed_{{}};
  const LogCapture log_;
  HandleBytes handle_{};
  std::unique_ptr<RawPeer> first_;
};

TEST_F(ResumeClaim, TakesThePlaceOfAConnectionThatOnlyWeBelievedIn) {
  const auto second = again();
  claim(*second, 1);
  EXPECT_TRUE(resumed(*second));
  EXPECT_TRUE(first_->ended());
  EXPECT_EQ(bed_.stats(1).links, 1u);
}

TEST_F(ResumeClaim, ALateOneIsNotBelieved) {
  const auto second = again(), third = again();
  claim(*second, 5);
  ASSERT_TRUE(resumed(*second));
  claim(*third, 5);
  EXPECT_TRUE(third->ended());
  EXPECT_EQ(bed_.stats(1).resumes, 1u);
  const auto fourth = again();
  claim(*fourth, 6);
  EXPECT_TRUE(resumed(*fourth));
}

TEST_F(ResumeClaim, AnotherLinkOrContextIsRefusedAndHarmsNobody) {
  const auto another_link = again(), another_context = again();
  another_link->link[15] ^= 1;
  another_context->context[0] ^= 1;
  for (RawPeer* peer : {another_link.get(), another_context.get()}) {
    claim(*peer, 1);
    EXPECT_TRUE(refused(*peer));
    EXPECT_TRUE(peer->ended());
  }
  EXPECT_EQ(bed_.stats(1).links, 1u);
  EXPECT_EQ(bed_.stats(1).resumes, 0u);
}

TEST_F(ResumeClaim, WordsThatWereNeverSaidEndTheLink) {
  const auto second = again();
  claim(*second, 1, kSaidByTheHost + 1);
  EXPECT_TRUE(refused(*second));
  EXPECT_TRUE(bed_.until([&] { return bed_.stats(1).links == 0; }));
  EXPECT_TRUE(first_->ended());
}

TEST_F(ResumeClaim, WhatItHasNotHandledIsSaidAgain) {
  const auto second = again();
  claim(*second, 1, kSaidByTheHost - 1);
  EXPECT_TRUE(resumed(*second));
  EXPECT_TRUE(second->hear<engine::Ready>(MessageType::Ready).has_value());
}

TEST_F(ResumeClaim, OnlyTheFirstWordOfAConnectionMayBeOne) {
  claim(*first_, 1);
  EXPECT_TRUE(first_->ended());
  EXPECT_TRUE(log_.warned("malformed or out of order"));
  EXPECT_TRUE(bed_.until([&] { return bed_.stats(1).links == 0; }));
}

// The sender of this SUMMON is not the connector of the link.
TEST_F(ResumeClaim, AnUnauthenticatedSummonIsRefused) {
  const auto second = again();
  const Summon body{{.connector_context = second->handle.context,
                     .acceptor_context = second->context,
                     .attempt = 0}};
  second->send(engine::encode({.link = second->link}, body));
  EXPECT_TRUE(refused(*second));
  EXPECT_EQ(bed_.stats(1).links, 1u);
}

// The peer's own address does not answer, nor does its device, and another machine has the second
// address that the handle names. Neither an answer nor the silence of that machine ends the link.
class ResumeElsewhere : public testing::Test {
 protected:
  ResumeElsewhere() {
    bed_.each_round = [this] { proxy_.pump(); };
    bed_.each_handle = [this](HandleBytes& bytes) {
      proxy_.stand_before(bytes);
      engine::Handle handle = *engine::read_handle(bytes);
      handle.addresses.push_back(other_host_);
      engine::write_handle(handle, bytes);
    };
    elsewhere_ = std::move(*tcp_listen(other_host_, proxy_.port()));
    talk_ = std::make_unique<Talk>(bed_, testkit::kA, testkit::kB, 4096);
    bed_.hosts[1].control_stands = true;
    const soft::Fault gone{.kind = soft::FaultKind::PeerLost, .peer_host = "b"};
    EXPECT_TRUE(bed_.hosts[0].provider->faults().arm(gone).ok());
    proxy_.play_dead();
    proxy_.cut();
    bed_.tick_ns = kMs;
  }
  // Waits until the other machine is dialed.
  bool dialed() {
    return bed_.until([&] {
      Result<AcceptedSocket> accepted = tcp_accept(elsewhere_.get());
      if (accepted.ok()) connection_ = std::move(accepted->fd);
      return accepted.ok();
    });
  }
  void expect_link_until_timeout(std::uint64_t began_ns) {
    const char* const end = "peer b is lost: no way back to its control port in";
    EXPECT_TRUE(log_.warned(end, 0));
    EXPECT_TRUE(bed_.until([&] { return log_.count(LogLevel::Warn, end) != 0; }));
    EXPECT_GE(bed_.now_ns() - began_ns, 15 * kSecond);
    EXPECT_LE(bed_.now_ns() - began_ns, 35 * kSecond);
  }

  static constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
  const SocketAddress other_host_ = *SocketAddress::from_text("127.0.0.9");
  testkit::ControlProxy proxy_;
  Bed bed_{{}};
  const LogCapture log_;
  std::unique_ptr<Talk> talk_;
  UniqueFd elsewhere_, connection_;
};

TEST_F(ResumeElsewhere, ARefusalIsNoVerdict) {
  ASSERT_TRUE(dialed()) << log_.joined();
  const std::uint64_t began_ns = bed_.now_ns();
  const engine::Bytes no =
      engine::encode(FrameHeader{}, Refuse{.reason = Errc::PeerGone, .text = "no"});
  ASSERT_EQ(::send(connection_.get(), no.data(), no.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(no.size()));
  bed_.rounds(500);
  expect_link_until_timeout(began_ns);
}

TEST_F(ResumeElsewhere, SilenceIsNotWaitedFor) {
  ASSERT_TRUE(dialed()) << log_.joined();
  const std::uint64_t began_ns = bed_.now_ns();
  ASSERT_TRUE(dialed()) << "once more, " << log_.joined();
  EXPECT_LE(bed_.now_ns() - began_ns, 10 * kSecond);
  expect_link_until_timeout(began_ns);
}

// An acceptor dials only the address that the peer came from, even if it does not answer, whatever
// addresses the peer names in its HELLO.
TEST_F(ResumeClaim, AnAcceptorAsksNobodyElseForTheConnection) {
  const SocketAddress home = *SocketAddress::from_text("127.0.0.1"),
                      other_host = *SocketAddress::from_text("127.0.0.9");
  testkit::ControlProxy at_home;
  at_home.play_dead();
  const UniqueFd elsewhere = std::move(*tcp_listen(other_host, at_home.port()));
  RawPeer peer(bed_, handle_);
  peer.control_port = at_home.port();
  peer.control_addresses = {other_host, home};
  ASSERT_TRUE(peer.shake_hands());
  peer.say(peer.open(0));
  ASSERT_TRUE(peer.hear<engine::Opened>(MessageType::Opened).has_value());
  peer.send(engine::Bytes(1));  // half a message: its deadline ends the connection
  bed_.advance_ns(kFrameBeginToEndNs);
  bed_.tick_ns = 1'000'000;
  EXPECT_FALSE(bed_.until([&] { return tcp_accept(elsewhere.get()).ok(); }, 15'000))
      << "fifteen seconds";
  EXPECT_EQ(bed_.stats(1).links, 2u) << "it is waited for, " << log_.joined();
}

TEST(ResumeToOneself, BothEndsInOneEngine) {
  Bed bed({});
  testkit::ControlProxy proxy;
  bed.each_round = [&] { proxy.pump(); };
  bed.each_handle = [&](HandleBytes& handle) { proxy.stand_before(handle); };
  const testkit::Seat self{0, 0};
  Talk talk(bed, self, self, 4096);
  const LogCapture log;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    proxy.cut();
    ASSERT_TRUE(bed.until([&] { return bed.stats(0).resumes == 2 * i; })) << log.joined();
    talk.exchange(4096);
    Talk other(bed, self, self, 64);
    other.exchange(64);
    other.end();
  }
  talk.end();
  EXPECT_TRUE(bed.empties());
  EXPECT_TRUE(log.warned("", 0));
}

}  // namespace
}  // namespace mesh
