#include "engine/link/links.h"

#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "tests/prelude.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::TwoEnds;

TEST(Links, EachIsFoundByWhatNamesIt) {
  TwoEnds ends;
  ends.come_up();
  Link& link = ends.sender();
  EXPECT_EQ(ends.a.links.of_connection(link.connection()), &link);
  EXPECT_EQ(ends.a.links.of_redial(77), nullptr);
  EXPECT_EQ(&ends.a.links.of_channel(*ends.connect.channel), &link);
  EXPECT_EQ(ends.a.links.context_of(link.context().id), &link.context());
  const LinkClaim claim = ends.receiver().redial().claim();
  EXPECT_EQ(ends.a.links.claimed(LinkRole::Connector, link.identity().id, claim), &link);
  EXPECT_EQ(ends.a.links.claimed(LinkRole::Acceptor, link.identity().id, claim), nullptr);
}

TEST(Links, APortThatIsDownTakesItsPathsOutOfUseOnEveryLink) {
  TwoEnds ends;
  ends.come_up();
  const std::uint32_t rail = ends.sender().peer_link().paths()[0].rail;
  ends.a.links.on_rail_away(rail, "our port is down");
  EXPECT_EQ(ends.sender().peer_link().paths()[0].health.state, PathState::Quarantined);
  EXPECT_EQ(ends.sender().peer_link().paths()[1].health.state, PathState::Up);
}

// Links for one listener that have sent WELCOME and hear nothing more.
class LinksWithoutAChannel : public testing::Test {
 protected:
  void make(std::size_t count) {
    Hello hello;
    hello.qps = 1, hello.rq_depth = 128, hello.slots = 64;
    hello.listeners = named_;
    hello.rails = describe_rails(*ends_.a.settled.provider, ends_.a.rails());
    const PathChoice choice =
        choose_paths(hello, describe_rails(*ends_.b.settled.provider, ends_.b.rails()),
                     [](auto...) { return verbs::Route{}; });
    ASSERT_FALSE(choice.sets.primary.empty());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(make_room());
      Link& link = context_.add_acceptor({static_cast<std::uint8_t>(i + 1)}, hello);
      link.set_connection(50 + i);
      link.handshake().accept(hello, choice);
      ends_.advance_ns(1);
    }
  }
  bool make_room() { return ends_.b.links.make_room(named_); }
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(context_.links.begin(), context_.links.end(),
                      [](const auto& link) { return link->state() != LinkState::Down; }));
  }

  TwoEnds ends_;
  const std::vector<Id128> named_{ends_.listener().nonce};
  Context& context_ = *ends_.b.contexts[0];
};

TEST_F(LinksWithoutAChannel, TheOldestOfAListenersGivesWay) {
  ASSERT_NO_FATAL_FAILURE(make(kHalfOpenPerListenerMax));
  ASSERT_EQ(count(), kHalfOpenPerListenerMax);
  const Id128 oldest = context_.links.front()->identity().id;
  const std::vector<Id128> other = {Id128{200}};
  EXPECT_TRUE(ends_.b.links.make_room(other)) << "another listener's has room";
  EXPECT_EQ(count(), kHalfOpenPerListenerMax);
  EXPECT_TRUE(make_room());
  ASSERT_EQ(context_.links.size(), kHalfOpenPerListenerMax - 1);
  EXPECT_NE(context_.links.front()->identity().id, oldest);
}

TEST_F(LinksWithoutAChannel, OneThatHasCarriedOneCountsAgainWhenItCarriesNoMore) {
  ends_.come_up();
  ASSERT_NO_FATAL_FAILURE(make(kHalfOpenPerListenerMax - 1));
  EXPECT_TRUE(make_room());
  EXPECT_EQ(count(), kHalfOpenPerListenerMax) << "one carries a channel";
  context_.links.front()->farewell().begin_close(*ends_.listener().arrived.front());
  EXPECT_TRUE(make_room());
  EXPECT_EQ(count(), kHalfOpenPerListenerMax - 1);
}

// A healthy link among so many that not every pass looks at all of them.
class ManyLinks : public testing::Test {
 protected:
  ManyLinks() {
    ends_.come_up();
    link_ = &ends_.sender();
    ends_.a.settled.threading = Threading::Own;
    EXPECT_EQ(ends_.a.links.next_sweep(UINT64_MAX), Links::Sweep::All) << "a few are nothing";
    for (std::uint8_t i = 1; i <= 64; ++i) ends_.a.contexts[0]->add_connector(Id128{i});
    ends_.a.links.tend();
    EXPECT_EQ(ends_.a.links.next_sweep(UINT64_MAX), Links::Sweep::Restless);
    EXPECT_FALSE(link_->restless());
  }

  TwoEnds ends_;
  Link* link_ = nullptr;
};

TEST_F(ManyLinks, AllHaveTheirTurnAfterAWhileAndWhenADeadlineHasCome) {
  const std::uint64_t now_ns = ends_.a.now_ns();
  EXPECT_EQ(ends_.a.links.next_sweep(now_ns + 1), Links::Sweep::Restless);
  EXPECT_EQ(ends_.a.links.next_sweep(now_ns), Links::Sweep::All);
  EXPECT_FALSE(ends_.a.links.tend(Links::Sweep::Restless));
  EXPECT_LE(ends_.a.due_ns, now_ns + 20'000'000) << "until then there is a pass to come";
  ends_.advance_ns(20'000'000);
  EXPECT_EQ(ends_.a.links.next_sweep(UINT64_MAX), Links::Sweep::All);
}

TEST_F(ManyLinks, WhatIsSaidConcernsOneOfThem) {
  EXPECT_EQ(ends_.a.links.of_connection(link_->connection()), link_);
  EXPECT_EQ(&ends_.a.links.of_channel(*ends_.connect.channel), link_);
  EXPECT_FALSE(link_->restless()) << "a question is no work for it";
  FrameHeader header = ends_.receiver().conversation().aside(link_->identity().id);
  header.type = MessageType::Acknowledge;
  EXPECT_TRUE(ends_.a.reception.on_frame(link_->connection(), header, {}));
  EXPECT_TRUE(link_->restless());
  ends_.a.links.tend(Links::Sweep::Restless);
  EXPECT_FALSE(link_->restless());
}

TEST_F(ManyLinks, APathThatTheLoopLosesIsFencedInTheNextPass) {
  {
    const ProgressLoop::Guard guard(link_->context().loop);
    link_->peer_link().quarantine(link_->peer_link().paths()[1], "pulled");
  }
  EXPECT_FALSE(link_->restless()) << "the loop's thread does not touch links";
  ends_.a.wire.said.clear();
  ends_.a.links.tend(Links::Sweep::Restless);
  const std::vector<MessageType> said = ends_.a.wire.types();
  EXPECT_EQ(std::count(said.begin(), said.end(), MessageType::Fence), 1);
  EXPECT_TRUE(link_->restless());
}

TEST_F(ManyLinks, OneThatWaitsForItsPeersCloseAndByeIsAtRest) {
  link_->farewell().begin_close(*ends_.connect.channel);
  EXPECT_TRUE(link_->restless());
  ends_.a.links.tend(Links::Sweep::Restless);
  EXPECT_FALSE(link_->restless());
  link_->touch();
  link_->farewell().on(Close{.channel = ends_.connect.channel->index});
  ends_.a.links.tend(Links::Sweep::Restless);
  EXPECT_EQ(link_->state(), LinkState::ByeSent);
  EXPECT_FALSE(link_->restless());
  EXPECT_LE(ends_.a.due_ns, ends_.a.now_ns() + 1'000'000'000) << "it does not wait for ever";
}

TEST_F(ManyLinks, OneThatIsTakenDownMakesNobodyLookAtTheOthers) {
  link_->take_down(Errc::PeerClosed);
  EXPECT_TRUE(link_->restless());
  EXPECT_FALSE(link_->context().loop.take_trouble());
}

TEST(Links, OneWhoseCreditsAreToBeWrittenAgainIsLookedAt) {
  TwoEnds ends;
  ends.come_up();
  ends.b.links.tend();
  ASSERT_FALSE(ends.receiver().restless());
  ends.receiver().repair().rewrite_soon();
  EXPECT_TRUE(ends.receiver().restless());
}

TEST(Links, OneThatWaitsForItsPeersWelcomeIsAtRest) {
  TwoEnds ends;
  ends.dial();
  ends.a.links.tend();
  EXPECT_EQ(ends.sender().state(), LinkState::AwaitWelcome);
  EXPECT_FALSE(ends.sender().restless());
  ends.carry();
  EXPECT_TRUE(ends.sender().restless());
}

TEST(Links, OneThatRisesIsAtRestUntilItsQueuePairsAreThere) {
  TwoEnds ends;
  ends.dial();
  ends.a.settled.threading = Threading::Own;
  while (ends.sender().bring_up() == nullptr) ASSERT_TRUE(ends.carry());
  const Link& link = ends.sender();
  ends.sender().tend();
  EXPECT_FALSE(link.restless()) << "no thread has been given to it";
  ends.a.links.tend(Links::Sweep::Restless);
  ASSERT_TRUE(link.bring_up()->started());
  while (!link.bring_up()->over()) std::this_thread::yield();
  ends.a.links.tend(Links::Sweep::Restless);
  EXPECT_EQ(link.bring_up(), nullptr);
  EXPECT_EQ(link.state(), LinkState::AwaitReady);
}

TEST(Links, AConnectionThatIsDroppedIsNobodysAnyMore) {
  TwoEnds ends;
  ends.come_up();
  const ConnectionId id = ends.sender().connection();
  ends.sender().drop_connection();
  EXPECT_EQ(ends.a.links.of_connection(id), nullptr);
}

TEST(Links, LinksThatAreOverAreForgottenAndTheirFiguresKept) {
  TwoEnds ends;
  ends.come_up();
  ends.sender().farewell().begin_close(*ends.connect.channel);
  ends.sender().take_down(Errc::PeerClosed);
  ends.a.links.tend();
  EXPECT_TRUE(ends.a.contexts[0]->links.empty());
  EXPECT_EQ(ends.a.forgotten, 1);
}

}  // namespace
}  // namespace mesh::engine
