// A hostile member of the job. It knows the handle, so it may make links. It makes as many as it
// can and opens no channel on them. The host's resources for them are bounded, an honest member
// finds room, and everything is given back.

#include "engine/link/half_open.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/raw_peer.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using engine::MessageType, testkit::Bed, testkit::kA, testkit::kB, testkit::kMs, testkit::kSecond,
    testkit::LogCapture, testkit::RawPeer, testkit::Talk;

std::int64_t resident_kb() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class HostileMember : public testing::Test {
 protected:
  static constexpr std::uint64_t kQueuePairsPerLink = 1 + TransferPolicy{}.qps;

  HostileMember() {
    EXPECT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
    bed_.tick_ns = 0;
  }
  // Makes a member that asks for as many queue pairs as an honest one.
  std::unique_ptr<RawPeer> member() {
    auto peer = std::make_unique<RawPeer>(bed_, handle_);
    peer->qps = TransferPolicy{}.qps;
    peer->rq_depth = TransferPolicy{}.rq_depth;
    return peer;
  }
  // Returns the processor time of an honest connect, in seconds.
  double connect_s() {
    const double began_s = processor_s();
    bed_.tick_ns = 1000;
    Talk talk(bed_, kA, kB, 4096);
    const double took_s = processor_s() - began_s;
    talk.exchange(4096);
    talk.end();
    bed_.tick_ns = 0;
    return took_s;
  }

  Bed bed_{{}};
  const LogCapture log_;
  HandleBytes handle_{};
};

TEST_F(HostileMember, TenThousandLinksWithoutAChannelTakeSixteenMiBAndNobodysTurn) {
  constexpr int kLinks = 10'000;
  [[maybe_unused]] constexpr std::int64_t kGrowthMaxKb = 16 * 1024;
  const double quiet_s = connect_s();
  ASSERT_TRUE(bed_.empties());
  const std::ptrdiff_t descriptors = open_descriptors();
  std::deque<std::unique_ptr<RawPeer>> peers;  // older ones have been ended by the host
  const std::int64_t before_kb = resident_kb();
  std::int64_t growth_kb = 0;
  int made = 0;
  for (int i = 0; i < kLinks; ++i) {
    peers.push_back(member());
    if (peers.size() > 2 * engine::kHalfOpenPerListenerMax) peers.pop_front();
    made += peers.back()->shake_hands() ? 1 : 0;
    ASSERT_LE(bed_.stats(1).links, engine::kHalfOpenPerListenerMax);
    ASSERT_LE(bed_.stats(1).queue_pairs, engine::kHalfOpenPerListenerMax * kQueuePairsPerLink);
    bed_.advance_ns(5 * kMs);
    if (i % 16 == 0) growth_kb = std::max(growth_kb, resident_kb() - before_kb);
  }
  const double during_s = connect_s();
  std::printf(
      "%d links: %d made, %lld KiB at most, honest connect %.2f ms of processor time, %.2f ms "
      "before\n",
      kLinks, made, static_cast<long long>(growth_kb), 1e3 * during_s, 1e3 * quiet_s);
  EXPECT_EQ(made, kLinks);
#if !defined(MESH_SANITIZE_ADDRESS) && !defined(MESH_SANITIZE_THREAD)  // they keep freed memory
  EXPECT_LE(growth_kb, kGrowthMaxKb);
#endif
  EXPECT_LE(during_s, 1.0);
  EXPECT_LE(log_.count(LogLevel::Warn, ""), 100) << log_.joined();

  // The members' connections still stand, but nothing comes over them.
  bed_.advance_ns(kHandshakeStepToAnswerNs);
  EXPECT_TRUE(bed_.until([&] { return bed_.stats(1).links + bed_.stats(1).queue_pairs == 0; }))
      << log_.joined();
  peers.clear();
  EXPECT_TRUE(bed_.until([&] { return open_descriptors() == descriptors; }, 1000))
      << open_descriptors();
}

// The kernel accepts connections to the member's control port, but nobody ever answers.
TEST_F(HostileMember, LinksWhoseConnectionIsGoneEndAfterThePathTimeout) {
  const SocketAddress loopback = *SocketAddress::from_text("127.0.0.1");
  const Result<UniqueFd> silent = tcp_listen(loopback, 0);
  const std::ptrdiff_t descriptors = open_descriptors();
  for (std::size_t i = 0; i < engine::kHalfOpenPerListenerMax; ++i) {
    const auto peer = member();
    peer->control_port = *local_port(silent->get());
    ASSERT_TRUE(peer->shake_hands());
  }
  ASSERT_TRUE(bed_.until([&] {
    return log_.count(LogLevel::Detail, "control connection lost") != 0;
  })) << log_.joined();
  EXPECT_EQ(bed_.stats(1).links, engine::kHalfOpenPerListenerMax);
  for (int i = 0; i < 10; ++i) bed_.advance_ns(100 * kMs), bed_.rounds(20);
  EXPECT_EQ(bed_.stats(1).links, engine::kHalfOpenPerListenerMax)
      << "their connectors may dial again";
  bed_.advance_ns(static_cast<std::uint64_t>(Settings{}.path_timeout_s) * kSecond);
  EXPECT_TRUE(
      bed_.until([&] { return bed_.stats(1).links + bed_.stats(1).queue_pairs == 0; }, 1000))
      << log_.joined();
  bed_.advance_ns(kSecond);  // the goodbye of those connections
  EXPECT_TRUE(bed_.until([&] { return open_descriptors() == descriptors; }, 1000))
      << open_descriptors();
  EXPECT_TRUE(log_.warned("is lost: no way back to its control port"))
      << "the newest, whose end fails the accept";
  EXPECT_TRUE(log_.warned(""));
}

// The host has closed its side of every channel. The peer never closes its own side.
TEST_F(HostileMember, LinksOfClosedChannelsEndWithoutAComplaint) {
  HandleBytes handle{};
  Listener* const listener =
      bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle).value();
  RawPeer peer(bed_, handle);
  ASSERT_TRUE(peer.shake_hands());
  peer.say(peer.open(0));
  ASSERT_TRUE(peer.hear<engine::Opened>(MessageType::Opened));
  bed_.advance_ns(2 * kHandshakeStepToAnswerNs);
  bed_.rounds(10);
  EXPECT_EQ(bed_.stats(1).links, 1u) << "it carries a channel that waits for its accept";
  bed_.hosts[1].engine->close_listener(listener);
  bed_.rounds(10);
  bed_.advance_ns(kHandshakeStepToAnswerNs - 1);
  bed_.rounds(10);
  EXPECT_EQ(bed_.stats(1).links, 1u);
  bed_.advance_ns(1);
  EXPECT_TRUE(peer.hear<engine::Bye>(MessageType::Bye));
  EXPECT_EQ(bed_.stats(1).links, 0u);
  EXPECT_TRUE(log_.warned("", 0));
}

TEST_F(HostileMember, TheLinesThatItCausesAreFew) {
  for (int i = 0; i < 200; ++i) {
    const auto peer = member();
    peer->say(peer->hello());
    ASSERT_TRUE(peer->hear<engine::Welcome>(MessageType::Welcome));
    peer->say(engine::Ready{});  // a connector may not say READY
    ASSERT_TRUE(peer->ended());
  }
  EXPECT_TRUE(log_.said(
      LogLevel::Warn, "peer raw: a control message (READY) that is malformed or out of order", 16));
}

TEST_F(HostileMember, ChannelsThatWaitForOneListenerAreBounded) {
  const auto peer = member();
  ASSERT_TRUE(peer->shake_hands());
  for (std::uint32_t i = 0; i <= engine::kArrivedMax; ++i) {
    peer->say(peer->open(i));
    const auto opened = peer->hear<engine::Opened>(MessageType::Opened);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->result, i < engine::kArrivedMax ? Errc::Ok : Errc::Exhausted);
  }
  EXPECT_EQ(bed_.stats(1).channels, engine::kArrivedMax);
}

TEST_F(HostileMember, WhoMakesManyLinksForOneListenerTakesFromNobodyElse) {
  HandleBytes others{};
  ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, others).ok());
  RawPeer other(bed_, others);
  ASSERT_TRUE(other.shake_hands());
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i <= engine::kHalfOpenPerListenerMax; ++i) {
    peers.push_back(std::make_unique<RawPeer>(bed_, handle_));
    ASSERT_TRUE(peers.back()->shake_hands());
    EXPECT_LE(bed_.stats(1).links, 1 + engine::kHalfOpenPerListenerMax);
  }
  const auto refused = peers.front()->hear<engine::Refuse>(MessageType::Refuse);
  ASSERT_TRUE(refused) << "the oldest of them";
  EXPECT_EQ(refused->reason, Errc::Exhausted);
  EXPECT_EQ(refused->text,
            "host b: this link is closed to make room: it carries no channel and is the oldest of "
            "16 for one listener");
  EXPECT_TRUE(peers.front()->ended());
  for (RawPeer* const peer : {&other, peers[1].get()}) {
    peer->say(peer->open(0));
    EXPECT_TRUE(peer->hear<engine::Opened>(MessageType::Opened));
  }
}

// Handshakes that make progress do not give way, however many there are.
TEST_F(HostileMember, AnHonestConnectorComesAgainUntilThereIsRoom) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < engine::kHalfOpenMax; ++i) {
    if (i % engine::kHalfOpenPerListenerMax == 0) {
      ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
    }
    peers.push_back(std::make_unique<RawPeer>(bed_, handle_));
    ASSERT_TRUE(peers.back()->shake_hands());
  }
  EXPECT_EQ(bed_.stats(1).links, engine::kHalfOpenMax);
  constexpr std::uint64_t kLeftNs = 50 * kMs;
  bed_.advance_ns(kHalfOpenToGiveWayNs - kLeftNs);
  bed_.tick_ns = 10'000;
  const std::uint64_t began_ns = bed_.now_ns();
  Talk talk(bed_, kA, kB, 4096);
  EXPECT_GE(bed_.now_ns() - began_ns, kLeftNs);
  EXPECT_LE(bed_.now_ns() - began_ns, kSecond);
  EXPECT_TRUE(log_.said(LogLevel::Detail,
                        "256 links of its peers carry no channel yet; dialing again in 10 ms"));
  EXPECT_TRUE(log_.said(LogLevel::Detail, "dialing again in 20 ms"));
  EXPECT_TRUE(
      log_.warned("is closed to make room: it carries no channel and is the oldest of 256"));
  EXPECT_TRUE(peers.front()->ended());
  talk.exchange(4096);
}

}  // namespace
}  // namespace mesh
