// The members of a group that still wait, as the watch, memory, paths and figures see them. A group
// that is done waits for nothing, even while nobody has tested it.

#include <mesh/snapshot.h>

#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/data/groups.h"
#include "tests/unit/engine/watched.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::finish_group;
using testkit::kA, testkit::kB;
using testkit::kBar;
using testkit::kMembers, testkit::kStep;
using testkit::LogCapture;
using testkit::members;
using testkit::send;
using testkit::Talk;
using testkit::Watched;
using Sizes = testkit::GroupSizes;

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
  EXPECT_EQ(watched.log.count(LogLevel::Warn, ""), 0) << watched.log.joined();
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
  EXPECT_EQ(log.count(LogLevel::Warn, "NCCL_MESH_PATH_TIMEOUT"), 0) << log.joined();
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

}  // namespace
}  // namespace mesh
