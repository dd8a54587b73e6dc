// Losses, ends and words that the log has once, however many links see them.
#include "engine/data/peer_log.h"

#include "tests/prelude.h"
#include "tests/unit/engine/data/nobody.h"

namespace mesh::engine {
namespace {

class PeerLogTest : public testing::Test {
 protected:
  PeerLogTest() { cable_.name = "n0:1 10.0.1.1 -> n0:1 10.0.1.2"; }
  PeerLink link_to(const char* host) {
    return {loop_, owner_, LinkIdentity{.peer_host = host}, policy_};
  }

  LogLevel loss(const PeerLink& link, const Path& path, bool port_down = false) {
    return log_.note_loss(link, path, port_down);
  }

  testkit::NoWaker waker_;
  testkit::NoOwner owner_;
  ProgressLoop loop_{waker_};
  TransferPolicy policy_;
  PeerLink sends_ = link_to("b"), receives_ = link_to("b"), elsewhere_ = link_to("c"),
           sibling_ = link_to("a");
  Path cable_;
  PeerLog log_{"a"};
};

TEST_F(PeerLogTest, WordsAreNewsOnceForEachPeer) {
  EXPECT_TRUE(log_.is_news("b", "n0"));
  EXPECT_FALSE(log_.is_news("b", "n0"));
  EXPECT_TRUE(log_.is_news("b", "n1"));
  EXPECT_TRUE(log_.is_news("c", "n0"));
}

SocketAddress address(const char* text) { return *SocketAddress::from_text(text); }

TEST_F(PeerLogTest, HostsOfOneNameAndWithoutIdsAreTwoIfTheyHaveNoAddressInCommon) {
  const SocketAddress one = address("10.0.0.1"), other = address("10.0.0.2");
  EXPECT_EQ(log_.other_claim("b", {}), std::nullopt);
  EXPECT_EQ(log_.other_claim("b", {0, {one, address("10.0.1.1")}}), std::nullopt);
  EXPECT_EQ(log_.other_claim("b", {7, {address("10.0.1.1")}}), std::nullopt) << "one interface";
  EXPECT_EQ(log_.other_claim("c", {0, {other}}), std::nullopt);
  EXPECT_EQ(log_.other_claim("b", {0, {other}}), one);
  EXPECT_EQ(log_.other_claim("b", {0, {one}}), other);
}

TEST_F(PeerLogTest, HostsOfOneNameAreTwoIfTheirIdsDiffer) {
  const SocketAddress one = address("10.0.0.1"), other = address("10.0.0.2"),
                      bridge = address("172.17.0.1");
  EXPECT_EQ(log_.other_claim("b", {1, {bridge, one}}), std::nullopt);
  EXPECT_EQ(log_.other_claim("b", {1, {other}}), std::nullopt) << "another interface of it";
  EXPECT_EQ(log_.other_claim("b", {2, {bridge, other}}), one);
  EXPECT_EQ(log_.other_claim("b", {1, {bridge, one}}), other);
  EXPECT_EQ(log_.other_claim("b", {3, {bridge, one, other}}), bridge) << "it has all in common";
}

TEST_F(PeerLogTest, AnEndIsNewsAgainAfterANewBegin) {
  EXPECT_TRUE(log_.is_first_end("b"));
  EXPECT_FALSE(log_.is_first_end("b"));
  log_.note_begin("b");
  EXPECT_TRUE(log_.is_first_end("b"));
}

TEST_F(PeerLogTest, ACableIsLostWithTheFirstLinkAndBackWithTheLast) {
  EXPECT_EQ(LogLevel::Warn, loss(sends_, cable_));
  EXPECT_EQ(LogLevel::Detail, loss(receives_, cable_));
  EXPECT_EQ(LogLevel::Warn, loss(elsewhere_, cable_)) << "a cable of that name to another host";
  EXPECT_TRUE(log_.note_stand_in(sends_, "c"));
  EXPECT_FALSE(log_.note_stand_in(sends_, "c")) << "it has been told";
  EXPECT_EQ(log_.end_of_loss(sends_, cable_), std::nullopt);
  EXPECT_EQ(log_.end_of_loss(sends_, cable_), std::nullopt) << "it has it back already";
  EXPECT_EQ(log_.end_of_loss(receives_, cable_), "c");
  EXPECT_EQ(log_.end_of_loss(elsewhere_, cable_), "") << "nothing stood in";
  EXPECT_EQ(LogLevel::Warn, loss(receives_, cable_)) << "the next cut is news";
}

TEST_F(PeerLogTest, ALinkThatHasEndedMissesNothing) {
  EXPECT_EQ(LogLevel::Warn, loss(sends_, cable_));
  EXPECT_EQ(LogLevel::Detail, loss(receives_, cable_));
  log_.forget(sends_);
  EXPECT_EQ(log_.end_of_loss(receives_, cable_), "");
  EXPECT_EQ(LogLevel::Warn, loss(receives_, cable_));
  log_.forget(receives_);
  EXPECT_EQ(LogLevel::Warn, loss(elsewhere_, cable_));
}

TEST_F(PeerLogTest, APathOverHostsIsOneWhateverItsRails) {
  Path route = {}, other = {};
  route.ends.relayed = other.ends.relayed = true;
  route.name = "n1:1 -> n0:1";
  other.name = "n2:1 -> n0:1";
  EXPECT_EQ(LogLevel::Warn, loss(sends_, route));
  EXPECT_EQ(log_.end_of_loss(sends_, other), "");
}

TEST_F(PeerLogTest, OneLineWarnsOfAPortThatIsDown) {
  Path relayed, other_port;
  relayed.ends.relayed = true;
  other_port.rail = 1;
  other_port.name = "n1";
  EXPECT_EQ(loss(sends_, cable_, true), LogLevel::Warn);
  EXPECT_EQ(loss(elsewhere_, cable_, true), LogLevel::Info) << "another peer over the port";
  EXPECT_EQ(loss(elsewhere_, relayed), LogLevel::Info) << "a host between has lost the cable";
  EXPECT_EQ(loss(receives_, other_port, true), LogLevel::Warn) << "another port";
  EXPECT_EQ(loss(sibling_, cable_, true), LogLevel::Info) << "within the host";
  for (const PeerLink* link : {&sends_, &receives_, &elsewhere_, &sibling_}) log_.forget(*link);
  EXPECT_EQ(loss(sibling_, cable_, true), LogLevel::Info) << "the line of the cable comes";
  EXPECT_EQ(loss(sends_, cable_, true), LogLevel::Warn);
  for (const PeerLink* link : {&sends_, &sibling_}) log_.forget(*link);
  EXPECT_EQ(loss(elsewhere_, relayed), LogLevel::Warn) << "all are back";
}

}  // namespace
}  // namespace mesh::engine
