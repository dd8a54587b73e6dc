#include "plugin/oneshot/group.h"

#include <mesh/snapshot.h>

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/plugin/oneshot/group_bed.h"

namespace mesh::oneshot {
namespace {

using mesh::testkit::LogCapture, mesh::testkit::row, testkit::GroupBed, testkit::kFloatSum,
    testkit::Place, testkit::Round, testkit::Shape;

class GroupOf : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    bed_ = std::make_unique<GroupBed>(
        testkit::GroupBedOptions{.fabric = row(GetParam().hosts, GetParam().ring)});
    for (const Errc answer : bed_->connect()) ASSERT_EQ(answer, Errc::Ok) << errc_name(answer);
  }
  void TearDown() override {
    bed_->groups.clear();
    EXPECT_TRUE(bed_->bed.empties());
  }
  void run(Round& round) {
    round.start(*bed_);
    EXPECT_TRUE(bed_->bed.until([&] { return round.done(); }));
    round.expect_right();
  }
  std::unique_ptr<GroupBed> bed_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, GroupOf,
                         testing::Values(Shape{"pair", 2, false}, Shape{"triangle", 3, true},
                                         Shape{"line", 3, false}, Shape{"square", 4, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(GroupOf, EveryMemberHasTheSumOfAll) {
  for (const std::size_t count : {1u, 3u, 128u, 4096u, 12'288u, 32'768u, 32'769u, 200'000u}) {
    Round round(kFloatSum, count, *bed_);
    run(round);
  }
}

TEST_P(GroupOf, EveryTypeAndOperationIsReduced) {
  for (std::size_t element = 0; element < kElements; ++element) {
    for (std::size_t operation = 0; operation < kOperations; ++operation) {
      Round round({static_cast<Element>(element), static_cast<Operation>(operation)}, 777, *bed_);
      run(round);
    }
  }
}

TEST_P(GroupOf, NothingIsDoneAtOnce) {
  Round round(kFloatSum, 0, *bed_);
  run(round);
}

TEST_P(GroupOf, ResultMayReplaceTheInput) {
  for (const std::size_t count : {5u, 300'000u}) {
    Round round(kFloatSum, count, *bed_, Place::InPlace);
    run(round);
  }
}

// NCCL has up to 64 outstanding, and asks for the oldest alone.
TEST_P(GroupOf, ManyOutstandingEndInOrder) {
  std::deque<Round> rounds;
  for (std::size_t i = 0; i < Group::kJobs; ++i) {
    rounds.emplace_back(kFloatSum, 1 + i * 211, *bed_);
    rounds.back().start(*bed_);
  }
  Round one_too_many(kFloatSum, 1, *bed_);
  EXPECT_EQ(bed_->groups[0]->all_reduce(one_too_many.work(0)).code(), Errc::WouldBlock);
  for (Round& round : rounds) {
    EXPECT_TRUE(bed_->bed.until([&] { return round.done(); }));
    round.expect_right();
  }
}

// One member begins long before the others, and then long after them.
TEST_P(GroupOf, AMemberMayBeFarAhead) {
  std::deque<Round> rounds;
  for (std::size_t i = 0; i < 40; ++i) {
    rounds.emplace_back(kFloatSum, 9'000, *bed_);
    rounds.back().start(*bed_->groups[0], 0);
  }
  bed_->bed.rounds(50);
  for (Round& round : rounds) {
    for (std::size_t rank = bed_->size() - 1; rank > 0; --rank)
      round.start(*bed_->groups[rank], rank);
  }
  for (Round& round : rounds) {
    EXPECT_TRUE(bed_->bed.until([&] { return round.done(); }));
    round.expect_right();
  }
}

// A peer that ends its communicator ends the open jobs of all others, and every later one.
TEST_P(GroupOf, AMemberThatLeavesFailsTheOthers) {
  LogCapture log;
  Round round(kFloatSum, 1000, *bed_);
  for (std::size_t rank = 1; rank < bed_->size(); ++rank) round.start(*bed_->groups[rank], rank);
  bed_->bed.rounds(20);
  bed_->groups[0].reset();
  EXPECT_TRUE(bed_->bed.until([&] { return round.done(); }));
  for (std::size_t rank = 1; rank < bed_->size(); ++rank) {
    EXPECT_NE(round.status(rank), Errc::Ok);
    EXPECT_EQ(bed_->groups[rank]->all_reduce(round.work(rank)).code(), round.status(rank));
  }
}

TEST_P(GroupOf, MembersThatDisagreeOnASizeFail) {
  LogCapture log;
  Round less(kFloatSum, 100, *bed_), more(kFloatSum, 101, *bed_);
  less.start(*bed_->groups[0], 0);
  for (std::size_t rank = 1; rank < bed_->size(); ++rank) more.start(*bed_->groups[rank], rank);
  EXPECT_TRUE(bed_->bed.until([&] { return less.done(); }));
  EXPECT_EQ(less.status(0), Errc::Protocol);
}

// A long message is reduced in slices, and the caller gets its thread back between them.
TEST_P(GroupOf, ALongMessageTakesMoreThanOneCall) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  Round round(kFloatSum, kBytes / sizeof(float), *bed_);
  round.start(*bed_);
  std::size_t calls = 0;
  EXPECT_TRUE(bed_->bed.until([&] { return ++calls, round.done(); }));
  EXPECT_GE(calls, kBytes * bed_->size() / Group::kReducedBytesMax);
  round.expect_right();
}

// The hosts of a cube, each with a cable to the three whose numbers differ in one bit.
std::string cube_fabric() {
  std::string hosts, links;
  for (int host = 0; host < 8; ++host) {
    std::string nics;
    for (int bit = 1; bit < 8; bit *= 2) {
      const int low = host & ~bit, end = (host & bit) == 0 ? 1 : 2;
      nics += fmt::format(R"({}{{"name":"n{}","address":"10.{}.{}.{}/24"}})", bit == 1 ? "" : ",",
                          bit, bit, low, end);
      if (end == 1)
        links += fmt::format(R"({}{{"ends":["h{}/n{}","h{}/n{}"]}})", links.empty() ? "" : ",",
                             host, bit, host | bit, bit);
    }
    hosts += fmt::format(R"({}{{"name":"h{}","nics":[{}]}})", host == 0 ? "" : ",", host, nics);
  }
  return fmt::format(R"({{"name":"cube","hosts":[{}],"links":[{}]}})", hosts, links);
}

std::uint64_t relayed_bytes(const GroupBed& bed) {
  std::uint64_t bytes = 0;
  for (const auto& host : bed.bed.hosts) {
    for (const RelayedSnapshot& way : host.engine->snapshot().relay.ways) bytes += way.bytes;
  }
  return bytes;
}

// Everything goes over one cable, and nothing over a host between.
void expect_steps_along_cables(const std::string& fabric, std::size_t steps) {
  GroupBed bed({.fabric = fabric});
  for (const Errc answer : bed.connect()) ASSERT_EQ(answer, Errc::Ok);
  for (const auto& group : bed.groups) EXPECT_EQ(group->steps(), steps);
  const std::uint64_t relayed = relayed_bytes(bed);
  for (const Element element : {Element::Float, Element::Half, Element::Int8}) {
    for (const std::size_t count : {1u, 999u, 100'000u}) {
      Round round({element, Operation::Sum}, count, bed);
      round.start(bed);
      EXPECT_TRUE(bed.bed.until([&] { return round.done(); }));
      round.expect_right();
    }
  }
  EXPECT_EQ(relayed_bytes(bed), relayed);
}
TEST(GroupAlongCables, ASquareTakesTwoSteps) { expect_steps_along_cables(row(4, true), 2); }
TEST(GroupAlongCables, ACubeTakesThreeSteps) { expect_steps_along_cables(cube_fabric(), 3); }

// Losses of a cable lose and double nothing.
TEST(GroupOverCables, ACutCableChangesNoResult) {
  GroupBed bed({.fabric = mesh::testkit::cables(2), .rails = "all"});
  for (const Errc answer : bed.connect()) ASSERT_EQ(answer, Errc::Ok);
  LogCapture log;
  for (int cut = 0; cut < 6; ++cut) {
    std::deque<Round> rounds;
    for (std::size_t i = 0; i < 12; ++i) {
      rounds.emplace_back(kFloatSum, 40'000, bed);
      rounds.back().start(bed);
    }
    bed.bed.rounds(3 + cut);
    mesh::testkit::cut_cable(bed.bed, cut % 2);
    for (Round& round : rounds) {
      EXPECT_TRUE(bed.bed.until([&] { return round.done(); }));
      round.expect_right();
    }
    mesh::testkit::mend_cable(bed.bed, cut % 2);
    bed.bed.rounds(20'000);
  }
  std::uint64_t failures = 0;
  for (const PeerSnapshot& peer : bed.bed.hosts[0].engine->snapshot().peers) {
    for (const PathSnapshot& path : peer.paths) failures += path.failures;
  }
  EXPECT_GE(failures, 6u) << "no cable was lost in the midst of a message";
}

// Lines about all-reduces that do not come further.

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
