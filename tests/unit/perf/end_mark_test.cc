#include "perf/mesh_perf/run_end.h"

#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/perf/patience.h"

namespace mesh::perf {
namespace {

constexpr int kWorld = 3;

// Three ranks in one process. Each has its own file name, as if on the disk of its own host.
class EndMarkTest : public testing::Test {
 protected:
  std::string file_of(int rank) const { return folder_.path("mark" + std::to_string(rank)); }

  // Runs rounds on every rank until it sees the mark. Rank `maker` makes its file after `rounds`
  // rounds. Returns the rounds of each rank.
  std::array<int, kWorld> rounds_until(int maker, int rounds) {
    auto rendezvous = driver::open_loopback_rendezvous();
    EXPECT_TRUE(rendezvous.ok());
    std::array<int, kWorld> ran{};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kWorld; ++rank) {
      const int fd = rank == 0 ? rendezvous->socket.release() : -1;
      ranks.emplace_back([&, rank, fd] {
        auto bootstrap =
            driver::Bootstrap::join({rank, kWorld, rendezvous->address, fd, driver::kPatience});
        ASSERT_TRUE(bootstrap.ok());
        EndMark mark(file_of(rank), *bootstrap);
        int& own = ran[static_cast<std::size_t>(rank)];
        for (;;) {
          const auto seen = mark.seen();
          ASSERT_TRUE(seen.ok());
          if (*seen) return;
          if (++own == rounds && rank == maker) std::ofstream(file_of(rank)) << "end";
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return ran;
  }

  const testkit::Folder folder_;
};

TEST_F(EndMarkTest, AllRanksEndAfterTheRoundInWhichAnyOneHasTheFile) {
  for (int maker = 0; maker < kWorld; ++maker) {
    EXPECT_EQ(rounds_until(maker, 5), (std::array<int, kWorld>{5, 5, 5}))
        << "rank " << maker << " has it";
    std::filesystem::remove(file_of(maker));
  }
}

TEST_F(EndMarkTest, AFileThatIsThereFromTheBeginningEndsTheRunAtOnce) {
  std::ofstream(file_of(1)) << "end";
  EXPECT_EQ(rounds_until(1, 1), (std::array<int, kWorld>{0, 0, 0}));
}

// Joins a run of two ranks, of which rank 1 leaves at once and never exchanges anything.
driver::Bootstrap beside_a_lost_rank() {
  auto rendezvous = driver::open_loopback_rendezvous();
  EXPECT_TRUE(rendezvous.ok());
  std::thread other([&] {
    EXPECT_TRUE(driver::Bootstrap::join({1, 2, rendezvous->address, -1, driver::kPatience}).ok());
  });
  auto bootstrap = driver::Bootstrap::join(
      {0, 2, rendezvous->address, rendezvous->socket.release(), driver::kPatience});
  other.join();
  EXPECT_TRUE(bootstrap.ok());
  return std::move(*bootstrap);
}

TEST_F(EndMarkTest, ALostRankIsAnError) {
  auto bootstrap = beside_a_lost_rank();
  EXPECT_EQ(EndMark(file_of(0), bootstrap).seen().code(), Errc::PeerGone);
}

// An exchange would wait for the lost rank, or fail.
TEST_F(EndMarkTest, WithoutAFileNobodyIsAsked) {
  auto bootstrap = beside_a_lost_rank();
  const auto seen = EndMark("", bootstrap).seen();
  EXPECT_TRUE(seen.ok() && *seen);
}

}  // namespace
}  // namespace mesh::perf
