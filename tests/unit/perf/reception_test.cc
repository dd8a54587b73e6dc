#include "perf/driver/reception.h"

#include "perf/driver/bootstrap.h"
#include "tests/prelude.h"
#include "tests/unit/perf/patience.h"

namespace mesh::driver {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Text of an HTTP client, whose first bytes announce a hello longer than any.
constexpr std::string_view kLong = "GET / HTTP/1.1\r\n\r\n";

class ReceptionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto rendezvous = open_loopback_rendezvous();
    ASSERT_TRUE(rendezvous.ok());
    rendezvous_ = std::move(*rendezvous);
  }

  UniqueFd open_connection(std::string_view bytes = {}) const {
    auto socket = connect_to(rendezvous_.address, deadline_);
    EXPECT_TRUE(socket.ok());
    if (!socket.ok()) return {};
    EXPECT_EQ(::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return std::move(*socket);
  }
  UniqueFd connect_as(int rank, int world) const {
    UniqueFd socket = open_connection();
    EXPECT_TRUE(send_message(socket.get(), hello_of(rank, world), deadline_).ok());
    return socket;
  }
  auto gather(int world) const {
    return Reception(rendezvous_.socket.get(), world).gather(deadline_);
  }
  bool is_closed(const UniqueFd& socket) const {
    char byte = 0;
    return wait_for(socket.get(), POLLIN, deadline_).ok() &&
           ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) <= 0;
  }

  Rendezvous rendezvous_;
  Deadline deadline_ = SteadyClock::now() + kPatience;
};

TEST_F(ReceptionTest, SilentConnectionsKeepNobodyWaiting) {
  const UniqueFd unauthenticated[] = {open_connection(), open_connection(), open_connection(),
                                      open_connection(std::string_view("\x10\0", 2))};
  const UniqueFd rank = connect_as(1, 2);
  EXPECT_TRUE(gather(2).ok());
}

TEST_F(ReceptionTest, AHelloMayComeInPieces) {
  const UniqueFd slow = open_connection(std::string_view("\x10\0\0\0mesh rank", 13));
  const UniqueFd first = connect_as(1, 3);
  std::thread rest([&] {
    // The new connection was read and closed, so the first piece has been read as well.
    EXPECT_TRUE(is_closed(open_connection(kLong)));
    EXPECT_EQ(::send(slow.get(), " 2 of 3", 7, MSG_NOSIGNAL), 7);
  });
  const auto peers = gather(3);
  rest.join();
  ASSERT_TRUE(peers.ok());
  EXPECT_FALSE(peers.value()[0].valid());
  EXPECT_TRUE(peers.value()[1].valid() && peers.value()[2].valid());
}

// The bytes that a rank sends behind its hello are for the reader of its socket.
TEST_F(ReceptionTest, ReadsTheHelloAndNothingElse) {
  const UniqueFd rank = connect_as(1, 2);
  ASSERT_TRUE(send_message(rank.get(), "first", deadline_).ok());
  const auto peers = gather(2);
  ASSERT_TRUE(peers.ok());
  EXPECT_EQ(receive_message(peers.value()[1].get(), 16, deadline_).value(), "first");
}

TEST_F(ReceptionTest, OneTooManyPushesTheOldestOut) {
  std::vector<UniqueFd> unauthenticated;
  unauthenticated.reserve(kUnauthenticatedMax + 2);
  for (std::size_t i = 0; i < kUnauthenticatedMax + 2; ++i)
    unauthenticated.push_back(open_connection());
  UniqueFd rank;
  std::thread late([&] {
    EXPECT_TRUE(is_closed(unauthenticated[0]));
    char byte = 0;
    EXPECT_EQ(::recv(unauthenticated[1].get(), &byte, 1, MSG_DONTWAIT), -1);  // not 0: still open
    rank = connect_as(1, 2);
  });
  EXPECT_TRUE(gather(2).ok());
  late.join();
}

TEST_F(ReceptionTest, ARankThatComesTwiceIsAMistake) {
  const UniqueFd once = connect_as(1, 3);
  const UniqueFd twice = connect_as(1, 3);
  EXPECT_EQ(gather(3).code(), Errc::Protocol);
}

TEST_F(ReceptionTest, ALongHelloAndARankOfAnotherRunAreClosed) {
  const UniqueFd connection = open_connection(kLong), other = connect_as(1, 4);
  std::thread late([&] {
    EXPECT_TRUE(is_closed(connection));
    EXPECT_TRUE(is_closed(other));
    connect_as(1, 2);
  });
  EXPECT_TRUE(gather(2).ok());
  late.join();
}

}  // namespace
}  // namespace mesh::driver
