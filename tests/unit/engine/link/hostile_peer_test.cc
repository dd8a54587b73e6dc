// A hostile peer that knows the handle can end its own link, and nothing else.

#include "engine/link/half_open.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/raw_peer.h"

namespace mesh {
namespace {

using engine::MessageType, testkit::Bed, testkit::LogCapture, testkit::RawPeer;

using testkit::kB;

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    listener_ = bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).value();
  }

  Channel* open_channel(RawPeer& peer, std::uint32_t channel) {
    peer.say(peer.open(channel));
    const auto opened = peer.hear<engine::Opened>(MessageType::Opened);
    EXPECT_TRUE(opened.has_value() && opened->result == Errc::Ok);
    return bed_.hosts[1].engine->accept(*listener_).value();
  }

  Bed bed_{{}};
  HandleBytes handle_{};
  Listener* listener_ = nullptr;
};

TEST_F(HostilePeer, IsServedWhileItKeepsToTheProtocol) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  ASSERT_NE(open_channel(peer, 0), nullptr);
}

TEST_F(HostilePeer, ThatGoesAfterWelcomeFailsTheAccept) {
  {
    RawPeer peer(bed_, handle_);
    peer.say(peer.hello());
    ASSERT_TRUE(peer.hear<engine::Welcome>(MessageType::Welcome));
  }
  const auto accept = [this] { return bed_.hosts[1].engine->accept(*listener_).code(); };
  ASSERT_TRUE(bed_.until([this] { return bed_.stats(1).queue_pairs == 0; }));
  EXPECT_EQ(accept(), Errc::WouldBlock) << "it may come again";
  bed_.advance_ns(kLostHelloToNextNs);
  EXPECT_EQ(accept(), Errc::PeerGone);
  EXPECT_EQ(accept(), Errc::WouldBlock) << "it is said once";
  // A peer that comes later is served, and does not see the verdict on the former one.
  RawPeer again(bed_, handle_);
  ASSERT_TRUE(again.shake_hands());
  ASSERT_NE(open_channel(again, 0), nullptr);
  EXPECT_EQ(accept(), Errc::WouldBlock);
}

TEST_F(HostilePeer, WithoutTheContextIdGetsNoQueuePair) {
  RawPeer peer(bed_, handle_);
  engine::Hello hello = peer.hello();
  hello.acceptor_context[15] = static_cast<std::uint8_t>(hello.acceptor_context[15] ^ 1);
  peer.say(hello);
  ASSERT_TRUE(peer.hear<engine::Refuse>(MessageType::Refuse));
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(bed_.stats(1).queue_pairs, 0u);
}

TEST_F(HostilePeer, WithoutAListenersNonceGetsNoQueuePair) {
  RawPeer peer(bed_, handle_);
  engine::Hello hello = peer.hello();
  hello.listeners.front()[0] = static_cast<std::uint8_t>(hello.listeners.front()[0] ^ 0x80);
  peer.say(hello);
  const auto refused = peer.hear<engine::Refuse>(MessageType::Refuse);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, Errc::PeerClosed);
  EXPECT_EQ(refused->text, "host b: the listener asked for was closed");
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(bed_.stats(1).queue_pairs, 0u);
}

TEST_F(HostilePeer, OneOpenListenerAmongThoseThatItNamesIsEnough) {
  RawPeer peer(bed_, handle_);
  engine::Hello hello = peer.hello();
  hello.listeners.insert(hello.listeners.begin(), engine::kHelloListenersMax - 1, engine::Id128{9});
  peer.say(hello);
  EXPECT_TRUE(peer.hear<engine::Welcome>(MessageType::Welcome));
}

TEST_F(HostilePeer, WithoutTheListenersNonceGetsNoChannel) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  engine::Open open = peer.open(0);
  open.listener[0] = static_cast<std::uint8_t>(open.listener[0] ^ 0x80);
  peer.say(open);
  const auto opened = peer.hear<engine::Opened>(MessageType::Opened);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->result, Errc::PeerClosed);
  EXPECT_EQ(bed_.stats(1).channels, 0u);
}

TEST_F(HostilePeer, WithAnotherNumberOfKeysGetsNoChannel) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  engine::Open open = peer.open(0);
  open.credits_rkey.push_back(1);
  const LogCapture log;
  peer.say(open);
  const auto opened = peer.hear<engine::Opened>(MessageType::Opened);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->result, Errc::Protocol);
  EXPECT_TRUE(log.said(LogLevel::Info, "peer raw: opens channel 0 with 2 keys and not 1"));
  EXPECT_EQ(bed_.stats(1).channels, 0u);
}

// An engine that believed it would take memory back without waiting for the peer's writes.
TEST_F(HostilePeer, SaysRevokedBeforeItWasAsked) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  Channel* const channel = open_channel(peer, 0);
  ASSERT_NE(channel, nullptr);
  peer.say(engine::Revoked{.channel = 0, .first_credit = 0, .credit_count = 1});
  bed_.rounds(100);
  std::array<std::byte, 4096> memory{};
  Registration* const region =
      register_memory(*channel, memory.data(), memory.size(), MemoryType::Host).value();
  ASSERT_TRUE(
      irecv(*channel, {.data = memory.data(), .bytes = memory.size(), .region = region}).ok());
  bed_.rounds(100);
  bed_.tick_ns = 1'000'000;
  const LogCapture log;
  deregister_memory(*channel, region);
  EXPECT_TRUE(log.warned("peer raw: no answer within 500 ms while memory is taken back"));
}

TEST_F(HostilePeer, RepeatsItsCloseTenThousandTimes) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  ASSERT_NE(open_channel(peer, 0), nullptr);
  // The messages never come. The close waits its second for them, and its repetitions must not add
  // waits of their own.
  for (int i = 0; i < 10'000; ++i) {
    peer.say(engine::Close{.channel = 0, .messages = UINT64_MAX});
    if (i % 100 == 0) bed_.rounds(100);
  }
  bed_.rounds(2000);
  const std::uint64_t held = bed_.stats(1).pending_answers;
  EXPECT_EQ(held, 1u);
  bed_.advance_ns(2'000'000'000);
  bed_.rounds(10);
  EXPECT_EQ(bed_.stats(1).pending_answers, 0u);
}

TEST_F(HostilePeer, SaysHelloAndNothingElseAndHoldsNoQueuePairForEver) {
  RawPeer peer(bed_, handle_);
  peer.say(peer.hello());
  ASSERT_TRUE(peer.hear<engine::Welcome>(MessageType::Welcome));
  EXPECT_GT(bed_.stats(1).queue_pairs, 0u);
  const LogCapture log;
  bed_.tick_ns = 0;
  bed_.advance_ns(kHandshakeStepToAnswerNs - 10'000'000);
  bed_.rounds(10);
  EXPECT_GT(bed_.stats(1).queue_pairs, 0u) << log.joined();
  bed_.advance_ns(10'000'000);
  ASSERT_TRUE(peer.hear<engine::Refuse>(MessageType::Refuse));
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(bed_.stats(1).queue_pairs, 0u);
  EXPECT_TRUE(log.warned("peer raw (127.0.0.1:"));
  EXPECT_TRUE(log.warned("has not answered our WELCOME with ATTACH in 300 s"));
}

TEST_F(HostilePeer, ManyThatSayHelloAndNothingElseAreBounded) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < engine::kHalfOpenMax; ++i) {
    if (i % engine::kHalfOpenPerListenerMax == 0) {
      ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
    }
    peers.push_back(std::make_unique<RawPeer>(bed_, handle_));
    peers.back()->say(peers.back()->hello());
    ASSERT_TRUE(peers.back()->hear<engine::Welcome>(MessageType::Welcome));
  }
  const std::uint64_t queue_pairs = bed_.stats(1).queue_pairs;
  const LogCapture log;
  bed_.advance_ns(kHalfOpenToGiveWayNs);
  ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
  RawPeer honest(bed_, handle_);
  ASSERT_TRUE(honest.shake_hands());
  EXPECT_TRUE(log.warned("is closed to make room: it carries no channel and is the oldest of 256"));
  EXPECT_TRUE(peers.front()->ended());
  EXPECT_EQ(bed_.stats(1).queue_pairs, queue_pairs);
}

// The deadlines of a handshake at the connector's side, where the peer is stopped.
class StoppedPeer : public testing::Test {
 protected:
  Result<Channel*> connect(HandleBytes& handle) {
    return bed_.hosts[0].engine->connect(*bed_.hosts[0].contexts[0], 0, handle);
  }
  // Connects until there is a result. The peer is stopped once it has `queue_pairs` queue pairs.
  Errc connect_to_one_that_stops(std::uint64_t queue_pairs) {
    HandleBytes handle{};
    EXPECT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle).ok());
    Result<Channel*> answer = connect(handle);
    EXPECT_TRUE(bed_.until([&] { return bed_.stats(1).queue_pairs >= queue_pairs; }));
    bed_.hosts[1].control_stands = true;
    for (int i = 0; i < 100; ++i) bed_.round(), answer = connect(handle);
    EXPECT_EQ(answer.code(), Errc::WouldBlock);
    bed_.advance_ns(kHandshakeStepToAnswerNs);
    EXPECT_TRUE(bed_.until([&] { return (answer = connect(handle)).code() != Errc::WouldBlock; }));
    bed_.hosts[1].control_stands = false;
    return answer.code();
  }
  Bed bed_{{}};
};

TEST_F(StoppedPeer, BeforeItsWelcomeIsGivenUpByName) {
  const LogCapture log;
  EXPECT_EQ(connect_to_one_that_stops(0), Errc::Timeout);
  EXPECT_TRUE(log.warned("has not answered our HELLO with WELCOME in 300 s"));
  EXPECT_TRUE(bed_.empties());
}

TEST_F(StoppedPeer, BeforeItsReadyIsGivenUpByName) {
  const LogCapture log;
  EXPECT_EQ(connect_to_one_that_stops(1), Errc::Timeout);
  EXPECT_TRUE(log.warned("peer b (127.0.0.1:"));
  EXPECT_TRUE(log.warned("has not answered our ATTACH with READY in 300 s"));
  EXPECT_TRUE(bed_.empties());
}

TEST_F(StoppedPeer, BeforeItsOpenedFailsThatConnectOnly) {
  testkit::Talk talk(bed_, {0, 0}, kB, 4096);
  const LogCapture log;
  EXPECT_EQ(connect_to_one_that_stops(1), Errc::Timeout);
  EXPECT_TRUE(log.warned("has not answered our OPEN of channel 1 with OPENED in 300 s"));
  talk.exchange(4096);
}

// The peer hangs up on everybody, as a host with too many unauthenticated connections may do.
TEST_F(StoppedPeer, ThatDropsTheConnectionBeforeAWordIsDialedAgainAFewTimes) {
  const SocketAddress loopback = *SocketAddress::from_text("127.0.0.1");
  const Result<UniqueFd> listener = tcp_listen(loopback, 0);
  HandleBytes handle{};
  engine::write_handle(
      {.nonce = {1}, .context = {2}, .port = *local_port(listener->get()), .addresses = {loopback}},
      handle);
  const LogCapture log;
  std::uint32_t hellos = 0;
  Result<Channel*> answer = Errc::WouldBlock;
  EXPECT_TRUE(bed_.until([&] {
    answer = connect(handle);
    Result<AcceptedSocket> accepted = tcp_accept(listener->get());
    if (!accepted.ok()) return answer.code() != Errc::WouldBlock;
    std::byte first{};
    EXPECT_TRUE(
        bed_.until([&] { return ::recv(accepted->fd.get(), &first, 1, MSG_DONTWAIT) == 1; }));
    ++hellos;
    return false;
  }));
  EXPECT_EQ(answer.code(), Errc::PeerGone);
  EXPECT_EQ(hellos, 1 + engine::kHelloTriesMax);
  EXPECT_TRUE(log.warned("is lost"));
}

}  // namespace
}  // namespace mesh
