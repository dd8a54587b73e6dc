// A control connection that runs over a cable that is cut, and the addresses to which it goes over.

#include "engine/link/link.h"
#include "engine/link/redial.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::TwoEnds;

class RedialWays : public ::testing::Test {
 protected:
  RedialWays() {
    ends_.come_up();
    dialed_ = ends_.a.wire.dialed.size();
  }
  std::size_t dials() const { return ends_.a.wire.dialed.size() - dialed_; }
  void tend() { ends_.a.links.tend(); }
  std::array<std::uint8_t, 16> gid_of_rail(std::size_t rail) {
    std::array<std::uint8_t, 16> gid{};
    std::copy_n(std::begin(ends_.a.found[rail].gids.front().gid.raw), gid.size(), gid.begin());
    return gid;
  }
  // Returns the address of the connector to which a path of the acceptor leads.
  SocketAddress peer_address_of_path(std::uint32_t index) {
    const PathEnds& ends = ends_.receiver().peer_link().paths()[index].ends;
    return SocketAddress::from_gid(
        ends_.receiver().terms.peer_rails[ends.peer_rail].addresses[ends.peer_address].gid);
  }

  testkit::LogCapture log_;
  TwoEnds ends_;
  std::size_t dialed_ = 0;
};

// The acceptor may be the only one to notice: credits are lost, and the connector has nothing
// outstanding. It dials only where a path leads, because HELLO may name any address.
TEST_F(RedialWays, AnAcceptorWithoutAnAnswerToItsFenceAsksWhereAPathLeads) {
  Link& acceptor = ends_.receiver();
  const SocketAddress carries = peer_address_of_path(1);
  acceptor.terms.peer_addresses = {ends_.b.wire.peer, *SocketAddress::from_text("10.0.0.9"),
                                   carries};
  {
    const ProgressLoop::Guard guard(acceptor.context().loop);
    acceptor.peer_link().quarantine(acceptor.peer_link().paths()[0], "the test cuts it");
  }
  const std::size_t before = ends_.b.wire.dialed.size();
  for (int i = 0; i < 20; ++i) ends_.turn();
  ends_.b.links.tend();
  ends_.b.wire.said.clear();
  ends_.advance_ns(kFenceToOtherWayNs);
  ends_.b.links.tend();
  ends_.b.links.tend();
  ASSERT_EQ(ends_.b.wire.dialed.size(), before + 1);
  EXPECT_EQ(ends_.b.wire.dialed.back(), std::vector{carries});
}

TEST_F(RedialWays, ASummonIsAnsweredWhereItCameFrom) {
  const SocketAddress other = *SocketAddress::from_text("10.0.0.2");
  ends_.sender().port.addresses = {ends_.a.wire.peer, other};
  ends_.a.reception.on_lost(ends_.sender().connection(), Errc::Timeout, "the test says so");
  tend();
  ASSERT_EQ(dials(), 1u);
  EXPECT_EQ(ends_.a.wire.dialed.back(), std::vector{ends_.a.wire.peer}) << "nobody answers there";
  ends_.a.wire.peer = other;
  ends_.sender().redial().on_summon(ends_.receiver().redial().claim(), ends_.a.wire.next++);
  tend();
  ASSERT_EQ(dials(), 2u);
  EXPECT_EQ(ends_.a.wire.dialed.back(), std::vector{other});
}

TEST_F(RedialWays, APortThatGoesDownTakesItsConnectionAlong) {
  const std::vector<SocketAddress> all{ends_.a.wire.peer, *SocketAddress::from_text("10.0.0.2")};
  ends_.sender().port.addresses = all;
  ends_.a.links.on_rail_away(1, "our port is down");
  tend();
  EXPECT_EQ(dials(), 0u) << "it runs over no port of ours";
  ends_.a.wire.own = {SocketAddress::from_gid(gid_of_rail(0))};
  ends_.a.links.on_rail_away(0, "our port is down");
  tend();
  ASSERT_EQ(dials(), 1u) << "at once";
  EXPECT_EQ(ends_.a.wire.dialed.back(), (std::vector{all[1], all[0]}));
}

}  // namespace
}  // namespace mesh::engine
