// Receives that are started together have one request, which is done when each member has its
// message.

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "tests/prelude.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/data/groups.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/watched.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::finish_group, testkit::kA, testkit::kB, testkit::kBar,
    testkit::kMembers, testkit::kStep, testkit::LogCapture, testkit::members, testkit::send,
    testkit::Talk, testkit::Watched;
using Sizes = testkit::GroupSizes;

TEST(Group, IsDoneWhenEachMemberHasItsMessageAndSaysItsSize) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 20));
  std::vector<Request*> sends;
  for (std::size_t i = kMembers; i-- > 0;) {
    Sizes none{};
    EXPECT_EQ(test_group(*group, none).code(), Errc::WouldBlock);
    sends.push_back(*send(talk, i * kStep, i * 17, 20 + static_cast<std::uint32_t>(i)));
    EXPECT_TRUE(bed.finish(sends.back()).ok()) << "no member waits for another one";
  }
  EXPECT_EQ(test(*group, nullptr).code(), Errc::InvalidArgument) << "test_group() is for groups";
  Sizes sizes{};
  const Result<std::size_t> count = finish_group(bed, group, &sizes);
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, kMembers);
  for (std::size_t i = 0; i < kMembers; ++i) {
    EXPECT_EQ(sizes[i], i * 17);
    EXPECT_TRUE(talk.holds(i * kStep, i * kStep, i * 17));
  }
  talk.exchange(kStep);
}

TEST(Group, OfOneIsASingleReceiveAndOfNoneOrNineIsRefused) {
  Bed bed({});
  Talk talk(bed, kA, kB, 9 * kStep);
  const std::vector<RecvArgs> nine = members(talk, 0, 0, 9);
  EXPECT_EQ(irecv_group(*talk.pair.receive, nine).code(), Errc::InvalidArgument);
  EXPECT_EQ(irecv_group(*talk.pair.receive, std::span(nine).first(0)).code(),
            Errc::InvalidArgument);
  EXPECT_EQ(irecv_group(*talk.pair.send, std::span(nine).first(2)).code(), Errc::InvalidArgument);
  Request* const single = *irecv_group(*talk.pair.receive, std::span(nine).first(1));
  Request* const sending = *send(talk, 0, 100, 0);
  std::size_t bytes = 0;
  EXPECT_TRUE(bed.finish(single, &bytes).ok());
  EXPECT_EQ(bytes, 100u);
  EXPECT_TRUE(bed.finish(sending).ok());
}

TEST(Group, TakesSlotsForAllMembersOrNone) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  std::deque<Request*> groups;
  for (int i = 0; i < 3; ++i)
    groups.push_back(*irecv_group(*talk.pair.receive, members(talk, 0, 0)));
  Request* const single = *talk.receive({.bytes = 8, .tag = 3});  // 25 of 32 slots
  EXPECT_EQ(irecv_group(*talk.pair.receive, members(talk, 0, 0)).code(), Errc::WouldBlock);
  groups.push_back(*irecv_group(*talk.pair.receive, members(talk, 0, 0, 7)));
  EXPECT_EQ(talk.receive({.bytes = 8}).code(), Errc::WouldBlock);
  Sizes sizes{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::vector<Request*> sends;
    for (std::uint32_t tag = 0; tag < (i == 3 ? 7 : kMembers); ++tag)
      sends.push_back(*send(talk, 0, 8, tag));
    for (Request* request : sends) EXPECT_TRUE(i == 3 || bed.finish(request).ok());
    if (i == 2) {
      Request* const last = *send(talk, 0, 8, 3);
      EXPECT_TRUE(bed.finish_all({single, last}));
    }
    EXPECT_TRUE(finish_group(bed, groups[i], &sizes).ok());
  }
}

// A refused group leaves nothing in the slots that it had filled before the refusal.
TEST(Group, RefusedForItsLastMemberLeavesEverySlotToTheNextOne) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  std::vector<RecvArgs> wrong = members(talk, 0, 0);
  wrong.back().bytes = kStep + 1;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(irecv_group(*talk.pair.receive, wrong).code(), Errc::InvalidArgument);
  Request* const single = *talk.receive({.bytes = 8, .tag = 50});
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0));
  std::vector<Request*> sends{*send(talk, 0, 8, 50)};
  for (std::uint32_t tag = 0; tag < kMembers; ++tag)
    sends.push_back(*send(talk, tag * kStep, 100 + tag, tag));
  for (Request* request : sends) EXPECT_TRUE(bed.finish(request).ok());
  std::size_t bytes = 0;
  EXPECT_TRUE(bed.finish(single, &bytes).ok());
  EXPECT_EQ(bytes, 8u);
  Sizes sizes{};
  EXPECT_TRUE(finish_group(bed, group, &sizes).ok());
  for (std::size_t i = 0; i < kMembers; ++i) {
    EXPECT_EQ(sizes[i], 100 + i);
    EXPECT_TRUE(talk.holds(i * kStep, i * kStep, 100 + i));
  }
}

// Some members are empty and have no region, and the ring of slots ends within a group. Sizes are
// read into int, as NCCL does, or not read at all.
TEST(Group, OfEmptyMembersAndAroundTheEndOfTheRing) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  for (int round = 0; round < 12; ++round) {
    std::vector<RecvArgs> some = members(talk, 0, 0, 7);
    if (round % 3 == 1) some[2] = {.tag = 2};
    Request* const group = *irecv_group(*talk.pair.receive, some);
    std::vector<Request*> sends;
    for (std::uint32_t tag = 0; tag < 7; ++tag)
      sends.push_back(*send(talk, tag * kStep, some[tag].bytes == 0 ? 0 : 40 + tag, tag));
    for (Request* request : sends) EXPECT_TRUE(bed.finish(request).ok());
    std::array<int, kGroupMax> sizes{};
    const std::size_t told = round % 4 == 3 ? 0 : sizes.size();
    Result<std::size_t> count = Errc::WouldBlock;
    bed.until([&] {
      count = test_group(*group, std::span(sizes).first(told));
      return count.code() != Errc::WouldBlock;
    });
    ASSERT_TRUE(count.ok()) << round;
    EXPECT_EQ(*count, 7u);
    for (std::size_t i = 0; i < 7 && told != 0; ++i)
      EXPECT_EQ(sizes[i], some[i].bytes == 0 ? 0 : static_cast<int>(40 + i)) << round;
  }
}

TEST(Group, MessageLargerThanItsMemberFailsTheGroupWhenTheOthersAreIn) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0));
  Request* const large = *send(talk, 0, kStep + 1, 2);
  EXPECT_EQ(bed.finish(large).code(), Errc::Truncated);
  Sizes sizes{};
  bed.rounds(1000);
  EXPECT_EQ(test_group(*group, sizes).code(), Errc::WouldBlock) << "its credits are live";
  for (const std::uint32_t tag : {0u, 1u, 3u, 4u, 5u, 6u, 7u})
    EXPECT_TRUE(bed.finish(*send(talk, 0, 9, tag)).ok());
  EXPECT_EQ(finish_group(bed, group, &sizes).code(), Errc::Truncated);
  talk.exchange(kStep);
}

TEST(Group, OpenOnesFailOnceWhenTheChannelEnds) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0));
  Request* const second = *irecv_group(*talk.pair.receive, members(talk, 0, 0));
  EXPECT_TRUE(bed.finish(*send(talk, 0, 9, 0)).ok());
  Request* const unmatched = *send(talk, 0, 9, 77);
  close(talk.pair.send);
  Sizes sizes{};
  EXPECT_EQ(finish_group(bed, group, &sizes).code(), Errc::PeerClosed);
  EXPECT_EQ(finish_group(bed, second, &sizes).code(), Errc::PeerClosed);
  EXPECT_EQ(test_group(*group, sizes).code(), Errc::InvalidArgument) << "it was answered";
  EXPECT_EQ(irecv_group(*talk.pair.receive, members(talk, 0, 0)).code(), Errc::PeerClosed);
  static_cast<void>(unmatched);
}

// The members of a group that still wait, as the watch, memory, paths and figures see them. A group
// that is done waits for nothing, even while nobody has tested it.

// Sends one message of each tag and waits for all of them, so all have landed.
void send_all(Talk& talk, std::initializer_list<std::uint32_t> tags) {
  for (const std::uint32_t tag : tags)
    EXPECT_TRUE(talk.bed.finish(*send(talk, tag * kStep, 100 + tag, tag)).ok());
}

// Returns a group of which every member has its message and which nobody has tested.
Request* done_group(Talk& talk) {
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  send_all(talk, {0, 1, 2});
  talk.bed.rounds(100);
  return group;
}

void register_again(Talk& talk) {
  talk.target_region = *register_memory(*talk.pair.receive, talk.target.data(), talk.target.size(),
                                        MemoryType::Host);
}

std::uint64_t open_requests(const Bed& bed, std::size_t host) {
  const EngineSnapshot shot = bed.hosts[host].engine->snapshot();
  EXPECT_EQ(shot.peers.size(), 1u);
  return shot.peers.empty() ? 0 : shot.peers[0].open_requests;
}

void expect_done(Bed& bed, Request* group) {
  Sizes sizes{};
  const Result<std::size_t> count = finish_group(bed, group, &sizes);
  ASSERT_TRUE(count.ok()) << errc_name(count.code());
  EXPECT_EQ(*count, 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(sizes[i], 100 + i);
}

TEST(Group, ThatIsDoneAndNotTestedIsNotReported) {
  Watched watched;
  Request* const group = done_group(watched.talk);
  watched.seconds(kBar + 3);
  watched.expect_said(LogLevel::Info, "is open for", 0);
  EXPECT_TRUE(watched.log.warned("", 0));
  expect_done(watched.bed, group);
}

// The watch still looks at requests behind such a group.
TEST(Group, ThatIsDoneAndNotTestedDoesNotHideAReceiveThatWaits) {
  Watched watched;
  Request* const group = done_group(watched.talk);
  watched.post_receive({.bytes = 72, .tag = 5});
  watched.seconds(kBar + 3);
  watched.expect_said(LogLevel::Info, "receive 3 of channel 0 (72 bytes) is open for 30 s", 1);
  expect_done(watched.bed, group);
}

// The first member has its message; the third and the last one wait.
TEST(Group, ReportNamesTheFirstMemberThatWaits) {
  Watched watched;
  ASSERT_TRUE(irecv_group(*watched.talk.pair.receive, members(watched.talk, 0, 0, 4)).ok());
  send_all(watched.talk, {1, 0});
  watched.seconds(kBar + 3);
  watched.expect_said(LogLevel::Info,
                      "peer a: receive 2 with tag 2 of channel 0 (4096 bytes) is open for 30 s and "
                      "waits for the peer: it has sent nothing for it",
                      1);
}

TEST(Group, RegionOfOneThatIsDoneIsFree) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = done_group(talk);
  const LogCapture log;
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_EQ(bed.stats(1).revokes, 0u) << log.joined();
  expect_done(bed, group);
  register_again(talk);
  talk.exchange(kStep);
}

TEST(Group, RegionOfOneThatHasFailedIsFree) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  EXPECT_EQ(bed.finish(*send(talk, 0, kStep + 1, 1)).code(), Errc::Truncated);
  send_all(talk, {0, 2});
  bed.rounds(100);
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_EQ(bed.stats(1).revokes, 0u);
  Sizes sizes{};
  EXPECT_EQ(finish_group(bed, group, &sizes).code(), Errc::Truncated);
  register_again(talk);
  talk.exchange(kStep);
}

// The member's own message is there, but the group's request is not done.
TEST(Group, RegionOfOneThatIsOpenIsRevokedThoughItsMemberHasItsMessage) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  std::vector<std::byte> other(kStep);
  Registration* const region =
      *register_memory(*talk.pair.receive, other.data(), other.size(), MemoryType::Host);
  std::vector<RecvArgs> some = members(talk, 0, 0, 3);
  some[1].data = other.data();
  some[1].region = region;
  Request* const group = *irecv_group(*talk.pair.receive, some);
  send_all(talk, {0, 1});
  deregister_memory(*talk.pair.receive, region);
  EXPECT_EQ(bed.stats(1).revokes, 1u);
  Sizes sizes{};
  EXPECT_EQ(finish_group(bed, group, &sizes).code(), Errc::Revoked);
}

// One group is done, one has failed, one is open. Only the open one gets the channel's error.
TEST(Group, ThatHasEndedKeepsItsAnswerWhenTheChannelEnds) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const done = done_group(talk);
  Request* const truncated = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  EXPECT_EQ(bed.finish(*send(talk, 0, kStep + 1, 1)).code(), Errc::Truncated);
  send_all(talk, {0, 2});
  Request* const open = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  send_all(talk, {1});
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_EQ(bed.stats(1).revokes, 1u);
  EXPECT_EQ(open_requests(bed, 1), 0u);
  Sizes sizes{};
  EXPECT_EQ(finish_group(bed, open, &sizes).code(), Errc::Revoked);
  EXPECT_EQ(finish_group(bed, truncated, &sizes).code(), Errc::Truncated);
  expect_done(bed, done);
}

// The path stays away longer than the path time-out, but no request waits for it.
TEST(Group, ThatIsDoneAndNotTestedEndsNoLinkWithoutAPath) {
  const std::string fabric = testkit::cables(1);
  Bed bed({.fabric = fabric.c_str(), .path_timeout_s = 3});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = done_group(talk);
  const LogCapture log;
  testkit::cut_cable(bed, 0);
  bed.tick_ns = 10'000'000;
  bed.rounds(1000);
  EXPECT_NE(log.count(LogLevel::Warn, "is lost"), 0) << log.joined();
  EXPECT_TRUE(log.warned("NCCL_MESH_PATH_TIMEOUT", 0));
  testkit::mend_cable(bed, 0);
  expect_done(bed, group);
  talk.exchange(kStep);
}

TEST(Group, ThatIsOpenEndsALinkWithoutAPath) {
  const std::string fabric = testkit::cables(1);
  Bed bed({.fabric = fabric.c_str(), .path_timeout_s = 3});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  send_all(talk, {0, 2});
  testkit::cut_cable(bed, 0);
  bed.tick_ns = 10'000'000;
  Sizes sizes{};
  EXPECT_EQ(finish_group(bed, group, &sizes).code(), Errc::Timeout);
}

TEST(Group, MembersWithoutAMessageAreTheOpenRequests) {
  Bed bed({});
  Talk talk(bed, kA, kB, kMembers * kStep);
  Request* const group = *irecv_group(*talk.pair.receive, members(talk, 0, 0, 3));
  bed.rounds(100);
  EXPECT_EQ(open_requests(bed, 1), 3u);
  send_all(talk, {2, 0});
  bed.rounds(100);
  EXPECT_EQ(open_requests(bed, 1), 1u);
  send_all(talk, {1});
  bed.rounds(100);
  EXPECT_EQ(open_requests(bed, 1), 0u) << "nobody has tested it";
  expect_done(bed, group);
  EXPECT_EQ(open_requests(bed, 1), 0u);
}

// Eight ranks that share a proxy: groups of receives, and sends in any order.

// Runs rounds of groups with all tags. The sends of each tag advance independently, as those of
// eight ranks that share a proxy.
class Rounds {
 public:
  Rounds(Bed& bed, Talk& talk, std::size_t rounds) : bed_(bed), talk_(talk), rounds_(rounds) {}

  // The tag whose sends wait until no other tag can go on.
  std::uint32_t late_tag = UINT32_MAX;
  std::size_t open_max = 8;
  std::size_t lose_at = SIZE_MAX;  // the round in which a path is lost

  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::size_t idle = 0;
    while (done_ < rounds_ * kMembers + rounds_ && idle < 200'000) {
      const std::size_t before = done_ + started_;
      step(random, idle > 2000);
      bed_.round();
      idle = done_ + started_ == before ? idle + 1 : 0;
    }
    ASSERT_EQ(done_, rounds_ * kMembers + rounds_) << "stuck, seed " << seed;
  }

 private:
  struct Sender {
    std::deque<Request*> open;
    std::size_t started = 0;
  };
  struct Group {
    Request* request = nullptr;
    std::size_t round = 0;
  };
  static std::size_t size_of(std::size_t round, std::size_t tag) {
    return (round * 131 + tag * 977) % kStep;
  }
  static std::size_t place_of(std::size_t round, std::size_t tag) {
    return (round % 8 * kMembers + tag) * kStep;
  }

  void step(std::mt19937& random, bool stuck) {
    if (groups_.size() < 8 && posted_ < rounds_) start_group();
    const auto tag = static_cast<std::uint32_t>(random() % kMembers);
    Sender& sender = senders_[tag];
    const bool may =
        sender.open.size() < open_max && sender.started < rounds_ && (tag != late_tag || stuck);
    if (may && random() % 2 == 0) {
      const Result<Request*> sending =
          send(talk_, place_of(sender.started, tag), size_of(sender.started, tag), tag);
      if (sending.ok()) sender.open.push_back(*sending), ++sender.started, ++started_;
    } else if (!sender.open.empty()) {
      const Status status = test(*sender.open.front(), nullptr);
      if (status.code() == Errc::WouldBlock) return take_group();
      ASSERT_TRUE(status.ok()) << errc_name(status.code());
      sender.open.pop_front(), ++done_;
    }
    take_group();
  }
  void start_group() {
    if (posted_ == lose_at && talk_.pair.receive->link.paths().count() > 1)
      testkit::lose_path(*talk_.pair.send, 0), lose_at = SIZE_MAX;
    const Result<Request*> group =
        irecv_group(*talk_.pair.receive, members(talk_, place_of(posted_, 0), 0));
    if (group.ok()) groups_.push_back({*group, posted_++}), ++started_;
  }
  void take_group() {
    if (groups_.empty()) return;
    const Group group = groups_.front();
    Sizes sizes{};
    const Result<std::size_t> count = test_group(*group.request, sizes);
    if (count.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(count.ok()) << errc_name(count.code());
    for (std::size_t tag = 0; tag < kMembers; ++tag) {
      const std::size_t at = place_of(group.round, tag);
      ASSERT_EQ(sizes[tag], size_of(group.round, tag)) << "round " << group.round;
      ASSERT_TRUE(talk_.holds(at, at, sizes[tag])) << "round " << group.round << ", tag " << tag;
    }
    groups_.pop_front(), ++done_;
  }

  Bed& bed_;
  Talk& talk_;
  const std::size_t rounds_;
  std::array<Sender, kMembers> senders_;
  std::deque<Group> groups_;
  std::size_t posted_ = 0, started_ = 0, done_ = 0;
};

TransferPolicy many_slots() {
  TransferPolicy policy;
  policy.slots = 64;
  return policy;
}

TEST(Group, EightTagsWithEightOpenAndOneOfThemLate) {
  Bed bed({.policy = many_slots()});
  Talk talk(bed, kA, kB, 8 * kMembers * kStep);
  Rounds rounds(bed, talk, 40);
  rounds.late_tag = 7;
  rounds.run(1);
}

TEST(Group, ManyInRandomOrder) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    Bed bed({.policy = many_slots()});
    Talk talk(bed, kA, kB, 8 * kMembers * kStep);
    Rounds rounds(bed, talk, 1250);
    rounds.run(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Group, OutlivesTheLossOfAPath) {
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    Bed bed({.fabric = testkit::kThreeCables, .policy = many_slots()});
    Talk talk(bed, kA, kB, 8 * kMembers * kStep);
    testkit::delay_writes(bed.hosts[0], "n0", 20'000);
    Rounds rounds(bed, talk, 200);
    rounds.lose_at = 50;
    rounds.run(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mesh
