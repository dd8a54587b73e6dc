#include "perf/driver/bootstrap.h"

#include "perf/driver/stream.h"
#include "tests/prelude.h"
#include "tests/unit/perf/patience.h"

namespace mesh::driver {
namespace {

// Has each rank do this on a thread of its own, and returns when all have.
void each_rank(int world, const std::function<void(Bootstrap&)>& work) {
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    const int fd = rank == 0 ? rendezvous->socket.release() : -1;
    ranks.emplace_back([&, rank, fd] {
      auto bootstrap = Bootstrap::join({rank, world, rendezvous->address, fd, kPatience});
      ASSERT_TRUE(bootstrap.ok());
      work(*bootstrap);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Bootstrap, EveryRankGetsEveryBlobInOrder) {
  constexpr int kWorld = 4;
  std::vector<std::string> seen(kWorld);
  each_rank(kWorld, [&](Bootstrap& bootstrap) {
    const auto rank = static_cast<std::size_t>(bootstrap.rank());
    auto blobs = bootstrap.all_gather("rank" + std::to_string(rank) + std::string(rank, '\0'));
    ASSERT_TRUE(blobs.ok());
    ASSERT_TRUE(bootstrap.barrier().ok());
    for (const std::string& blob : *blobs) seen[rank] += blob.substr(0, 5);
  });
  for (const std::string& text : seen) EXPECT_EQ(text, "rank0rank1rank2rank3");
}

TEST(Bootstrap, KeepsTheFirstRankOfEachGroup) {
  constexpr int kWorld = 6;
  const std::vector<std::string> groups{"a", "a", "b", "c", "a", "b"};
  std::vector<std::string> seen(kWorld);
  each_rank(kWorld, [&](Bootstrap& bootstrap) {
    const auto before = static_cast<std::size_t>(bootstrap.rank());
    const auto stays = bootstrap.keep_first_of(groups[before]);
    ASSERT_TRUE(stays.ok());
    EXPECT_EQ(*stays, before == 0 || before == 2 || before == 3);
    const auto blobs = bootstrap.all_gather(std::to_string(before));
    ASSERT_TRUE(blobs.ok());
    seen[before] = std::to_string(bootstrap.rank()) + "/" + std::to_string(bootstrap.world());
    for (const std::string& blob : *blobs) seen[before] += " " + blob;
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"0/3 0 2 3", "0/1 1", "1/3 0 2 3", "2/3 0 2 3", "0/1 4",
                                            "0/1 5"}));
}

// Rank 2 hangs up while rank 1 is busy. Both remaining ranks learn at once which rank is lost.
TEST(Bootstrap, ALostRankIsNamedToEverybodyAtOnce) {
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  std::thread lost([&] {
    ASSERT_TRUE(Bootstrap::join({2, 3, rendezvous->address, -1, kPatience}).ok());
  });
  std::thread slow([&] {
    auto bootstrap = Bootstrap::join({1, 3, rendezvous->address, -1, kPatience});
    ASSERT_TRUE(bootstrap.ok());
    const auto watch = bootstrap->watch();
    ASSERT_TRUE(watch.ok());
    EXPECT_TRUE(wait_for(watch->get(), POLLIN, std::chrono::steady_clock::now() + kPatience).ok());
    EXPECT_EQ(bootstrap->barrier().code(), Errc::PeerGone);
    EXPECT_EQ(bootstrap->lost(), 2);
  });
  {
    auto bootstrap =
        Bootstrap::join({0, 3, rendezvous->address, rendezvous->socket.release(), kPatience});
    lost.join();
    ASSERT_TRUE(bootstrap.ok());
    EXPECT_EQ(bootstrap->barrier().code(), Errc::PeerGone);
    EXPECT_EQ(bootstrap->lost(), 2);
  }
  slow.join();
}

// Ranks start in any order: an early rank tries until rank 0 listens.
TEST(Bootstrap, AnEarlyRankWaitsForRankZero) {
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  rendezvous->socket.reset();  // the port is free, but nobody listens
  std::atomic<bool> begun{false};
  std::thread early([&] {
    begun = true;
    auto bootstrap = Bootstrap::join({1, 2, rendezvous->address, -1, kPatience});
    ASSERT_TRUE(bootstrap.ok());
    EXPECT_TRUE(bootstrap->barrier().ok());
  });
  while (!begun) std::this_thread::yield();
  auto bootstrap = Bootstrap::join({0, 2, rendezvous->address, -1, kPatience});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_TRUE(bootstrap->barrier().ok());
  early.join();
}

TEST(Bootstrap, AHostOutOfReachIsGivenUpInTime) {
  const auto begin = std::chrono::steady_clock::now();  // the kernel alone would try for minutes
  // A network for documentation: it has no route, or a router refuses it, or nobody answers.
  EXPECT_FALSE(Bootstrap::join({1, 2, "192.0.2.1:9", -1, std::chrono::milliseconds(300)}).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(Bootstrap, SaysWhyTheRanksDoNotMeet) {
  auto taken = open_loopback_rendezvous();
  ASSERT_TRUE(taken.ok());
  const auto why = [](int rank, int world, const std::string& address) {
    std::string text;
    const auto bootstrap = Bootstrap::join({.rank = rank,
                                            .world = world,
                                            .address = address,
                                            .timeout = std::chrono::milliseconds(500),
                                            .why = &text});
    EXPECT_FALSE(bootstrap.ok());
    return text;
  };
  EXPECT_EQ(why(0, 2, taken->address), "rendezvous " + taken->address +
                                           " (rank 0 of 2): cannot listen there: Address "
                                           "already in use");
  EXPECT_EQ(why(0, 3, "127.0.0.1:0"),
            "rendezvous 127.0.0.1:0 (rank 0 of 3): rank 1, 2 did not connect within 0.5 s");
  EXPECT_EQ(why(1, 2, "127.0.0.1:1"),
            "rendezvous 127.0.0.1:1 (rank 1 of 2): no answer within 0.5 s");
  EXPECT_EQ(why(0, 2, "no.such.host.invalid:1"),
            "rendezvous no.such.host.invalid:1 (rank 0 of 2): the name does not resolve, "
            "or the port does not exist");
}

TEST(Bootstrap, RefusesARankOutsideTheWorldAndAloneNeedsNobody) {
  EXPECT_EQ(Bootstrap::join({2, 2, "127.0.0.1:1", -1, kPatience}).code(), Errc::InvalidArgument);
  auto bootstrap = Bootstrap::join({0, 1, "", -1, kPatience});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->all_gather("x")->size(), 1u);
}

}  // namespace
}  // namespace mesh::driver
