// A peer that knows the handle and means ill: it can end its own link, and nothing else.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/raw_peer.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using engine::MessageType;
using testkit::Bed;
using testkit::LogCapture;
using testkit::RawPeer;

constexpr testkit::Seat kB{1, 0};

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() { listener_ = bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).value(); }

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

TEST_F(HostilePeer, WithoutTheContextIdGetsNoQueuePair) {
  RawPeer peer(bed_, handle_);
  engine::Hello hello = peer.hello();
  hello.acceptor_context[15] = static_cast<std::uint8_t>(hello.acceptor_context[15] ^ 1);
  peer.say(hello);
  ASSERT_TRUE(peer.hear<engine::Refuse>(MessageType::Refuse));
  EXPECT_TRUE(peer.ended());
  EXPECT_EQ(bed_.stats(1).queue_pairs, 0u);
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

// Whoever believes it takes memory back without waiting for the writes.
TEST_F(HostilePeer, SaysRevokedBeforeItWasAsked) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  Channel* const channel = open_channel(peer, 0);
  ASSERT_NE(channel, nullptr);
  peer.say(engine::Revoked{.channel = 0, .first_credit = 0, .credit_count = 1});
  bed_.rounds(100);
  std::array<std::byte, 4096> memory{};
  Registration* const region = register_memory(*channel, memory.data(), memory.size(), MemoryType::Host).value();
  ASSERT_TRUE(irecv(*channel, {.data = memory.data(), .bytes = memory.size(), .region = region}).ok());
  bed_.rounds(100);
  bed_.tick_ns = 1'000'000;
  const LogCapture log;
  deregister_memory(*channel, region);
  EXPECT_EQ(log.count(LogLevel::Warn, "peer raw: no answer within 500 ms while memory is taken back"), 1) << log.joined();
}

TEST_F(HostilePeer, RepeatsItsCloseTenThousandTimes) {
  RawPeer peer(bed_, handle_);
  ASSERT_TRUE(peer.shake_hands());
  ASSERT_NE(open_channel(peer, 0), nullptr);
  // Messages that never come: the close waits its second for them, the repetitions must not wait beside it.
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

}  // namespace
}  // namespace mesh
