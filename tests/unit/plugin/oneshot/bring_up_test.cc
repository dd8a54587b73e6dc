#include "plugin/oneshot/bring_up.h"

#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/plugin/oneshot/group_bed.h"

namespace mesh::oneshot {
namespace {

using mesh::testkit::LogCapture, mesh::testkit::row, testkit::GroupBed;

TEST(Hello, TellsWhatMustBeAlike) {
  const Hello ours{.rank = 0, .members = 3, .willing = 1, .bound = 65536};
  Hello peers{.rank = 2, .members = 3, .willing = 1, .bound = 65536};
  EXPECT_EQ(disagreement(ours, peers), "");
  const auto changed = [&](auto Hello::*field, auto value) {
    Hello other = peers;
    other.*field = value;
    return disagreement(ours, other);
  };
  EXPECT_EQ(changed(&Hello::magic, 1u), "its first message is no hello");
  EXPECT_EQ(changed(&Hello::version, 3u),
            "it has version 3 of one-shot all-reduce and this host 2");
  EXPECT_NE(changed(&Hello::piece_bytes, 1u), "");
  EXPECT_NE(changed(&Hello::pieces, 1u), "");
  EXPECT_EQ(changed(&Hello::members, 4u), "it counts 4 members and this host 3");
  EXPECT_EQ(changed(&Hello::rank, 3u), "it says that it is member 3");
  EXPECT_EQ(changed(&Hello::rank, 0u), "it says that it is member 0");
  EXPECT_EQ(changed(&Hello::bound, 4096u),
            "its NCCL_MESH_ONESHOT_BYTES is 4096 and this host's 65536");
  EXPECT_EQ(changed(&Hello::willing, 0u), "it cannot take part; its own log says why");
}

class BringUpOf3 : public testing::Test {
 protected:
  GroupBed bed_{{.fabric = row(3, true)}};
};

// Everybody hears of a member that differs, and says so, before it leaves: nobody waits for long.
TEST_F(BringUpOf3, AnotherBoundFailsEveryMember) {
  LogCapture log;
  bed_.bounds[1] = 4096;
  for (const Errc answer : bed_.connect()) EXPECT_EQ(answer, Errc::Protocol);
  EXPECT_TRUE(log.warned("its NCCL_MESH_ONESHOT_BYTES is", 4))
      << "each pair that differs has a line on both hosts";
}

TEST_F(BringUpOf3, AMemberThatCannotTakePartFailsEveryMember) {
  LogCapture log;
  bed_.willing[2] = 0;
  const std::vector<Errc> answers = bed_.connect();
  EXPECT_NE(answers[0], Errc::Ok);
  EXPECT_NE(answers[1], Errc::Ok);
}

TEST_F(BringUpOf3, WaitsForAMemberAndNamesIt) {
  for (std::size_t rank = 0; rank < 2; ++rank) bed_.invite(rank);
  for (int i = 0; i < 2000; ++i) {
    for (std::size_t rank = 0; rank < 2; ++rank)
      ASSERT_EQ(bed_.bring_up(rank).step().code(), Errc::WouldBlock);
    bed_.bed.round();
  }
  EXPECT_EQ(bed_.bring_up(0).missing(), "2");
  EXPECT_EQ(bed_.bring_up(1).missing(), "2");
}

// Whatever step a member fails in, the others end by themselves: most at once, and those that it
// has told nothing with their bound, naming it (plugin/collnet_seat.h).
struct Failure {
  const char* name = "";
  void (*strike)(GroupBed& bed, int steps) = nullptr;
  int steps_max = 1;  // the member fails after 0, 1, 2, 4, ... of its steps
};
constexpr std::size_t kFailing = 2;

std::vector<std::size_t> others(const GroupBed& bed) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < bed.size(); ++rank) {
    if (rank != kFailing) ranks.push_back(rank);
  }
  return ranks;
}
void step(GroupBed& bed, int steps) {
  for (int i = 0; i < steps; ++i) {
    for (std::size_t rank = 0; rank < bed.size(); ++rank) (void)bed.bring_up(rank).step();
    bed.bed.round();
  }
}
// Without a handle of its own it invites nobody.
void cannot_listen(GroupBed& bed, int) {
  bed.leave(kFailing);
  bed.spoil_handle(kFailing);
  for (const std::size_t rank : others(bed)) bed.invite(rank);
}
void does_not_connect(GroupBed& bed, int) { bed.leave(kFailing); }
void leaves(GroupBed& bed, int steps) {
  step(bed, steps);
  bed.leave(kFailing);
}
void closes_its_context(GroupBed& bed, int steps) {
  leaves(bed, steps);
  bed.bed.close_context({.host = kFailing, .context = 0});
}
void loses_its_card(GroupBed& bed, int steps) {
  step(bed, steps);
  EXPECT_TRUE(bed.bed.hosts[kFailing]
                  .provider->faults()
                  .arm({.kind = soft::FaultKind::CardLeft}, bed.bed.now_ns())
                  .ok());
}

// A triangle goes at once, and a square in steps.
class BringUpWith : public testing::TestWithParam<std::tuple<Failure, int>> {};
INSTANTIATE_TEST_SUITE_P(
    Failures, BringUpWith,
    testing::Combine(testing::Values(Failure{"NoListener", cannot_listen},
                                     Failure{"NoConnect", does_not_connect},
                                     Failure{"Leaving", leaves, 4096},
                                     Failure{"ClosedContext", closes_its_context, 4096},
                                     Failure{"NoCard", loses_its_card, 16}),
                     testing::Values(3, 4)),
    [](const auto& info) {
      return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
    });

// Returns what the others' bring-ups end with; WouldBlock: with their bound. One that fails leaves.
std::vector<Errc> answers_of_others(GroupBed& bed) {
  const std::vector<std::size_t> ranks = others(bed);
  std::vector<Errc> answers(ranks.size(), Errc::WouldBlock);
  const std::uint64_t end_ns = bed.bed.now_ns() + kOneShotConnectToGiveUpNs;
  bed.bed.until([&] {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (answers[i] != Errc::WouldBlock) continue;
      answers[i] = bed.bring_up(ranks[i]).step().code();
      if (answers[i] != Errc::WouldBlock && answers[i] != Errc::Ok) bed.leave(ranks[i]);
    }
    return std::count(answers.begin(), answers.end(), Errc::WouldBlock) == 0 ||
           bed.bed.now_ns() >= end_ns;
  });
  return answers;
}

TEST_P(BringUpWith, AFailingMemberEndsForTheOthers) {
  const auto& [failure, hosts] = GetParam();
  for (int steps = 0; steps <= failure.steps_max; steps = std::max(1, 2 * steps)) {
    SCOPED_TRACE(steps);
    LogCapture log;
    GroupBed bed({.fabric = row(hosts, true)});
    for (std::size_t rank = 0; rank < bed.size(); ++rank) bed.invite(rank);
    failure.strike(bed, steps);
    bed.bed.tick_ns = 4'000'000;
    const std::vector<Errc> answers = answers_of_others(bed);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      // One that has not met it tells nobody whom it reaches, and so may be missing as well.
      const bool bounded = answers[i] == Errc::WouldBlock;
      const std::string missing = bounded ? bed.bring_up(others(bed)[i]).missing() : "2";
      EXPECT_NE(missing.find('2'), std::string::npos) << missing;
      // Once it has told whom it reaches, the others have their groups, and its end is theirs.
      EXPECT_TRUE(steps != 0 || answers[i] != Errc::Ok);
    }
  }
}

}  // namespace
}  // namespace mesh::oneshot
