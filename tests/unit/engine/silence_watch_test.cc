// A card that hangs without a word: its work requests neither complete nor fail. The path is lost
// within its bound and messages go on over the others, and nothing is lost that only stands still.

#include <mesh/snapshot.h>

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

#include "engine/data/device_context.h"
#include "engine/data/path_silence.h"
#include "engine/data/peer_link.h"
#include "src/base/config.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

using engine::Path, engine::PathState, testkit::Bed, testkit::BedOptions, testkit::kA, testkit::kB,
    testkit::kMs, testkit::kSecond, testkit::LogCapture, testkit::Talk;

constexpr std::size_t kMessageBytes = 1 << 20;
const soft::Fault kFirstMute{.kind = soft::FaultKind::Mute, .nic = "n0"};

void arm(Bed& bed, std::size_t host, const soft::Fault& fault) {
  ASSERT_TRUE(bed.hosts[host].provider->faults().arm(fault).ok());
}

// Starts eight messages of several sizes.
std::vector<Request*> start_eight(Talk& talk) {
  constexpr std::size_t kPart = kMessageBytes / 8;
  std::vector<Request*> requests;
  std::fill(talk.target.begin(), talk.target.end(), std::byte{0xa5});
  for (std::size_t i = 0; i < 8; ++i)
    requests.push_back(talk.receive({.at = i * kPart, .bytes = kPart}).value());
  for (std::size_t i = 0; i < 8; ++i)
    requests.push_back(talk.send({.at = i * kPart, .bytes = i % 3 == 0 ? 100 : kPart}).value());
  return requests;
}

bool holds_eight(const Talk& talk) {
  constexpr std::size_t kPart = kMessageBytes / 8;
  for (std::size_t i = 0; i < 8; ++i) {
    if (!talk.holds(i * kPart, i * kPart, i % 3 == 0 ? 100 : kPart)) return false;
  }
  return true;
}

bool some_fails(Bed& bed, const std::vector<Request*>& requests) {
  bool fails = false;
  for (Request* const request : requests) fails |= !bed.finish(request).ok();
  return fails;
}

// At 100 moments, a card at either side falls silent in the middle of eight messages.
TEST(SilenceWatch, MessagesGoOnOverTheOtherPathWhateverTheMoment) {
  std::uint64_t longest_ns = 0;
  for (std::uint64_t moment = 0; moment < 100; ++moment) {
    SCOPED_TRACE(moment);
    Bed bed({.fabric = testkit::kHalves});
    Talk talk(bed, kA, kB, kMessageBytes);
    talk.exchange(kMessageBytes);
    const LogCapture log;
    const std::vector<Request*> first = start_eight(talk);
    bed.rounds(static_cast<int>(moment) / 2);
    arm(bed, moment % 2, kFirstMute);
    const std::uint64_t began_ns = bed.now_ns();
    bed.tick_ns = 5 * kMs;
    for (Request* const request : first) ASSERT_TRUE(bed.finish(request).ok()) << log.joined();
    ASSERT_TRUE(holds_eight(talk));
    for (Request* const request : start_eight(talk)) ASSERT_TRUE(bed.finish(request).ok());
    ASSERT_TRUE(holds_eight(talk));
    // At the acceptor two seconds more: until a late receive has its credits written again, and
    // until receives that do not come back are given up.
    longest_ns = std::max(longest_ns, bed.now_ns() - began_ns);
    ASSERT_LT(bed.now_ns() - began_ns, kSilenceToLossNs + 4 * kSecond) << log.joined();
    EXPECT_GE(log.count(LogLevel::Warn, engine::kSilentCause), 1) << log.joined();
    bed.hosts[moment % 2].provider->faults().disarm_all();
    ASSERT_TRUE(bed.until([&] {
      return talk.pair.send->link.paths().all_up() && talk.pair.receive->link.paths().all_up();
    })) << log.joined();
    talk.exchange(kMessageBytes);
    EXPECT_EQ(bed.rnr_events(), 0u);
    talk.end();
    ASSERT_TRUE(bed.empties());
  }
  std::printf("mute: 100 moments on one of two paths: messages go on after %.1f s at most\n",
              static_cast<double>(longest_ns) / kSecond);
}

// Two hosts with two halves of a cable, or with three cables of which one carries. Before eight
// messages begin, the first card of one host ceases to complete anything, and it stops and destroys
// queue pairs only as `works` says.
struct WedgedCard {
  explicit WedgedCard(std::size_t host, BedOptions options = {.fabric = testkit::kHalves})
      : sick(host), bed(with_works(std::move(options))) {}
  // Returns the results of the messages.
  std::vector<Status> run(std::function<bool()> works) {
    talk.exchange(kMessageBytes);
    // A receiver's card that hangs has sent credits, and does not answer what is written to it.
    if (sick == 1) testkit::delay_writes(bed.hosts[0], "n0", 5 * kSecond);
    if (sick == 0) arm(bed, 0, kFirstMute);
    const std::vector<Request*> requests = start_eight(talk);
    if (sick == 1) bed.rounds(100);
    arm(bed, sick, kFirstMute);
    began_ns = bed.now_ns();
    bed.tick_ns = 5 * kMs;
    works_ = std::move(works);
    std::vector<Status> ended;
    ended.reserve(requests.size());
    for (Request* const request : requests) ended.push_back(bed.finish(request));
    return ended;
  }
  std::uint64_t took_ns() const { return bed.now_ns() - began_ns; }
  void until_s(std::uint64_t seconds) {
    while (took_ns() < seconds * kSecond) bed.round();
  }
  const Path& path(const Channel& end) const { return end.link.paths()[0]; }
  // The card works again: its path is used again, and everything ends well.
  void recover() {
    for (testkit::BedHost& host : bed.hosts) host.provider->faults().disarm_all();
    works_ = [] { return true; };
    ASSERT_TRUE(bed.until([this] {
      return path(*talk.pair.send).health.state == PathState::Up &&
             path(*talk.pair.receive).health.state == PathState::Up;
    })) << log.joined();
    talk.exchange(kMessageBytes);
    talk.end();
    EXPECT_TRUE(bed.empties());
    EXPECT_EQ(bed.rnr_events(), 0u);
  }

  const std::size_t sick;
  LogCapture log;
  std::uint64_t began_ns = 0;

 private:
  BedOptions with_works(BedOptions options) {
    options.device_works = [] { return true; };
    options.device_hangs = [this](const engine::DeviceContext& device) {
      const bool is_sick =
          device.provider().host_name() == (sick == 0 ? "a" : "b") && device.name() == "n0:1";
      return is_sick && !works_();
    };
    return options;
  }
  std::function<bool()> works_ = [] { return true; };

 public:
  Bed bed;
  Talk talk{bed, kA, kB, kMessageBytes};
};

constexpr const char* kNotStopped =
    "device n0:1 has not stopped the queue pairs of lost path n0:1 ";

// mlx5 gives firmware 60 s for a command. The receiver's card may still write what it has taken.
TEST(SilenceWatch, AReceiversCardWhoseCommandsTakeAMinuteEndsNoLinkThatHasAnotherPath) {
  WedgedCard card(1);
  for (const Status& ended : card.run([&card] { return card.took_ns() >= 60 * kSecond; }))
    ASSERT_TRUE(ended.ok()) << card.log.joined();
  EXPECT_EQ(card.log.count(LogLevel::Warn, kNotStopped), 1) << card.log.joined();
  EXPECT_TRUE(holds_eight(card.talk));
  EXPECT_GE(card.took_ns(), 60 * kSecond);
  EXPECT_LT(card.took_ns(), 65 * kSecond);
  card.recover();
}

// Late data of a sender's card meets nobody, so nothing waits for the card's commands.
TEST(SilenceWatch, ASendersCardWhoseCommandsTakeAMinuteHoldsUpMessagesForFiveSeconds) {
  WedgedCard card(0);
  for (const Status& ended : card.run([&card] { return card.took_ns() >= 60 * kSecond; }))
    ASSERT_TRUE(ended.ok()) << card.log.joined();
  EXPECT_TRUE(holds_eight(card.talk));
  EXPECT_LT(card.took_ns(), 5 * kSecond);
  std::printf("mute: a sender's card whose commands take 60 s: messages go on after %.2f s\n",
              static_cast<double>(card.took_ns()) / kSecond);
  card.until_s(59);
  EXPECT_EQ(card.log.count(LogLevel::Warn, kNotStopped), 1) << card.log.joined();
  EXPECT_EQ(card.path(*card.talk.pair.send).health.reopen_tries, 0u);
  EXPECT_EQ(card.path(*card.talk.pair.receive).health.state, PathState::Quarantined);
  card.talk.exchange(kMessageBytes);
  card.until_s(61);
  EXPECT_EQ(card.path(*card.talk.pair.receive).health.state, PathState::Down);
  card.recover();
}

TEST(SilenceWatch, ASendersCardThatAnswersNoCommandEndsNoLinkThatHasAnotherPath) {
  WedgedCard card(0);
  for (const Status& ended : card.run([] { return false; }))
    ASSERT_TRUE(ended.ok()) << card.log.joined();
  card.until_s(90);
  card.talk.exchange(kMessageBytes);
  card.recover();
}

// The tier that stands by has other keys, so the credits of the lost one are written again.
TEST(SilenceWatch, ASendersCardWhoseCommandsTakeAMinuteIsReplacedByACableThatStandsBy) {
  WedgedCard card(0, {.fabric = testkit::kThreeCables, .rails = "auto"});
  for (const Status& ended : card.run([&card] { return card.took_ns() >= 60 * kSecond; }))
    ASSERT_TRUE(ended.ok()) << card.log.joined();
  EXPECT_TRUE(holds_eight(card.talk));
  EXPECT_LT(card.took_ns(), kSilenceOfAllToLossNs + 5 * kSecond);
  card.until_s(61);
  card.recover();
}

// Credits that the sender's card has taken may land on newer ones until it has stopped.
class LateCredit : public testing::TestWithParam<bool> {
 protected:
  LateCredit() {
    for (const Status& ended : card_.run([this] { return stops_; })) EXPECT_TRUE(ended.ok());
  }
  // Posts a receive on whose credit an old one lands.
  void receive() {
    const Channel& sender = *talk_.pair.send;
    entries_ = sender.link.memory().channel_memory(sender.index).value().memory;
    old_.assign(entries_, entries_ + engine::kCreditBytesMax * sender.link.policy().slots);
    requests_ = {talk_.receive({.bytes = 100}).value()};
    land();
  }
  void land() {
    ASSERT_TRUE(
        card_.bed.until([this] { return !std::equal(old_.begin(), old_.end(), entries_); }));
    std::copy(old_.begin(), old_.end(), entries_);
  }
  void send() { requests_.push_back(talk_.send({.bytes = 100}).value()); }

  WedgedCard card_{0, {.fabric = testkit::kHalves, .rewrites_late = GetParam()}};
  Talk& talk_ = card_.talk;
  bool stops_ = false;
  std::byte* entries_ = nullptr;
  std::vector<std::byte> old_;
  std::vector<Request*> requests_;
};

TEST_P(LateCredit, IsWrittenAgainWhenTheCardHasStopped) {
  receive();
  send();
  card_.bed.rounds(10);
  EXPECT_EQ(test(*requests_.back(), nullptr).code(), Errc::WouldBlock);
  stops_ = true;
  EXPECT_TRUE(card_.bed.finish_all(requests_)) << card_.log.joined();
  card_.recover();
}

TEST_P(LateCredit, IsWrittenAgainEverySecondBefore) {
  if (!GetParam()) return;
  receive();
  for (int i = 0; i < 3; ++i) land();
  send();
  const std::uint64_t began_ns = card_.bed.now_ns();
  EXPECT_TRUE(card_.bed.finish_all(requests_)) << card_.log.joined();
  EXPECT_LT(card_.bed.now_ns() - began_ns, 2 * kSecond);
  card_.recover();
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutTheWatch, LateCredit, testing::Bool());

// Without a bound the lost stripes would wait for ever, because the other path keeps the link up.
TEST(SilenceWatch, ACardThatAnswersNoCommandEndsTheLinkWithItsName) {
  for (const bool stops : {false, true}) {
    SCOPED_TRACE(stops);
    WedgedCard card(1);
    const auto stopping = [](const testkit::Pair& pair) {
      return pair.send->link.paths()[0].stops() || pair.receive->link.paths()[0].stops();
    };
    const std::vector<Status> ended = card.run([&] { return stops && stopping(card.talk.pair); });
    EXPECT_TRUE(std::any_of(ended.begin(), ended.end(), [](const Status& s) { return !s.ok(); }));
    const std::string line = fmt::format(": device n0:1 has not {} the queue pairs of n0:1",
                                         stops ? "destroyed" : "stopped");
    EXPECT_EQ(card.log.count(LogLevel::Warn, line), 2) << card.log.joined();
    EXPECT_LT(card.took_ns(), 80 * kSecond);
  }
}

// At so many moments of eight messages: MUTE_MOMENTS, or a few. A receiver's card lets probes
// through, so the path may come back and be lost once more.
TEST(SilenceWatch, TheOnlyPathEndsInANamedErrorWhateverTheMoment) {
  constexpr std::uint64_t kTimeoutS = 20, kLeastNs = kSilenceOfAllToLossNs + kTimeoutS * kSecond;
  const int moments = std::max(4, std::atoi(process_environment()["MUTE_MOMENTS"].c_str()));
  std::uint64_t longest_ns = 0;
  for (int moment = 0; moment < moments; ++moment) {
    SCOPED_TRACE(moment);
    const bool of_sender = moment % 2 == 0;
    Bed bed({.path_timeout_s = kTimeoutS});
    Talk talk(bed, kA, kB, kMessageBytes);
    talk.exchange(kMessageBytes);
    const LogCapture log;
    const std::vector<Request*> first = start_eight(talk);
    bed.rounds(moment / 2);
    arm(bed, of_sender ? 0 : 1, kFirstMute);
    const std::uint64_t began_ns = bed.now_ns();
    bed.tick_ns = 5 * kMs;
    // The eight may have ended before.
    ASSERT_TRUE(some_fails(bed, first) || some_fails(bed, start_eight(talk))) << log.joined();
    const std::uint64_t took_ns = bed.now_ns() - began_ns;
    ASSERT_GT(took_ns, kLeastNs);
    ASSERT_LT(took_ns, kLeastNs + (of_sender ? 3 * kSecond : kSilenceOfAllToLossNs));
    longest_ns = std::max(longest_ns, took_ns);
    const char* const lost =
        "is lost: its completions stopped for 10 s, and its device reports no error; no other path";
    ASSERT_GE(log.count(LogLevel::Warn, lost), 1) << log.joined();
    ASSERT_EQ(log.count(LogLevel::Warn, "peer b: its only path has not come back within 20 s") +
                  log.count(LogLevel::Warn, "peer a: its only path has not come back within 20 s"),
              1);
  }
  std::printf("mute: %d moments on the only path: a named error after %.1f s at most\n", moments,
              static_cast<double>(longest_ns) / kSecond);
}

// Probes of the sender get through, so the path comes back, and its credits are held again.
TEST(SilenceWatch, AReceiversCardOnTheOnlyPathEndsInAnErrorToo) {
  for (const int ack_timer : {16, 0}) {  // silence lasts for 10 s, and for 22 s
    SCOPED_TRACE(ack_timer);
    Bed bed({.ack_timer = ack_timer});
    Talk talk(bed, kA, kB, kMessageBytes);
    talk.exchange(kMessageBytes);
    const LogCapture log;
    arm(bed, 1, kFirstMute);
    Request* const receiving = talk.receive({.bytes = kMessageBytes}).value();
    Request* const sending = talk.send({.bytes = kMessageBytes}).value();
    const std::uint64_t began_ns = bed.now_ns();
    bed.tick_ns = 5 * kMs;
    EXPECT_EQ(bed.finish(receiving).code(), Errc::Timeout);
    EXPECT_NE(bed.finish(sending).code(), Errc::Ok);
    EXPECT_LT(bed.now_ns() - began_ns, 75 * kSecond);
    EXPECT_TRUE(
        log.warned("(NCCL_MESH_PATH_TIMEOUT); check its cables and ports: n0:1 10.0.1.2 -> n0:1 "
                   "10.0.1.1: its completions stopped for",
                   2))
        << "the other end is told the cause, too";
  }
}

// The timer of 0 never runs out, as with a card that has forgotten it.
TEST(SilenceWatch, APathThatIsRetriedForEverIsLostBelowThePathTimeOut) {
  Bed bed({.fabric = testkit::kHalves, .path_timeout_s = 8, .ack_timer = 0});
  Talk talk(bed, kA, kB, kMessageBytes);
  talk.exchange(kMessageBytes);
  const LogCapture log;
  arm(bed, 0, {.kind = soft::FaultKind::PeerLost, .nic = "n0", .peer_host = "b"});
  const std::uint64_t began_ns = bed.now_ns();
  bed.tick_ns = 5 * kMs;
  talk.exchange(kMessageBytes);
  EXPECT_GT(bed.now_ns() - began_ns, 6 * kSecond);
  EXPECT_LT(bed.now_ns() - began_ns, 9 * kSecond);
  EXPECT_GE(log.count(LogLevel::Warn, "its completions stopped for 6 s"), 1) << log.joined();
}

TEST(SilenceWatch, APauseStormThatStopsEverythingLosesNothing) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kMessageBytes);
  talk.exchange(kMessageBytes);
  const LogCapture log;
  arm(bed, 0, {.kind = soft::FaultKind::Mute, .duration_ns = 8 * kSecond});
  bed.tick_ns = 5 * kMs;
  talk.exchange(kMessageBytes);
  EXPECT_TRUE(log.warned("", 0));
  talk.exchange(kMessageBytes);
}

// Lets eight messages wait for a minute, while `stand` has hosts stand still, and then end well.
template <typename Stand>
void expect_no_loss(const Stand& stand) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kMessageBytes);
  talk.exchange(kMessageBytes);
  const LogCapture log;
  const std::vector<Request*> requests = start_eight(talk);
  bed.rounds(1);
  stand(bed, true);
  bed.tick_ns = 5 * kMs;
  bed.rounds(12'000);
  stand(bed, false);
  for (Request* const request : requests) ASSERT_TRUE(bed.finish(request).ok()) << log.joined();
  EXPECT_TRUE(log.warned("is lost", 0));
}

TEST(SilenceWatch, AHostThatStandsStillIsNoSilence) {
  for (const std::size_t which : {0u, 1u}) {
    SCOPED_TRACE(which);
    expect_no_loss([which](Bed& bed, bool stands) {
      bed.hosts[which].loops_stand = bed.hosts[which].control_stands = stands;
    });
  }
}

// Nobody turns the loop, as NCCL's threads do other things, so completions lie in their queue.
TEST(SilenceWatch, CompletionsThatNobodyHasPolledAreNoSilence) {
  expect_no_loss([](Bed& bed, bool stand) {
    for (testkit::BedHost& host : bed.hosts) host.loops_stand = stand;
  });
}

}  // namespace
}  // namespace mesh
