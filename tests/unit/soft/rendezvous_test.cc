// The meeting point of hosts in different processes, under attack by everyone who can reach it:
// another user, a misbehaving peer of our own user, and this process at its own limits.

#include "src/soft/rendezvous.h"

#include "src/base/clock.h"
#include "src/base/log_budget.h"
#include "src/soft/rendezvous_wire.h"
#include "src/soft/ring.h"
#include "src/soft/soft_provider.h"
#include "src/soft/unix_socket.h"
#include "tests/prelude.h"
#include "tests/unit/base/child.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/base/process_limit.h"

namespace mesh::soft {
namespace {

using testkit::Child, testkit::files_and, testkit::Limit, testkit::LogCapture, testkit::open_files;

class CountedOffers final : public RendezvousEvents {
 public:
  void take_offer(const Offer&) override { ++offers; }
  void take_datagram(const SoftDatagram&) override {}
  void peer_changed(const Peer&) override {}
  FaultAnswer take_fault(const FaultOrder&) override { return {}; }
  int offers = 0;
};

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() : universe_("rendezvous test " + std::to_string(::getpid())) {
    board_ = std::make_unique<Board>(
        std::move(*Segment::create(sizeof(HostBoard), Sharing::Host)),
        Board::Wakers{.agent = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                      .waiters = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))});
  }

  Result<std::unique_ptr<Rendezvous>> open(const std::string& host, int shown_fd = -1) {
    return Rendezvous::open(
        {universe_, host, 0, CopyMode::Auto, board_.get(), &events_, -1, shown_fd});
  }
  // Returns the host with that descriptor of its state, as another one sees it.
  std::shared_ptr<Peer> meet(int shown_fd) {
    const std::unique_ptr<Rendezvous> one = std::move(*open("one"));
    other_.reset();
    other_ = std::move(*open("other", shown_fd));
    std::shared_ptr<Peer> peer = one->peer("other", 0);
    for (int pass = 0; pass < 4; ++pass) other_->poll_once(0), one->poll_once(0);
    return peer;
  }
  std::string name_of(const std::string& host) const { return rendezvous_name(universe_, host, 0); }

  // Sends the greeting of a process that claims to be `host`, with that memory.
  static bool greet(int fd, const std::string& host, std::uint32_t type, int memory) {
    HelloMessage hello;
    hello.prefix.type = type;
    host.copy(hello.host, sizeof hello.host - 1);
    const std::array<int, 1> fds{memory};
    return send_message(fd, bytes_of(hello), fds) == Io::Done;
  }
  // Offers a ring as the NIC with that number.
  static bool offer(int fd, int from_nic) {
    const std::shared_ptr<Ring> ring = std::move(*Ring::create(4, Sharing::Host));
    OfferMessage message{};
    message.prefix.type = kOffer;
    message.from_nic = from_nic;
    message.slots = ring->slots();
    const std::array<int, 1> fds{ring->memory().fd()};
    return send_message(fd, bytes_of(message), fds) == Io::Done;
  }
  static bool readable(int fd, int timeout_ms = 0) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, timeout_ms) == 1;
  }

  const std::string universe_;
  CountedOffers events_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Rendezvous> other_;
};

TEST_F(RendezvousTest, AHostShowsTheSlotsOfItsCards) {
  const std::shared_ptr<HostState> state = std::move(*HostState::create(Sharing::Host));
  HostSpec host;
  host.slots.push_back({"s", 218});
  host.nics.resize(2);
  host.nics[1].slot = 0;
  state->memory().set_slots(host);
  const std::shared_ptr<Peer> peer = meet(state->fd());
  ASSERT_NE(peer->board(), nullptr);
  EXPECT_EQ(peer->slot_of(0), nullptr) << "that NIC is in none";
  CardSlot* const slot = peer->slot_of(1);
  ASSERT_NE(slot, nullptr);
  EXPECT_DOUBLE_EQ(slot->ticks_per_byte, 8 / 218.0 * kTicksPerNs);
  EXPECT_EQ(slot->writes.book(0, 77), 77u);
  EXPECT_EQ(state->memory().slots[0].writes.free(), 77u) << "the memory is shared";
  EXPECT_EQ(meet(-1)->slot_of(1), nullptr) << "a host without slots";
}

TEST_F(RendezvousTest, AStateThatIsTooShortIsNotTaken) {
  const Segment memory = std::move(*Segment::create(64, Sharing::Host));
  const LogCapture log;
  EXPECT_EQ(meet(memory.fd())->board(), nullptr);
  EXPECT_EQ(log.count(LogLevel::Warn, "a peer's memory has 64 bytes"), 1) << log.joined();
}

// The stranger connects as fast as it can, and again as soon as it is thrown out.
TEST_F(RendezvousTest, AnotherUserIsThrownOutAndFillsNoLog) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  constexpr int kAtOnce = 200, kRounds = 10;
  const std::string name = name_of("a");
  Child stranger([&](int fd) {
    if (!testkit::become_nobody()) return 1;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<UniqueFd> connections;
      connections.reserve(kAtOnce);
      for (int i = 0; i < kAtOnce; ++i) connections.push_back(connect_abstract(name));
      int refused = 0;
      if (!Child::tell(fd, 0) || Child::hear(fd) < 0) return 1;
      for (const UniqueFd& connection : connections) refused += readable(connection.get()) ? 1 : 0;
      if (!Child::tell(fd, refused) || Child::hear(fd) < 0) return 1;
      for (const UniqueFd& connection : connections)
        ::close(connection.get());  // a forked child's UniqueFd closes nothing
      while (!connections.empty())
        static_cast<void>(connections.back().release()), connections.pop_back();
    }
    return 0;
  });
  const LogCapture log;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_EQ(stranger.next(), 0);
    a->poll_once(0);
    ASSERT_TRUE(stranger.say(0));
    const int refused = stranger.next();
    EXPECT_GT(refused, 0);
    EXPECT_LE(refused, kAtOnce / 2) << "one pass holds the mutex for as long as a stranger likes";
    for (int pass = 0; pass < kAtOnce; ++pass) a->poll_once(0);
    ASSERT_TRUE(stranger.say(0));
  }
  EXPECT_EQ(stranger.join(), 0);
  EXPECT_LE(log.all().size(), 2 * LogBudget::kLines)
      << "of " << kRounds * kAtOnce << " connections";
  EXPECT_GE(log.count(LogLevel::Warn, "of user 65534 is not let in"), 1);
}

TEST_F(RendezvousTest, WhoHoldsAHostsNameIsSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::string name = name_of("a");
  Child squatter([&](int fd) {
    if (!testkit::become_nobody()) return 1;
    const UniqueFd listener = listen_abstract(name);
    return Child::tell(fd, listener.valid() ? 1 : 0) && Child::hear(fd) < 0 ? 0 : 1;
  });
  ASSERT_EQ(squatter.next(), 1);
  const LogCapture log;
  EXPECT_EQ(open("a").code(), Errc::Exhausted);
  const std::string holder =
      fmt::format("process {} of user {} holds", squatter.pid(), testkit::kNobody);
  EXPECT_EQ(log.joined(), "soft fabric: host a cannot be claimed: " + holder + " its name\n");
  const std::unique_ptr<Rendezvous> b = std::move(*open("b"));
  EXPECT_TRUE(b->peer("a", 0)->lost());
  EXPECT_EQ(log.count(LogLevel::Warn, holder + " the name of host a, which is lost"), 1)
      << log.joined();
  EXPECT_EQ(squatter.join(), 0);
}

TEST_F(RendezvousTest, OurOwnProcessThatIsAHostIsNamed) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const LogCapture log;
  EXPECT_EQ(open("a").code(), Errc::Exhausted);
  EXPECT_EQ(log.joined(), fmt::format("soft fabric: process {} is host a\n", ::getpid()));
}

// As rendezvous.h says, a fabric lives in one network namespace.
TEST_F(RendezvousTest, ANetworkNamespaceIsAFabricOfItsOwn) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  Child elsewhere([&](int) {
    if (!testkit::leave_network()) return 2;
    return open("a").ok() && open("b").ok() ? 0 : 1;
  });
  const int status = elsewhere.join();
  if (status == 2) GTEST_SKIP() << "this process may not make a network namespace";
  EXPECT_EQ(status, 0);
}

// The threads of the NICs use the first board without a lock.
TEST_F(RendezvousTest, ASecondWelcomeReplacesNoBoard) {
  const UniqueFd listener = listen_abstract(name_of("b"));
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const std::shared_ptr<Peer> b = a->peer("b", 0);
  const UniqueFd connection = accept_connection(listener.get());
  ASSERT_TRUE(connection.valid());
  ASSERT_TRUE(greet(connection.get(), "b", kWelcome, board_->memory_fd()));
  a->poll_once(0);
  Board* const first = b->board();
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(b->lost());
  const LogCapture log;
  ASSERT_TRUE(greet(connection.get(), "b", kWelcome, board_->memory_fd()));
  a->poll_once(0);
  EXPECT_EQ(b->board(), first);
  EXPECT_TRUE(b->lost()) << "and whoever does that is not talked to";
  EXPECT_EQ(log.joined(), "soft fabric: host b greets twice, so its connection is closed\n");
}

TEST_F(RendezvousTest, ASecondHelloReplacesNoBoard) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const UniqueFd connection = connect_abstract(name_of("a"));
  ASSERT_TRUE(greet(connection.get(), "b", kHello, board_->memory_fd()));
  ASSERT_TRUE(greet(connection.get(), "c", kHello, board_->memory_fd()));
  const LogCapture log;
  a->poll_once(0);
  a->poll_once(0);
  EXPECT_EQ(log.joined(), "soft fabric: host b greets twice, so its connection is closed\n");
}

// The number is an index into the offering host's board.
TEST_F(RendezvousTest, AnOfferOfANicThatNoBoardHasIsRefused) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const auto arrives = [&](int from_nic) {
    const UniqueFd connection = connect_abstract(name_of("a"));
    EXPECT_TRUE(greet(connection.get(), "b", kHello, board_->memory_fd()));
    EXPECT_TRUE(offer(connection.get(), from_nic));
    events_.offers = 0;
    for (int pass = 0; pass < 3; ++pass) a->poll_once(0);
    return events_.offers == 1;
  };
  constexpr int kNics = static_cast<int>(kNicsMax);
  for (const int from_nic : {0, kNics - 1}) EXPECT_TRUE(arrives(from_nic)) << from_nic;
  for (const int from_nic : {-1, kNics, INT32_MAX, INT32_MIN})
    EXPECT_FALSE(arrives(from_nic)) << from_nic;
}

// Strangers may fill the queue for a moment. The host behind it must not be taken for lost.
TEST_F(RendezvousTest, AHostWhoseQueueIsFullIsWaitedFor) {
  const UniqueFd listener = listen_abstract(name_of("b"));
  std::vector<UniqueFd> crowd;
  do {
    crowd.push_back(connect_abstract(name_of("b")));
  } while (crowd.back().valid());
  ASSERT_EQ(errno, EAGAIN) << "after " << crowd.size();
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  std::thread drain([&] {
    ::poll(nullptr, 0,
           50);  // time for peer() to meet the full queue; if it waits, any time will do
    for (std::size_t i = 0; i < crowd.size(); ++i)
      static_cast<void>(accept_connection(listener.get()));
  });
  EXPECT_FALSE(a->peer("b", 0)->lost());
  drain.join();
}

TEST_F(RendezvousTest, WithoutDescriptorsAcceptingPausesAndGoesOn) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const UniqueFd connection = connect_abstract(name_of("a"));
  ASSERT_TRUE(greet(connection.get(), "b", kHello, board_->memory_fd()));
  const LogCapture log;
  {
    const Limit none(RLIMIT_NOFILE, files_and(0));
    const Clock clock;
    int passes = 0;
    for (const std::uint64_t until_ns = clock.now_ns() + 500 * kNsPerMs; clock.now_ns() < until_ns;
         ++passes)
      a->poll_once(100);
    EXPECT_LE(passes, 100) << "the thread spins";
    EXPECT_EQ(log.joined(),
              "soft fabric: host a cannot accept connections for now: Too many open files\n");
  }
  for (int pass = 0; pass < 100 && !readable(connection.get()); ++pass) a->poll_once(100);
  EXPECT_TRUE(readable(connection.get())) << "no WELCOME";
}

TEST_F(RendezvousTest, WhatCannotBeTakenForWantOfDescriptorsIsSaid) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const UniqueFd connection = connect_abstract(name_of("a"));
  a->poll_once(0);
  ASSERT_TRUE(greet(connection.get(), "b", kHello, board_->memory_fd()));
  const LogCapture log;
  {
    const Limit none(RLIMIT_NOFILE, files_and(0));
    a->poll_once(0);
  }
  EXPECT_EQ(
      log.joined(),
      fmt::format(
          "soft fabric: host a cannot take what process {} shares with it: too many open files\n",
          ::getpid()));
  EXPECT_TRUE(readable(connection.get())) << "the connection is closed";
}

TEST_F(RendezvousTest, AHostThatIsLostForWantOfDescriptorsIsSaid) {
  const std::unique_ptr<Rendezvous> a = std::move(*open("a"));
  const LogCapture log;
  EXPECT_TRUE(a->peer("b", 0)->lost());
  EXPECT_EQ(log.count(LogLevel::Warn, ""), 0) << "that nobody is b is no warning";
  const Limit none(RLIMIT_NOFILE, files_and(0));
  EXPECT_TRUE(a->peer("b", 0)->lost());
  EXPECT_EQ(log.count(LogLevel::Warn, "soft fabric: host b cannot be reached: Too many open files"),
            1)
      << log.joined();
}

// At whichever descriptor the limit stops a process that becomes a host, the first one or another:
// one line, and nothing is kept.
class SoftLimits : public ::testing::TestWithParam<bool> {};
TEST_P(SoftLimits, EveryNumberOfDescriptorsIsEnoughOrAnError) {
  SoftOptions options;
  options.fabric = *load(MESH_SOURCE_DIR "/perf/fabrics/pair.json");
  options.fabric.identity += fmt::format("-limits-{}", ::getpid());
  options.host = "a";
  ASSERT_TRUE(SoftProvider::open(options).ok());
  std::optional<Child> other;
  if (GetParam()) {
    other.emplace([&](int fd) {
      const auto there = SoftProvider::open(options);
      return Child::tell(fd, there.ok() ? 1 : 0) && Child::hear(fd) < 0 ? 0 : 1;
    });
    ASSERT_EQ(other->next(), 1);
  }
  const std::ptrdiff_t files = open_files();
  bool enough = false;
  for (int more = 0; more < 20 && !enough; ++more) {
    const LogCapture log;
    {
      const Limit few(RLIMIT_NOFILE, files_and(more));
      const Result<std::unique_ptr<SoftProvider>> provider = SoftProvider::open(options);
      enough = provider.ok();
      EXPECT_EQ(log.count(LogLevel::Warn, "Too many open files"), enough ? 0 : 1)
          << more << " more: " << log.joined();
      EXPECT_EQ(log.count(LogLevel::Warn, ""), enough ? 0 : 1) << more << " more: " << log.joined();
    }
    EXPECT_EQ(open_files(), files);
  }
  EXPECT_TRUE(enough);
}
INSTANTIATE_TEST_SUITE_P(FirstAndSecond, SoftLimits, ::testing::Bool());

}  // namespace
}  // namespace mesh::soft
