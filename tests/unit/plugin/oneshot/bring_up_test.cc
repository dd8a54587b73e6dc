#include "plugin/oneshot/bring_up.h"

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/plugin/oneshot/group_bed.h"

#include <algorithm>

namespace mesh::oneshot {
namespace {

using mesh::testkit::LogCapture, mesh::testkit::row;
using testkit::GroupBed;

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
  EXPECT_EQ(log.count(LogLevel::Warn, "its NCCL_MESH_ONESHOT_BYTES is"), 4)
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

// A member that gives up half-way is heard of at once.
TEST_F(BringUpOf3, AMemberThatLeavesFailsTheOthers) {
  LogCapture log;
  for (std::size_t rank = 0; rank < 3; ++rank) bed_.invite(rank);
  std::vector<Errc> answers(2, Errc::WouldBlock);
  for (int i = 0; i < 40; ++i) {
    if (bed_.bring_up(2).step().code() != Errc::WouldBlock) break;
    bed_.bed.round();
  }
  bed_.leave(2);
  EXPECT_TRUE(bed_.bed.until([&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      if (answers[rank] == Errc::WouldBlock) answers[rank] = bed_.bring_up(rank).step().code();
    }
    return std::count(answers.begin(), answers.end(), Errc::WouldBlock) == 0;
  }));
  for (const Errc answer : answers) EXPECT_NE(answer, Errc::Ok);
}

}  // namespace
}  // namespace mesh::oneshot
