#include "engine/control/control_plane.h"

#include "engine/control/control_connection.h"
#include "engine/control/control_listener.h"
#include "src/base/timeouts.h"
#include "tests/unit/engine/control/control_fixture.h"

namespace mesh::engine {

TEST_F(ControlPlaneTest, ListensOnTheNamedInterface) {
  EXPECT_NE(ours_->port(), 0u);
  ASSERT_EQ(ours_->addresses().size(), 1u);
  EXPECT_EQ(ours_->addresses()[0], loopback());
}

TEST_F(ControlPlaneTest, UnknownInterfaceIsNamed) {
  ControlPlaneOptions options;
  options.socket_ifname = "=no-such-interface";
  EXPECT_EQ(ControlPlane::open(options, our_events_).code(), Errc::System);
  EXPECT_TRUE(logged("no-such-interface"));
}

TEST_F(ControlPlaneTest, OpensWithoutAnyRule) {
  Recorder events;
  const auto plane = ControlPlane::open({}, events);
  ASSERT_TRUE(plane.ok());
  EXPECT_GE((*plane)->addresses().size(), 1u);
  EXPECT_LE((*plane)->addresses().size(), 8u);
}

TEST_F(ControlPlaneTest, ListensWhereItCanAndNamesWhereItCannot) {
  const InterfaceAddress absent{.name = "eth7", .address = loopback("192.0.2.77")};
  const InterfaceAddress present{.name = "lo", .address = loopback()},
      other{.name = "lo", .address = loopback("127.0.0.3")};
  const Result<ControlListener> listener = listen_on(std::array{absent, present, other});
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener->addresses, (std::vector{present.address, other.address}));
  EXPECT_EQ(std::count_if(log_lines().begin(), log_lines().end(),
                          [](const std::string& line) {
                            return line.find("cannot listen on 192.0.2.77:0 (eth7)") == 9;
                          }),
            1);
  EXPECT_TRUE(
      logged(fmt::format("handshakes on 127.0.0.1:{0} (lo), 127.0.0.3:{0} (lo)", listener->port)));
  EXPECT_EQ(listen_on(std::array{absent}).code(), Errc::System);
}

TEST_F(ControlPlaneTest, ALinkLocalAddressGetsTheScopesOfThoseWeListenOn) {
  SocketAddress peer = *SocketAddress::from_text("fe80::2"),
                first = *SocketAddress::from_text("fe80::1"), second = first;
  first.scope_id = 3;
  second.scope_id = 5;
  const SocketAddress global = *SocketAddress::from_text("fd00::1");
  std::vector<SocketAddress> tried =
      with_scopes(std::array{global, peer}, std::array{first, global, second, first});
  ASSERT_EQ(tried.size(), 3u);
  EXPECT_EQ(tried[0], global);
  EXPECT_EQ(tried[1].scope_id, 3u);
  EXPECT_EQ(tried[2].scope_id, 5u);
  EXPECT_TRUE(tried[1].same_host(peer) && tried[2].same_host(peer));
  peer.scope_id = 9;
  EXPECT_EQ(with_scopes(std::array{peer}, std::array{first}), std::vector{peer})
      << "as it came to us";
}

TEST_F(ControlPlaneTest, CarriesFramesBothWays) {
  const ConnectionId id = dial_theirs();
  our_events_.when_dialed = [&](ConnectionId dialed) {
    EXPECT_TRUE(ours_->send(dialed, frame_of(1, 100)));
  };
  their_events_.when_frame = [&](const Recorder::Frame& frame) {
    theirs_->identify(frame.id);
    EXPECT_TRUE(theirs_->send(frame.id, frame_of(2, 0)));
    return true;
  };
  ASSERT_TRUE(turn_until([&] { return our_events_.frames.size() == 1; }));
  EXPECT_EQ(our_events_.dialed, std::vector<ConnectionId>{id});
  EXPECT_EQ(our_events_.frames[0].id, id);
  EXPECT_EQ(our_events_.frames[0].header.sequence, 2u);
  EXPECT_TRUE(our_events_.frames[0].body.empty());
  ASSERT_EQ(their_events_.frames.size(), 1u);
  const Bytes expected = frame_of(1, 100);
  EXPECT_EQ(their_events_.frames[0].body,
            Bytes(expected.begin() + kFrameHeaderBytes, expected.end()));
  EXPECT_EQ(ours_->peer_name(id), "127.0.0.1:" + std::to_string(theirs_->port()));
  EXPECT_TRUE(our_events_.lost.empty() && their_events_.lost.empty());
}

TEST_F(ControlPlaneTest, TellsOfSomebodyElsesDescriptorUntilItIsRead) {
  const UniqueFd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  ASSERT_TRUE(ours_->watch(event.get()).ok());
  ours_->poll_once();
  EXPECT_TRUE(our_events_.readable.empty());
  ::eventfd_write(event.get(), 1);
  const Clock wall;
  const std::uint64_t began_ns = wall.now_ns();
  ours_->wait(20'000);
  EXPECT_LT(wall.now_ns() - began_ns, 10 * kSecondNs) << "it ends the wait";
  EXPECT_TRUE(ours_->poll_once());
  ours_->poll_once();
  EXPECT_EQ(our_events_.readable, (std::vector{event.get(), event.get()}));
  eventfd_t count = 0;
  ::eventfd_read(event.get(), &count);
  EXPECT_FALSE(ours_->poll_once());
  EXPECT_EQ(our_events_.readable.size(), 2u);
}

TEST_F(ControlPlaneTest, LetsGoOfADescriptorThatHangsUp) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  ASSERT_TRUE(ours_->watch(read_end.get()).ok());
  ::close(ends[1]);
  EXPECT_TRUE(ours_->poll_once());
  EXPECT_FALSE(ours_->poll_once()) << "it would be ready for ever";
  EXPECT_EQ(our_events_.readable.size(), 1u);
}

TEST_F(ControlPlaneTest, WhatIsSentBeforeTheDialIsUpArrives) {
  const ConnectionId id = dial_theirs();
  EXPECT_TRUE(ours_->send(id, frame_of(7)));
  ASSERT_TRUE(turn_until([&] { return their_events_.frames.size() == 1; }));
  EXPECT_EQ(their_events_.frames[0].header.sequence, 7u);
}

TEST_F(ControlPlaneTest, CarriesTheLargestFramesInOrder) {
  constexpr std::size_t kFrames = 56;  // 56 of 17.5 KiB: just under the bound of the queue
  const ConnectionId id = dial_theirs();
  their_events_.when_frame = [&](const Recorder::Frame& frame) {
    theirs_->identify(frame.id);
    return true;
  };
  for (std::size_t i = 0; i < kFrames; ++i)
    ASSERT_TRUE(ours_->send(id, frame_of(i, kBodyBytesMax)));
  ASSERT_TRUE(turn_until([&] { return their_events_.frames.size() == kFrames; }));
  for (std::size_t i = 0; i < kFrames; ++i) {
    const Bytes expected = frame_of(i, kBodyBytesMax);
    ASSERT_TRUE(std::equal(their_events_.frames[i].body.begin(), their_events_.frames[i].body.end(),
                           expected.begin() + kFrameHeaderBytes, expected.end()));
  }
}

TEST_F(ControlPlaneTest, APassTakesOneFramePerConnection) {
  const UniqueFd client = raw_client();
  our_events_.when_frame = [&](const Recorder::Frame& frame) {
    ours_->identify(frame.id);
    return true;
  };
  Bytes five;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Bytes frame = frame_of(i, 3);
    five.insert(five.end(), frame.begin(), frame.end());
  }
  raw_send(client, five);
  while (our_events_.frames.size() < 5) {
    const std::size_t before = our_events_.frames.size();
    ours_->poll_once();
    ASSERT_LE(our_events_.frames.size(), before + 1);
  }
}

TEST_F(ControlPlaneTest, SixHundredDialsAtOnceAreAllServed) {
  constexpr std::size_t kDials = 600;
  their_events_.when_frame = [&](const Recorder::Frame& frame) {
    theirs_->identify(frame.id);
    return theirs_->send(frame.id, frame_of(frame.header.sequence));
  };
  our_events_.when_dialed = [&](ConnectionId id) { ours_->send(id, frame_of(id)); };
  for (std::size_t i = 0; i < kDials; ++i) dial_theirs();
  ASSERT_TRUE(turn_until([&] { return our_events_.frames.size() == kDials; }));
  for (const Recorder::Frame& frame : our_events_.frames)
    EXPECT_EQ(frame.header.sequence, frame.id);
  EXPECT_TRUE(our_events_.lost.empty() && their_events_.lost.empty());
  EXPECT_EQ(their_clock_ns_.load(), 0u) << "no deadline was needed";
}

TEST_F(ControlPlaneTest, EndOfTheOtherSideIsPeerGone) {
  const ConnectionId id = dial_theirs();
  ASSERT_TRUE(turn_until([&] { return !our_events_.dialed.empty(); }));
  theirs_.reset();
  ASSERT_TRUE(turn_until([&] { return !our_events_.lost.empty(); }));
  EXPECT_EQ(our_events_.lost[0].id, id);
  EXPECT_EQ(our_events_.lost[0].reason, Errc::PeerGone);
  EXPECT_NE(our_events_.lost[0].text.find("127.0.0.1:"), std::string::npos)
      << our_events_.lost[0].text;
  EXPECT_FALSE(ours_->send(id, frame_of(1)));
}

TEST_F(ControlPlaneTest, ResetIsPeerGone) {
  UniqueFd client = raw_client();
  our_events_.when_frame = [&](const Recorder::Frame& frame) {
    ours_->identify(frame.id);
    return true;
  };
  raw_send(client, frame_of(1));
  ASSERT_TRUE(turn_until([&] { return !our_events_.frames.empty(); }));
  const linger at_once{1, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  client.reset();
  ASSERT_TRUE(turn_until([&] { return !our_events_.lost.empty(); }));
  EXPECT_EQ(our_events_.lost[0].reason, Errc::PeerGone);
}

TEST_F(ControlPlaneTest, APeerThatReadsNothingIsLostAtTheQueuesBound) {
  const UniqueFd client = raw_client();
  our_events_.when_frame = [&](const Recorder::Frame& frame) {
    ours_->identify(frame.id);
    return true;
  };
  raw_send(client, frame_of(1));
  ASSERT_TRUE(turn_until([&] { return !our_events_.frames.empty(); }));
  const ConnectionId id = our_events_.frames[0].id;
  std::size_t accepted = 0;
  while (ours_->send(id, frame_of(2, kBodyBytesMax)) && accepted < 100'000)
    ++accepted;  // fills the buffers of loopback first
  EXPECT_GE(accepted, kSendQueueBytesMax / (kBodyBytesMax + kFrameHeaderBytes));
  EXPECT_LT(accepted, 100'000u);
  EXPECT_TRUE(our_events_.lost.empty()) << "never from inside send()";
  EXPECT_FALSE(ours_->send(id, frame_of(3)));
  ours_->wait(-1);  // must not sleep: send() has found work
  ours_->poll_once();
  ASSERT_EQ(our_events_.lost.size(), 1u);
  EXPECT_EQ(our_events_.lost[0].reason, Errc::Exhausted);
}

TEST_F(ControlPlaneTest, FallsBackFromARefusedAddress) {
  const std::vector<SocketAddress> addresses{loopback("127.0.0.9"), loopback()};
  const ConnectionId id = ours_->dial({addresses, theirs_->port()});
  ASSERT_TRUE(turn_until([&] { return !our_events_.dialed.empty(); }));
  EXPECT_EQ(ours_->peer_name(id), "127.0.0.1:" + std::to_string(theirs_->port()));
  EXPECT_TRUE(our_events_.lost.empty());
}

// A listener with a full backlog answers no further SYN.
class SilentListener {
 public:
  SilentListener(const SocketAddress& address, std::uint16_t port) {
    const socklen_t bytes = address.to_sockaddr(port, storage_);
    const auto* const name = reinterpret_cast<const sockaddr*>(&storage_);
    EXPECT_EQ(::bind(fd_.get(), name, bytes), 0);
    EXPECT_EQ(::listen(fd_.get(), 0), 0);
    for (int i = 0; i < 4; ++i) {
      fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      [[maybe_unused]] const int begun = ::connect(fillers_.back().get(), name, bytes);
    }
  }

 private:
  sockaddr_storage storage_{};
  UniqueFd fd_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::vector<UniqueFd> fillers_;
};

TEST_F(ControlPlaneTest, FallsBackFromASilentAddressAfterAShortWhile) {
  const SilentListener silent(loopback("127.0.0.9"), theirs_->port());
  const std::vector<SocketAddress> addresses{loopback("127.0.0.9"), loopback()};
  ours_->dial({addresses, theirs_->port()});
  turn_until_idle();
  our_clock_ns_ += kFirstDialToNextNs - 1;
  turn_until_idle();
  EXPECT_TRUE(our_events_.dialed.empty());
  our_clock_ns_ += 1;
  ASSERT_TRUE(turn_until([&] { return !our_events_.dialed.empty(); }));
  EXPECT_TRUE(our_events_.lost.empty());
}

// A SYN may be lost, or the way may be long.
TEST_F(ControlPlaneTest, EachSilentAddressHasTheWholeTimeAtLast) {
  const SilentListener one(loopback("127.0.0.8"), theirs_->port());
  const SilentListener other(loopback("127.0.0.9"), theirs_->port());
  const std::vector<SocketAddress> addresses{loopback("127.0.0.8"), loopback("127.0.0.9")};
  ours_->dial({addresses, theirs_->port()});
  for (const std::uint64_t patience_ns :
       {kFirstDialToNextNs, kSecondDialToNextNs, kDialToAnswerNs}) {
    for (int each = 0; each < 2; ++each) {
      turn_until_idle();
      our_clock_ns_ += patience_ns - 1;
      turn_until_idle();
      EXPECT_TRUE(our_events_.lost.empty()) << patience_ns;
      our_clock_ns_ += 1;
    }
  }
  ASSERT_TRUE(turn_until([&] { return !our_events_.lost.empty(); }));
  EXPECT_EQ(our_events_.lost[0].reason, Errc::Timeout);
  const std::string& text = our_events_.lost[0].text;
  EXPECT_EQ(text.find("127.0.0.8"), text.rfind("127.0.0.8")) << text;
  EXPECT_NE(text.find("127.0.0.9"), std::string::npos) << text;
  EXPECT_NE(text.find(": no answer (host down, or a firewall?)"), std::string::npos) << text;
}

TEST_F(ControlPlaneTest, ADialWithoutAnswerAnywhereIsLostAndNamesAll) {
  const std::vector<SocketAddress> addresses{loopback("127.0.0.8"), loopback("127.0.0.9")};
  const ConnectionId id = ours_->dial({addresses, theirs_->port()});
  EXPECT_TRUE(our_events_.lost.empty()) << "never from inside dial()";
  ASSERT_TRUE(turn_until([&] { return !our_events_.lost.empty(); }));
  EXPECT_EQ(our_events_.lost[0].id, id);
  EXPECT_NE(our_events_.lost[0].text.find("127.0.0.8"), std::string::npos);
  EXPECT_NE(our_events_.lost[0].text.find("127.0.0.9"), std::string::npos);
  EXPECT_TRUE(our_events_.dialed.empty());

  const ConnectionId nowhere = ours_->dial({{}, 1});
  ASSERT_TRUE(turn_until([&] { return our_events_.lost.size() == 2; }));
  EXPECT_EQ(our_events_.lost[1].id, nowhere);
}

TEST_F(ControlPlaneTest, CloseInsideADialIsSilent) {
  const ConnectionId id = dial_theirs();
  ours_->close(id);
  turn_until_idle();
  EXPECT_TRUE(our_events_.dialed.empty() && our_events_.lost.empty());
}

TEST_F(ControlPlaneTest, WakeEndsAWaitEachTime) {
  for (int round = 0; round < 3; ++round) {
    std::thread waker([&] {
      ours_->wake();
      ours_->wake();
    });
    ours_->wait(-1);  // only the wake ends it
    waker.join();
    EXPECT_FALSE(ours_->poll_once()) << "a wake-up is no work";
  }
}

TEST_F(ControlPlaneTest, WaitEndsAtADeadline) {
  const UniqueFd client = raw_client();
  ASSERT_TRUE(turn_until([&] { return ours_->poll_once(); })) << "accepted";
  ours_->poll_once();
  our_clock_ns_ += kAcceptToFirstFrameNs;
  ours_->wait(-1);  // returns, because the deadline has passed
  EXPECT_TRUE(ours_->poll_once());
  EXPECT_TRUE(raw_ended(client));
}

TEST_F(ControlPlaneTest, ADialFromAnotherThreadIsNoticedByASleeper) {
  constexpr std::size_t kRounds = 50;  // in most of them the sleeper is asleep before the dial
  for (std::size_t round = 1; round <= kRounds; ++round) {
    ours_->poll_once();
    std::atomic<bool> started{false};
    std::thread sleeper([&] {
      started.store(true);
      ours_->wait(-1);
    });
    while (!started.load()) ::sched_yield();
    for (int i = 0; i < 100; ++i) ::sched_yield();
    ours_->dial({{}, 1});  // fails at once: the sleeper must report it
    sleeper.join();
    ours_->poll_once();
    ASSERT_EQ(our_events_.lost.size(), round);
  }
}

}  // namespace mesh::engine
