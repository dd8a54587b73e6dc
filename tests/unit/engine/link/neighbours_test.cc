// Neighbours over one cable, with one secret or two, and strange hosts that send what they like.
#include "engine/link/relay/neighbours.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/soft/fabric_file.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/link/ipv4_ends.h"
#include "tests/unit/engine/one_subnet.h"

namespace mesh::engine {
namespace {

using testkit::FakeHost;

class NeighboursTest : public testing::Test {
 protected:
  NeighboursTest() { a_.own_ticket = {'a'}, b_.own_ticket = {'b'}; }
  static void name(FakeHost& host, Neighbours& neighbours, const std::string& job) {
    host.settled.settings.job = job;
    neighbours.begin();
  }
  void share(const std::string& job) { name(a_, of_a_, job), name(b_, of_b_, job); }
  static void hear(Neighbours& neighbours) {
    for (int fd = 0; fd < 1024; ++fd)
      if (neighbours.owns(fd)) neighbours.on_readable(fd);
  }
  void carry() { hear(of_b_), hear(of_a_); }
  void ask() { of_a_.ask(), carry(); }
  void pass(std::uint64_t ns) {
    clock_ += ns;
    of_a_.tend();
    of_b_.tend();
  }
  static std::unique_ptr<verbs::CableDatagrams> end_of(FakeHost& host, verbs::DatagramEnd end) {
    const verbs::Rail& rail = host.rails()[0];
    return host.provider->open_datagrams(rail.context.get(), rail.gids.front(), end);
  }
  static int descriptors(const Neighbours& neighbours) {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) count += neighbours.owns(fd) ? 1 : 0;
    return count;
  }

  std::atomic<std::uint64_t> clock_{kNsPerSecond};
  soft::FabricFile fabric_ = soft::parse(testkit::kCable).value();
  FakeHost a_{fabric_, "a", clock_}, b_{fabric_, "b", clock_};
  Neighbours of_a_{a_}, of_b_{b_};
};

TEST_F(NeighboursTest, AHostWithTheSecretAnswersWithItsTicketItsAddressesAndTheCable) {
  share("job");
  ask();
  const std::vector<WireHost> found = of_a_.found();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ticket, b_.own_ticket);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_EQ(found[0].port, b_.wire.port());
  EXPECT_EQ(found[0].addresses, b_.wire.own);
  EXPECT_EQ(found[0].cables, (std::vector<WireCables>{{.rail = 0, .asked = 1, .met = 1}}));
  EXPECT_EQ(of_a_.counts().taken, 1u);
  EXPECT_EQ(of_b_.counts().answered, 1u);
  EXPECT_TRUE(of_b_.found().empty()) << "it has not asked";
  EXPECT_NE(of_a_.told().find("neighbours that answered: b"), std::string::npos) << of_a_.told();
}

TEST_F(NeighboursTest, APortWithoutIpv6AsksNobodyAndSaysSo) {
  testkit::Ipv4Provider without(*a_.provider);
  a_.settled.provider = &without;
  share("job");
  ask();
  EXPECT_EQ(of_a_.counts().asked, 0u);
  EXPECT_NE(of_a_.told().find("no port of ours takes datagrams to ask neighbours"),
            std::string::npos)
      << of_a_.told();
}

TEST_F(NeighboursTest, TheIdOfACommunicatorThatBothHaveOpenServes) {
  for (std::uint64_t id = 1; id <= kNeighbourKeysMax; ++id) of_a_.know(id);
  for (const std::uint64_t id : {std::size_t{77}, kNeighbourKeysMax}) of_b_.know(id);
  ask();
  EXPECT_EQ(of_a_.found().size(), 1u);
  EXPECT_EQ(of_b_.counts().answered, 1u);
  EXPECT_EQ(of_b_.counts().foreign, 0u) << "one datagram has the codes of all ids";
}

TEST_F(NeighboursTest, ACommunicatorThatHasEndedOpensNothing) {
  of_a_.know(1);
  of_b_.know(1);
  of_b_.know(1);
  of_b_.forget(1);
  EXPECT_EQ(descriptors(of_b_), 1);
  ask();
  EXPECT_EQ(of_a_.found().size(), 1u) << "one of two is still open";
  of_b_.forget(1);
  EXPECT_EQ(descriptors(of_b_), 0);
}

TEST_F(NeighboursTest, AnotherJobIsCountedAndNotAnswered) {
  name(a_, of_a_, "job");
  name(b_, of_b_, "another");
  ask();
  EXPECT_TRUE(of_a_.found().empty());
  EXPECT_EQ(of_b_.counts().foreign, 1u);
  EXPECT_EQ(of_b_.counts().answered, 0u);
  EXPECT_NE(of_a_.told().find("no neighbour"), std::string::npos) << of_a_.told();
}

TEST_F(NeighboursTest, WithoutASecretNothingIsOpenedOrAsked) {
  name(b_, of_b_, "job");
  ask();
  EXPECT_EQ(descriptors(of_a_), 0);
  EXPECT_EQ(of_a_.counts().asked, 0u);
  EXPECT_EQ(of_b_.counts().malformed + of_b_.counts().foreign, 0u);
  EXPECT_EQ(of_a_.patience_ns(), kStallToNoRouteNs);
}

TEST_F(NeighboursTest, AProcessThatTakesNoPartInRelaysNeitherAsksNorAnswers) {
  b_.own_ticket = {};
  share("job");
  ask();
  EXPECT_EQ(descriptors(of_b_), 0);
  EXPECT_TRUE(of_a_.found().empty());
  of_b_.ask();
  EXPECT_EQ(of_b_.counts().asked, 0u);
}

TEST_F(NeighboursTest, QuestionsHavePausesAndPortsForAnswersClose) {
  name(a_, of_a_, "job");
  EXPECT_EQ(descriptors(of_a_), 1) << "it hears";
  const std::uint64_t from_ns = clock_;
  while (clock_ < from_ns + 10 * kNsPerSecond) {
    of_a_.ask();
    pass(kNsPerMs);
  }
  EXPECT_EQ(descriptors(of_a_), 2);
  EXPECT_GE(of_a_.counts().asked, 8u);
  EXPECT_LE(of_a_.counts().asked, 16u);
  pass(kHelperToAnswerNs);
  EXPECT_EQ(descriptors(of_a_), 1);
}

TEST_F(NeighboursTest, ALateAnswerIsIgnored) {
  share("job");
  of_a_.ask();
  pass(kHelperToAnswerNs);
  carry();
  EXPECT_TRUE(of_a_.found().empty());
}

TEST_F(NeighboursTest, AHostThatAnswersNoMoreIsForgotten) {
  share("job");
  ask();
  ASSERT_EQ(of_a_.found().size(), 1u);
  pass(kHostKnownNs - 1);
  EXPECT_EQ(of_a_.found().size(), 1u);
  pass(1);
  EXPECT_TRUE(of_a_.found().empty());
}

TEST_F(NeighboursTest, AnAnswerNamesOurLoopbackOnlyWhereTheJobRunsOnOneHost) {
  share("job");
  a_.wire.own = {*SocketAddress::from_text("10.9.0.1")};
  b_.wire.own = {*SocketAddress::from_text("127.0.0.1"), *SocketAddress::from_text("10.9.0.2")};
  ask();
  ASSERT_EQ(of_a_.found().size(), 1u);
  EXPECT_EQ(of_a_.found()[0].addresses, std::vector{*SocketAddress::from_text("10.9.0.2")});
}

// ---- Strangers.

TEST_F(NeighboursTest, AThousandAnswersOfMembersFillABoundedList) {
  name(a_, of_a_, "job");
  const auto end = end_of(b_, verbs::DatagramEnd::Group);
  of_a_.ask();
  const auto heard = end->next();
  ASSERT_TRUE(heard);
  const JobKey key = key_of_text("job");
  const auto question = question_of(heard->span(), key, heard->from);
  ASSERT_TRUE(question);
  for (int i = 0; i < 1000; ++i) {
    const NeighbourAnswer said{.ticket = random_id(),
                               .port = 4711,
                               .name = "b",
                               .addresses = {*SocketAddress::from_text("10.0.0.1")}};
    end->send(heard->from, bytes_of(said, key, question->nonce));
    hear(of_a_);
  }
  EXPECT_EQ(of_a_.found().size(), Neighbours::kFoundMax);
  EXPECT_EQ(of_a_.counts().taken, Neighbours::kFoundMax);
  EXPECT_EQ(of_a_.counts().excess, 1000 - Neighbours::kFoundMax);
}

TEST_F(NeighboursTest, NonsenseIsCountedAndAFloodGetsNoMoreThanItsShare) {
  share("job");
  const auto end = end_of(a_, verbs::DatagramEnd::Port);
  const JobKey guess = key_of_text("guess");
  const DatagramBytes forged =
      bytes_of(NeighbourQuestion{.nonce = random_id()}, {&guess, 1}, end->place());
  constexpr std::size_t kForged = 10'000;
  for (std::size_t i = 0; i < kForged; ++i) {
    end->send(verbs::kCableGroup, forged);
    end->send(verbs::kCableGroup, {});
    hear(of_b_);
  }
  EXPECT_EQ(of_b_.counts().malformed, Neighbours::kLooksMax / 2);
  EXPECT_EQ(of_b_.counts().foreign, Neighbours::kLooksMax / 2);
  EXPECT_EQ(of_b_.counts().excess, 1u);
  EXPECT_EQ(descriptors(of_b_), 0) << "it reads no more of them in this second";
  ask();
  EXPECT_TRUE(of_a_.found().empty()) << "the share of this second is used up";
  pass(kNeighbourBudgetNs);
  ask();
  EXPECT_EQ(of_a_.found().size(), 1u);
}

TEST(NeighboursOnTwoCables, AFloodOnOneLeavesTheOtherItsShare) {
  std::atomic<std::uint64_t> clock{kNsPerSecond};
  const soft::FabricFile fabric =
      soft::parse(testkit::one_subnet({2, 2}, testkit::kTwoCables)).value();
  FakeHost a(fabric, "a", clock), b(fabric, "b", clock);
  a.settled.settings.job = b.settled.settings.job = "job";
  a.own_ticket = {'a'}, b.own_ticket = {'b'};
  Neighbours of_a(a), of_b(b);
  of_a.begin(), of_b.begin();
  const verbs::Rail& flooded = a.rails()[0];
  const auto end = a.provider->open_datagrams(flooded.context.get(), flooded.gids.front(),
                                              verbs::DatagramEnd::Port);
  const auto hear = [](Neighbours& neighbours) {
    for (int fd = 0; fd < 1024; ++fd)
      if (neighbours.owns(fd)) neighbours.on_readable(fd);
  };
  for (std::size_t i = 0; i < 2 * Neighbours::kLooksMax; ++i) {
    end->send(verbs::kCableGroup, {});
    hear(of_b);
  }
  EXPECT_EQ(of_b.counts().malformed, Neighbours::kLooksMax);
  of_a.ask();
  hear(of_b), hear(of_a);
  EXPECT_EQ(of_a.found().size(), 1u) << "its question over the second cable is answered";
}

TEST_F(NeighboursTest, AQuestionThatIsRepeatedIsAnsweredOnce) {
  name(b_, of_b_, "job");
  const auto end = end_of(a_, verbs::DatagramEnd::Port);
  const JobKey key = key_of_text("job");
  const DatagramBytes question =
      bytes_of(NeighbourQuestion{.nonce = random_id()}, {&key, 1}, end->place());
  for (int i = 0; i < 2; ++i) end->send(verbs::kCableGroup, question);
  hear(of_b_);
  EXPECT_EQ(of_b_.counts().answered, 1u);
}

TEST_F(NeighboursTest, AFloodMakesAHostOfManyCommunicatorsComputeNoMoreCodes) {
  for (std::uint64_t id = 1; id <= kNeighbourKeysMax; ++id) of_b_.know(id);
  const auto end = end_of(a_, verbs::DatagramEnd::Port);
  const JobKey guess = key_of_text("guess");
  for (std::size_t i = 0; i < Neighbours::kLooksMax; ++i) {
    end->send(verbs::kCableGroup,
              bytes_of(NeighbourQuestion{.nonce = random_id()}, {&guess, 1}, end->place()));
    hear(of_b_);
  }
  EXPECT_EQ(of_b_.counts().foreign,
            Neighbours::kLooksMax * Neighbours::kCodesOfLook / kNeighbourKeysMax);
  EXPECT_EQ(descriptors(of_b_), 0);
}

TEST_F(NeighboursTest, OfManyQuestionsOfMembersSoManyAreAnsweredInASecond) {
  name(b_, of_b_, "job");
  const auto end = end_of(a_, verbs::DatagramEnd::Port);
  const JobKey key = key_of_text("job");
  for (int i = 0; i < 200; ++i) {
    end->send(verbs::kCableGroup,
              bytes_of(NeighbourQuestion{.nonce = random_id()}, {&key, 1}, end->place()));
    hear(of_b_);
  }
  EXPECT_EQ(of_b_.counts().answered, Neighbours::kAnswersMax);
  EXPECT_EQ(of_b_.counts().excess, 200 - Neighbours::kAnswersMax);
}

}  // namespace
}  // namespace mesh::engine
