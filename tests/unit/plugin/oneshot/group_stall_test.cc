// Lines about all-reduces that do not come further.
#include "plugin/oneshot/group.h"

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/plugin/oneshot/group_bed.h"

#include <gtest/gtest.h>

namespace mesh::oneshot {
namespace {

using mesh::testkit::LogCapture, mesh::testkit::row;
using testkit::GroupBed, testkit::kFloatSum, testkit::Round;

constexpr int kBar = 30;

class GroupStall : public testing::Test {
 protected:
  explicit GroupStall(const std::string& fabric = row(3, true))
      : bed_({.fabric = fabric, .stall_seconds = kBar}) {}
  void SetUp() override {
    for (const Errc answer : bed_.connect()) ASSERT_EQ(answer, Errc::Ok);
  }
  // Lets time pass in which all open jobs are tested.
  void seconds(Round& round, int count) {
    for (int i = 0; i < count; ++i) {
      for (std::uint32_t test = 0; test < StallWatch::kTestsToLook; ++test) round.done();
      bed_.bed.advance_ns(kNsPerSecond);
      bed_.bed.round();
    }
  }
  int warnings(const char* words) { return log_.count(LogLevel::Warn, words); }
  void finish(Round& round) {
    EXPECT_TRUE(bed_.bed.until([&] { return round.done(); }));
    round.expect_right();
  }

  GroupBed bed_;
  LogCapture log_;
};

TEST_F(GroupStall, AMemberThatIsLateIsNamedOnce) {
  Round round(kFloatSum, 1000, bed_);
  round.start(*bed_.groups[0], 0);
  round.start(*bed_.groups[1], 1);
  seconds(round, kBar - 1);
  EXPECT_EQ(warnings("one-shot"), 0) << log_.joined();
  seconds(round, kBar);
  EXPECT_EQ(warnings("waits for member 2 (host c), which has sent nothing for it"), 2)
      << log_.joined();
  EXPECT_EQ(warnings("one-shot"), 2) << log_.joined();
  round.start(*bed_.groups[2], 2);
  finish(round);
}

TEST_F(GroupStall, AnAllReduceThatGoesOnSaysSo) {
  Round late(kFloatSum, 1000, bed_), next(kFloatSum, 1000, bed_);
  for (Round* const round : {&late, &next}) {
    round->start(*bed_.groups[0], 0);
    round->start(*bed_.groups[1], 1);
  }
  seconds(late, kBar + 1);
  late.start(*bed_.groups[2], 2);
  finish(late);
  seconds(next, 1);
  EXPECT_EQ(warnings("one-shot all-reduce goes on after 31 s"), 2) << log_.joined();
  next.start(*bed_.groups[2], 2);
  finish(next);
}

TEST_F(GroupStall, TimeBetweenAllReducesIsNoStall) {
  for (int i = 0; i < 3; ++i) {
    Round round(kFloatSum, 1000, bed_);
    round.start(bed_);
    finish(round);
    bed_.bed.advance_ns(3 * kBar * kNsPerSecond);
  }
  Round round(kFloatSum, 1000, bed_);
  round.start(*bed_.groups[0], 0);
  seconds(round, kBar - 1);
  EXPECT_EQ(warnings("one-shot"), 0) << log_.joined();
}

class GroupStallInASquare : public GroupStall {
 protected:
  GroupStallInASquare() : GroupStall(row(4, true)) {}
};

// Members 1 and 3 are neighbours of member 2; member 0 waits for what member 3 would make of it.
TEST_F(GroupStallInASquare, LinesLeadFromMemberToMember) {
  ASSERT_EQ(bed_.groups[0]->steps(), 2u);
  Round round(kFloatSum, 1000, bed_);
  for (const std::size_t rank : {0u, 1u, 3u}) round.start(*bed_.groups[rank], rank);
  seconds(round, kBar + 1);
  EXPECT_EQ(warnings("waits for member 2 (host c), which has sent nothing for it"), 2)
      << log_.joined();
  EXPECT_EQ(warnings("waits for member 3 (host d), which has sent nothing for it"), 1)
      << log_.joined();
  EXPECT_EQ(warnings("one-shot"), 3) << log_.joined();
  round.start(*bed_.groups[2], 2);
  finish(round);
}

}  // namespace
}  // namespace mesh::oneshot
