// Receives that are started together have one request, which is done when each member has its
// message.

#include "tests/unit/engine/data/groups.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <span>
#include <vector>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::finish_group;
using testkit::kA, testkit::kB;
using testkit::kMembers, testkit::kStep;
using testkit::members;
using testkit::send;
using testkit::Talk;
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
      EXPECT_TRUE(bed.finish(single).ok());
      EXPECT_TRUE(bed.finish(last).ok());
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

}  // namespace
}  // namespace mesh
