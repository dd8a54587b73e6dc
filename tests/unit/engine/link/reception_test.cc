#include "engine/link/reception.h"

#include "engine/link/link.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::TwoEnds;

constexpr ConnectionId kUnauthenticated = 99;

TEST(Reception, AHelloForACommunicatorThatHasEndedIsRefused) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.b.contexts[0]->closing = true;
  ends.dial();
  ends.carry();
  EXPECT_TRUE(ends.b.contexts[0]->links.empty());
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
  EXPECT_TRUE(log.warned("the communicator asked for has ended", 2));
}

TEST(Reception, AHelloThatNamesNoOpenListenerMakesNoLink) {
  TwoEnds ends;
  ends.b.contexts[0]->listeners.front()->nonce = {1, 2, 3};
  ends.dial();
  ends.carry();
  EXPECT_TRUE(ends.b.contexts[0]->links.empty());
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
}

TEST(Reception, ADeclineFailsTheAcceptOfItsListenerAndIsSaidOnce) {
  const testkit::LogCapture log;
  TwoEnds ends;
  FrameHeader header;
  header.type = MessageType::Decline;
  const auto say = [&](const Decline& body) {
    const Bytes frame = encode(header, body);
    EXPECT_FALSE(ends.b.reception.on_frame(kUnauthenticated, header,
                                           std::span(frame).subspan(kFrameHeaderBytes)));
    return ends.listener().refused;
  };
  const Id128 context = ends.b.contexts[0]->id, nonce = ends.listener().nonce;
  // A sender without the handle knows at most one of both ids.
  EXPECT_EQ(say({.acceptor_context = {1}, .listener = nonce, .text = "no"}), Errc::Ok);
  EXPECT_EQ(say({.acceptor_context = context, .listener = {1}, .text = "no"}), Errc::Ok);
  EXPECT_TRUE(log.warned("", 0));
  EXPECT_EQ(say({.acceptor_context = context, .listener = nonce, .text = "no"}), Errc::Protocol);
  EXPECT_TRUE(log.warned("far: its connect has failed: no"));
}

TEST(Reception, AnUnauthenticatedFrameOfALinkIsNotHeard) {
  TwoEnds ends;
  FrameHeader header;
  header.type = MessageType::Bye;
  EXPECT_FALSE(ends.b.reception.on_frame(kUnauthenticated, header, {}));
  EXPECT_TRUE(ends.b.wire.said.empty());
}

TEST(Reception, AClaimOnALinkThatIsNotThereIsDenied) {
  TwoEnds ends;
  FrameHeader header;
  header.type = MessageType::Resume;
  const Bytes frame = encode(header, Resume{});
  ends.b.reception.on_frame(kUnauthenticated, header, std::span(frame).subspan(kFrameHeaderBytes));
  EXPECT_EQ(ends.b.wire.types(), std::vector<MessageType>{MessageType::Refuse});
  EXPECT_EQ(ends.b.wire.closed, std::vector<ConnectionId>{kUnauthenticated});
}

TEST(Reception, ADeclineIsSaidWhenTheConnectionIsUp) {
  TwoEnds ends;
  Handle handle{.nonce = {1}, .context = {2}, .port = 4711, .addresses = {}};
  handle.addresses = {*SocketAddress::from_text("127.0.0.2")};
  ends.a.reception.decline(handle, "no");
  ASSERT_EQ(ends.a.wire.types(), std::vector<MessageType>{MessageType::Decline});
  EXPECT_TRUE(ends.a.wire.closed.empty());
  const ConnectionId id = ends.a.wire.said.front().connection;
  ends.a.reception.on_dialed(id);
  EXPECT_EQ(ends.a.wire.closed, std::vector<ConnectionId>{id});
}

// The connection is closed for the frame, but the link goes on when the peer dials again.
TEST(Reception, AFrameForAnotherLinkIsNotHeard) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.come_up();
  FrameHeader header;
  header.type = MessageType::Bye;
  header.sequence = 1;
  header.link = {9};
  EXPECT_FALSE(ends.b.reception.on_frame(ends.receiver().connection(), header, {}));
  EXPECT_EQ(ends.receiver().state(), LinkState::Up);
  EXPECT_TRUE(log.warned("a control message for another link"));
}

}  // namespace
}  // namespace mesh::engine
