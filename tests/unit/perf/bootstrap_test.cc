#include "perf/driver/bootstrap.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace mesh::driver {
namespace {

constexpr std::chrono::milliseconds kPatience{10000};

TEST(Bootstrap, EveryRankGetsEveryBlobInOrder) {
  constexpr int kWorld = 4;
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  std::vector<std::thread> ranks;
  std::vector<std::string> seen(kWorld);
  for (int rank = 0; rank < kWorld; ++rank) {
    const int fd = rank == 0 ? rendezvous->socket.release() : -1;
    ranks.emplace_back([&, rank, fd] {
      auto bootstrap = Bootstrap::join({rank, kWorld, rendezvous->address, fd, kPatience});
      ASSERT_TRUE(bootstrap.ok());
      auto blobs = bootstrap->all_gather("rank" + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '\0'));
      ASSERT_TRUE(blobs.ok());
      ASSERT_TRUE(bootstrap->barrier().ok());
      for (const std::string& blob : *blobs) seen[static_cast<std::size_t>(rank)] += blob.substr(0, 5);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& text : seen) EXPECT_EQ(text, "rank0rank1rank2rank3");
}

TEST(Bootstrap, ALostRankIsAnErrorNotAHang) {
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  std::thread other([&] { ASSERT_TRUE(Bootstrap::join({1, 2, rendezvous->address, -1, kPatience}).ok()); });
  auto bootstrap = Bootstrap::join({0, 2, rendezvous->address, rendezvous->socket.release(), kPatience});
  other.join();
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->barrier().code(), Errc::PeerGone);
}

TEST(Bootstrap, AMissingRankTimesOut) {
  auto rendezvous = open_loopback_rendezvous();
  ASSERT_TRUE(rendezvous.ok());
  const auto bootstrap = Bootstrap::join({0, 2, rendezvous->address, rendezvous->socket.release(), std::chrono::milliseconds(50)});
  EXPECT_EQ(bootstrap.code(), Errc::Timeout);
}

TEST(Bootstrap, RefusesARankOutsideTheWorld) {
  EXPECT_EQ(Bootstrap::join({2, 2, "127.0.0.1:1", -1, kPatience}).code(), Errc::InvalidArgument);
}

TEST(Bootstrap, AloneNeedsNobody) {
  auto bootstrap = Bootstrap::join({0, 1, "", -1, kPatience});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->all_gather("x")->size(), 1u);
}

}  // namespace
}  // namespace mesh::driver
