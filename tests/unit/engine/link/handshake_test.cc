#include "engine/link/handshake.h"

#include "engine/link/announce.h"
#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::TwoEnds;
using Types = std::vector<MessageType>;

TEST(Handshake, EachSideSaysTwoFramesAndTheLinkIsUp) {
  TwoEnds ends;
  ends.dial();
  EXPECT_EQ(ends.a.wire.types(), Types{MessageType::Hello});
  ends.carry();  // carries HELLO, and WELCOME back
  EXPECT_EQ(ends.sender().state(), LinkState::Connecting);
  ends.a.links.tend();
  EXPECT_EQ(ends.a.wire.types(), Types{MessageType::Attach});
  EXPECT_EQ(ends.sender().state(), LinkState::AwaitReady);
  ends.carry();
  ends.b.links.tend();
  EXPECT_EQ(ends.b.wire.types(), Types{MessageType::Ready});
  ends.carry();
  EXPECT_EQ(ends.sender().state(), LinkState::Up);
  EXPECT_EQ(ends.receiver().state(), LinkState::Up);
  EXPECT_EQ(ends.sender().peer_link().paths().count(), 2u);
  EXPECT_EQ(ends.receiver().identity().peer_host, "a");
  EXPECT_EQ(ends.sender().identity().peer_host, "b");
}

// The address that a peer came from may belong to a cable between two hosts, out of others' reach.
TEST(Handshake, AnAcceptorTellsOthersAllAddressesOfItsPeer) {
  TwoEnds ends;
  const SocketAddress other = *SocketAddress::from_text("10.9.9.9");
  ends.a.wire.own = {other, ends.b.wire.peer};
  ends.dial();
  ends.carry();
  EXPECT_EQ(ends.receiver().peer_as_host().addresses, (std::vector{ends.b.wire.peer, other}));
}

TEST(Handshake, ACloneOfOurHostIsNamedOnceByEachSideWithBothAddresses) {
  const testkit::LogCapture log;
  TwoEnds ends(R"({"name": "clones", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}], "clone_of": "a"}],
      "links": [{"ends": ["a/n0", "b/n0"]}]})");
  const SocketAddress one = *SocketAddress::from_text("10.1.0.1"),
                      other = *SocketAddress::from_text("10.1.0.2");
  const SocketAddress bridge = *SocketAddress::from_text("172.17.0.1");  // of either host
  ends.a.wire.own = {one, bridge};
  ends.a.wire.peer = other;
  ends.sender().port.addresses = {other, bridge};
  ends.b.wire.own = {other, bridge};
  ends.b.wire.peer = one;
  ends.come_up();
  EXPECT_TRUE(log.warned("peer a: hosts at 10.1.0.1 and at 10.1.0.2 both have"));
  EXPECT_TRUE(log.warned("peer a: hosts at 10.1.0.2 and at 10.1.0.1 both have"));
  EXPECT_TRUE(log.warned("", 2));
}

TEST(Handshake, ARailThatDoesNotFitIsLeftOutWithOneLine) {
  const testkit::LogCapture log;
  TwoEnds ends;
  for (verbs::GidEntry& gid : ends.a.found[0].gids) gid.type = verbs::GidType::RoceV1;
  ends.come_up();
  EXPECT_EQ(ends.sender().peer_link().paths().count(), 1u);
  EXPECT_TRUE(log.warned("sends RoCE v1 (10.0."));
  EXPECT_TRUE(log.warned(""));
}

TEST(Handshake, AHostWhoseProcessesHaveNoAddressInCommonIsOneHost) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.sender().port.addresses = {*SocketAddress::from_text("10.1.0.2")};
  ends.come_up();
  ends.sender().port.addresses = {*SocketAddress::from_text("10.2.0.2")};
  say_name_twice(ends.sender());
  EXPECT_TRUE(log.warned("", 0)) << "another process";
  ends.sender().port.addresses = {*SocketAddress::from_text("10.3.0.2")};
  ends.sender().terms.peer_host_id = 1;
  say_name_twice(ends.sender());
  EXPECT_TRUE(log.warned("peer b: hosts at 10.1.0.2 and at 10.3.0.2 both have"));
}

// A peer that was stopped has no long path: with such timers its queue pairs would wait for
// minutes.
TEST(Handshake, ARoundTripThatIsTooLongForAnyWayIsNotForTheTimers) {
  TwoEnds ends;
  for (auto* const host : {&ends.a, &ends.b}) {
    host->settled.settings.site = host == &ends.a ? "east" : "west";
    for (verbs::Rail& rail : host->found) rail.leaves_site = true;
  }
  ends.dial();
  ends.advance_ns(20'000'000'000);
  ends.carry();  // carries HELLO, and WELCOME back
  ASSERT_TRUE(ends.sender().terms.crossing.apart());
  EXPECT_EQ(ends.sender().terms.crossing.round_trip_ns, 500'000'000u);
  EXPECT_EQ(ends.sender().settings().timeout, 20) << "4.3 s";
}

TEST(Handshake, AStepThatIsNotAnsweredIsGivenUpWithALine) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.dial();
  ends.a.wire.said.clear();
  ends.advance_ns(kHandshakeStepToAnswerNs - 1);
  ends.a.links.tend();
  EXPECT_EQ(ends.connect.state, StageState::Waiting);
  ends.advance_ns(1);
  ends.a.links.tend();
  EXPECT_EQ(ends.connect.state, StageState::Failed);
  EXPECT_EQ(ends.connect.error, Errc::Timeout);
  EXPECT_EQ(ends.a.wire.types(), Types{MessageType::Refuse});
  EXPECT_TRUE(log.warned("has not answered our HELLO with WELCOME"));
}

TEST(Handshake, WithoutRoomTheConnectorDialsAnewAfterPausesThatGrow) {
  TwoEnds ends;
  ends.dial();
  std::uint64_t pause_ns = kDialPauseMinNs;
  for (int tries = 0; tries < 3; ++tries, pause_ns *= 2) {
    ends.sender().handshake().on(Refuse{.reason = Errc::Exhausted, .text = "full"});
    EXPECT_EQ(ends.connect.state, StageState::Waiting);
    EXPECT_EQ(ends.connect.link, &ends.sender()) << "it waits for the new link";
    const std::size_t dialed = ends.a.wire.dialed.size();
    ends.advance_ns(pause_ns - 1);
    ends.a.links.tend();
    EXPECT_EQ(ends.a.wire.dialed.size(), dialed);
    ends.advance_ns(1);
    ends.a.links.tend();
    EXPECT_EQ(ends.a.wire.dialed.size(), dialed + 1);
    ends.a.reception.on_dialed(ends.sender().connection());
  }
  ends.a.wire.said.erase(ends.a.wire.said.begin(), ends.a.wire.said.end() - 1);
  ends.carry_all();
  EXPECT_EQ(ends.connect.state, StageState::Ready);
}

TEST(Handshake, ARefusalOfTheListenersThatWereNamedIsTheirVerdictOnly) {
  TwoEnds ends;
  ends.dial();
  PendingConnect late;  // begins after HELLO was said, so HELLO does not name its listener
  late.link = &ends.sender();
  late.listener = {7};
  ends.sender().waiting.push_back(&late);
  ends.sender().handshake().on(Refuse{.reason = Errc::PeerClosed, .text = "closed"});
  EXPECT_EQ(ends.connect.state, StageState::Failed);
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
  EXPECT_EQ(late.state, StageState::Waiting);
  ends.a.contexts[0]->closing = true;
  ends.a.contexts[0]->begin_close();
  EXPECT_EQ(late.state, StageState::Failed);
}

// An end whose peer has three addresses, of which one has answered the dial.
struct ManyAddresses : TwoEnds {
  const std::vector<SocketAddress> all{*SocketAddress::from_text("172.17.0.1"),
                                       *SocketAddress::from_text("127.0.0.2"),
                                       *SocketAddress::from_text("10.0.0.2")};
  ManyAddresses() {
    sender().port.addresses = all;
    answer_at(0);
  }
  // The dial that was made last has met the peer's address with this index, and HELLO is said.
  void answer_at(std::size_t index) {
    a.wire.peer = all[index];
    if (a.wire.dialed.empty()) sender().dial_all();
    a.reception.on_dialed(sender().connection());
  }
  std::vector<SocketAddress> last_dialed() const { return a.wire.dialed.back(); }
  void refuse() {
    sender().handshake().on(Refuse{.reason = Errc::PeerClosed, .text = "no such communicator"});
  }
  void lose(Errc reason) { a.reception.on_lost(sender().connection(), reason, "the test says so"); }
  // The peer itself answers at that address. Returns true if the channel opens.
  bool connects_at(std::size_t index) {
    a.wire.said.clear();  // HELLO went to another host
    answer_at(index);
    carry_all();
    return connect.state == StageState::Ready;
  }
};

// A bridge for containers has one address on all hosts, so another host's plugin may answer there.
TEST(Handshake, AnotherHostsRefusalSendsTheConnectorToTheNextAddress) {
  ManyAddresses ends;
  ends.refuse();
  EXPECT_EQ(ends.connect.state, StageState::Waiting);
  EXPECT_EQ(ends.last_dialed(), (std::vector{ends.all[1], ends.all[2]}));
  EXPECT_TRUE(ends.connects_at(1));
}

TEST(Handshake, ThatAllAddressesRefuseIsFinal) {
  ManyAddresses ends;
  ends.refuse();
  ends.answer_at(1);
  ends.refuse();
  EXPECT_EQ(ends.last_dialed(), std::vector{ends.all[2]});
  ends.answer_at(2);
  ends.refuse();
  EXPECT_EQ(ends.connect.state, StageState::Failed);
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
}

TEST(Handshake, ARefusalIsTheVerdictWhereTheOtherAddressesAreSilent) {
  ManyAddresses ends;
  ends.refuse();
  ends.lose(Errc::Timeout);
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
}

// The communicator exists where a refusal has another reason.
TEST(Handshake, ARefusalForAnotherReasonIsThePeersOwn) {
  ManyAddresses ends;
  ends.sender().handshake().on(Refuse{.reason = Errc::Unreachable, .text = "no common subnet"});
  EXPECT_EQ(ends.connect.error, Errc::Unreachable);
  EXPECT_EQ(ends.a.wire.dialed.size(), 1u);
}

// The address of a bridge refuses, and the peer itself drops the connection once, because too many
// others wait.
TEST(Handshake, APeerBehindARefusalHasItsTries) {
  ManyAddresses ends;
  ends.refuse();
  ends.answer_at(1);
  ends.lose(Errc::PeerGone);
  EXPECT_EQ(ends.last_dialed(), (std::vector{ends.all[1], ends.all[2]}));
  EXPECT_TRUE(ends.connects_at(1));
}

// The verdict on the listeners that HELLO named is none on a connect that came later.
TEST(Handshake, ARefusalWithSilenceElsewhereFailsTheNamedConnectsOnly) {
  ManyAddresses ends;
  ends.refuse();
  PendingConnect late;
  late.link = &ends.sender();
  late.listener = {7};
  ends.sender().waiting.push_back(&late);
  ends.lose(Errc::Timeout);
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
  EXPECT_EQ(late.state, StageState::Waiting);
  ends.a.contexts[0]->closing = true;
  ends.a.contexts[0]->begin_close();
}

// A program that is none of ours answers garbage, or closes the connection. The peer may close it,
// too, and is dialed once more then.
TEST(Handshake, AStrangeAnswerSendsTheConnectorToTheNextAddress) {
  for (const Errc reason : {Errc::Protocol, Errc::PeerGone}) {
    ManyAddresses ends;
    if (reason == Errc::PeerGone) {
      ends.lose(reason);
      EXPECT_EQ(ends.last_dialed(), ends.all);
      ends.answer_at(0);
    }
    ends.lose(reason);
    EXPECT_EQ(ends.last_dialed(), (std::vector{ends.all[1], ends.all[2], ends.all[0]}));
    EXPECT_TRUE(ends.connects_at(1));
  }
}

TEST(Handshake, StrangeAnswersAtAllAddressesEndTheConnect) {
  ManyAddresses ends;
  std::size_t rounds = 0;
  for (; ends.connect.state == StageState::Waiting && rounds < 100; ++rounds) {
    ends.answer_at(rounds % ends.all.size());
    ends.lose(Errc::Protocol);
  }
  EXPECT_EQ(ends.connect.error, Errc::Protocol);
  EXPECT_LE(rounds, kHelloTriesMax + 2 * ends.all.size() + 1);
}

TEST(Handshake, ASilentAddressIsLeftForTheNext) {
  const testkit::LogCapture log;
  ManyAddresses ends;
  EXPECT_LE(ends.a.due_ns, ends.a.now_ns() + kHelloToNextAddressNs);
  ends.advance_ns(kHelloToNextAddressNs - 1);
  ends.a.links.tend();
  EXPECT_EQ(ends.a.wire.dialed.size(), 1u);
  ends.advance_ns(1);
  ends.a.links.tend();
  EXPECT_EQ(ends.last_dialed(), (std::vector{ends.all[1], ends.all[2], ends.all[0]}));
  EXPECT_TRUE(log.said(LogLevel::Info, "has not answered HELLO in 30 s"));
  EXPECT_TRUE(ends.connects_at(1));
}

// A peer that is stopped is silent at all its addresses. The wait for WELCOME does not begin anew.
TEST(Handshake, SilenceAtAllAddressesEndsTheConnectInItsTime) {
  ManyAddresses ends;
  const std::uint64_t until_ns = ends.a.now_ns() + kHandshakeStepToAnswerNs;
  std::size_t dialed = 1;
  for (std::size_t index = 1; ends.connect.state == StageState::Waiting;
       ends.advance_ns(kNsPerSecond)) {
    ASSERT_LE(ends.a.now_ns(), until_ns);
    ends.a.links.tend();
    if (ends.a.wire.dialed.size() == dialed || ends.connect.state != StageState::Waiting) continue;
    dialed = ends.a.wire.dialed.size();
    ends.answer_at(index++ % ends.all.size());
  }
  EXPECT_EQ(ends.connect.error, Errc::Timeout);
  EXPECT_GE(dialed, 3u);
}

// A link that ends before it has opened a channel to a listener counts as failed for that listener.
TEST(Handshake, ARefusalOfTheConnectorFailsTheAccept) {
  TwoEnds ends;
  ends.dial();
  ends.carry();
  ends.receiver().handshake().on(Refuse{.reason = Errc::Transport, .text = "not up"});
  EXPECT_EQ(ends.listener().refused, Errc::Transport);
}

TEST(Handshake, AWelcomeThatIsRefusedFailsBothSidesAlike) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.dial();
  ends.a.settled.policy.qps = 1;  // HELLO asked for more
  ends.carry_all();
  EXPECT_EQ(ends.connect.error, Errc::Protocol);
  EXPECT_EQ(ends.listener().refused, Errc::Protocol);
  EXPECT_TRUE(log.warned("its WELCOME does not match our HELLO"));
  EXPECT_TRUE(log.warned("host a: its peer sent a control message that is malformed"));
}

TEST(Handshake, AConnectorThatComesAgainLeavesTheAcceptOpen) {
  TwoEnds crowded;
  crowded.dial();
  crowded.carry();
  crowded.receiver().take_down(Errc::Exhausted);  // the acceptor had no room
  EXPECT_EQ(crowded.listener().refused, Errc::Ok);
  TwoEnds cut;
  cut.dial();
  cut.carry();
  cut.receiver().end(Errc::PeerGone, "cut");  // before the ATTACH came
  EXPECT_EQ(cut.listener().refused, Errc::Ok);
}

TEST(Handshake, AConnectionLostAfterAttachFailsTheAccept) {
  TwoEnds ends;
  ends.dial();
  ends.carry();
  ends.a.links.tend();
  ends.carry();
  ASSERT_EQ(ends.receiver().state(), LinkState::Connecting);
  ends.receiver().end(Errc::PeerGone, "cut");
  EXPECT_EQ(ends.listener().refused, Errc::PeerGone);
}

TEST(Handshake, OfTwoLinksThatNameAListenerTheNewestDecides) {
  TwoEnds ends;
  ends.dial();
  const Bytes hello = ends.a.wire.said.front().frame;
  ends.carry();
  Link& first = ends.receiver();
  std::uint16_t version = 0;
  ends.b.reception.on_frame(first.connection() + 1,
                            *decode_header(hello.data(), hello.size(), &version),
                            std::span(hello).subspan(kFrameHeaderBytes));
  ASSERT_NE(&first, &ends.receiver());
  first.take_down(Errc::Timeout);
  EXPECT_EQ(ends.listener().refused, Errc::Ok);
  ends.receiver().take_down(Errc::Timeout);
  EXPECT_EQ(ends.listener().refused, Errc::Timeout);
}

TEST(Handshake, ALinkThatHasOpenedItsChannelDecidesNothingMore) {
  TwoEnds ends;
  ends.come_up();
  ends.receiver().take_down(Errc::PeerGone);
  EXPECT_EQ(ends.listener().refused, Errc::Ok);
}

TEST(Handshake, AWelcomeThatAsksForMoreThanWasOfferedEndsTheLink) {
  TwoEnds ends;
  ends.dial();
  EXPECT_FALSE(ends.sender().handshake().on(Welcome{
      .host = "b", .qps = kQpsMax + 1, .rq_depth = 128, .slots = 64, .rails = {}, .paths = {}}));
}

// The queue pairs of links that have ended are in no bound of those that shake hands.
TEST(Handshake, AnAcceptorMakesNoQueuePairsForADeviceThatLagsBehind) {
  TwoEnds ends;
  DeviceContext& device = *ends.b.contexts[0]->loop.devices[0];
  device.wait_in_background(ends.b.contexts[0]->loop);
  device.work_by_hand();
  const DeviceWork::Call idle{.function = [](void*, std::uint32_t) noexcept {}};
  while (device.destroying() < kDestroyingMax) ASSERT_TRUE(device.call_later(idle));
  ends.dial();
  ends.carry();
  EXPECT_EQ(ends.sender().state(), LinkState::Dialing);
  EXPECT_EQ(ends.connect.state, StageState::Waiting);
  EXPECT_EQ(device.queue_pair_count(), 0u);
  ASSERT_TRUE(device.turn_work());
  ends.advance_ns(kTryPauseMaxNs);
  ends.a.links.tend();
  ends.a.reception.on_dialed(ends.sender().connection());
  ends.carry_all();
  EXPECT_EQ(ends.connect.state, StageState::Ready);
  while (device.turn_work()) continue;
}

}  // namespace
}  // namespace mesh::engine
