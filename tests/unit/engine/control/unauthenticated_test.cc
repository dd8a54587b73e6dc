#include "engine/control/control_plane.h"
#include "src/base/timeouts.h"
#include "tests/unit/engine/control/control_fixture.h"

namespace mesh::engine {
namespace {

// Unauthenticated connections that misbehave at our plane, and calls of close() from every place.
class UnauthenticatedTest : public ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    identify_first_frames();
  }
  void identify_first_frames() {
    our_events_.when_frame = [&](const Recorder::Frame& frame) {
      ours_->identify(frame.id);
      return true;
    };
  }
  // Returns a client that our handler has identified.
  std::pair<UniqueFd, ConnectionId> known_client() {
    UniqueFd client = raw_client();
    const std::size_t before = our_events_.frames.size();
    raw_send(client, frame_of(1));
    EXPECT_TRUE(turn_until([&] { return our_events_.frames.size() > before; }));
    return {std::move(client), our_events_.frames.back().id};
  }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_F(UnauthenticatedTest, ASilentClientIsDroppedAtItsDeadline) {
  const UniqueFd client = raw_client();
  turn_until_idle();
  our_clock_ns_ += kAcceptToFirstFrameNs - 1;
  turn_until_idle();
  EXPECT_FALSE(raw_ended(client));
  our_clock_ns_ += 1;
  turn_until_idle();
  EXPECT_TRUE(raw_ended(client));
  EXPECT_TRUE(logged("sent nothing in 5 s"));
  EXPECT_TRUE(our_events_.lost.empty()) << "the handler never heard of it";
}

TEST_F(UnauthenticatedTest, GarbageIsDroppedAtOnce) {
  const UniqueFd client = raw_client();
  raw_send(client, bytes_of("GET / HTTP/1.0\r\n\r\n"));
  ASSERT_TRUE(turn_until([&] { return raw_ended(client); }));
  EXPECT_TRUE(logged("sent something other than a control message"));
  EXPECT_TRUE(our_events_.frames.empty() && our_events_.lost.empty());
}

TEST_F(UnauthenticatedTest, HalfAMessageIsDroppedAtItsDeadline) {
  const UniqueFd client = raw_client();
  raw_send(client, std::span<const std::byte>(frame_of(1)).first(17));
  turn_until_idle();
  EXPECT_FALSE(raw_ended(client));
  our_clock_ns_ += kAcceptToFirstFrameNs;
  turn_until_idle();
  EXPECT_TRUE(raw_ended(client));
  EXPECT_TRUE(logged("half a message (17 of 48 bytes)"));
}

TEST_F(UnauthenticatedTest, HalfAMessageThenTheEndIsNamed) {
  {
    const UniqueFd client = raw_client();
    raw_send(client, std::span<const std::byte>(frame_of(1, 100)).first(60));
  }
  ASSERT_TRUE(turn_until([&] { return logged("half a message (60 of 148 bytes)"); }));
}

TEST_F(UnauthenticatedTest, AConnectionWithoutAWordIsNamed) {
  raw_client().reset();
  ASSERT_TRUE(turn_until([&] { return logged("closed the connection after nothing"); }));
}

TEST_F(UnauthenticatedTest, AnotherVersionIsNamedWithOurs) {
  const UniqueFd client = raw_client();
  Bytes frame = frame_of(1);
  constexpr std::uint16_t kOther = kProtocolVersion + 1;
  frame[4] = std::byte{kOther};
  raw_send(client, frame);
  ASSERT_TRUE(turn_until([&] { return raw_ended(client); }));
  EXPECT_TRUE(logged(fmt::format("speaks version {}, we speak {}", kOther, kProtocolVersion)));
}

TEST_F(UnauthenticatedTest, AMalformedHeaderIsDropped) {
  const UniqueFd client = raw_client();
  Bytes frame = frame_of(1);
  frame[11] = std::byte{0x7f};  // a body of 2 GB
  raw_send(client, frame);
  ASSERT_TRUE(turn_until([&] { return raw_ended(client); }));
  EXPECT_TRUE(logged("malformed header"));
}

TEST_F(UnauthenticatedTest, GarbageFromAKnownPeerIsLostWithProtocol) {
  const auto [client, id] = known_client();
  raw_send(client, bytes_of("something else"));
  ASSERT_TRUE(turn_until([&] { return !our_events_.lost.empty(); }));
  EXPECT_EQ(our_events_.lost[0].id, id);
  EXPECT_EQ(our_events_.lost[0].reason, Errc::Protocol);
}

TEST_F(UnauthenticatedTest, HalfAMessageOfAKnownPeerHasItsOwnDeadline) {
  const auto [client, id] = known_client();
  our_clock_ns_ += 100 * kSecondNs;
  turn_until_idle();
  EXPECT_TRUE(our_events_.lost.empty()) << "a known peer may be silent for ever";
  raw_send(client, std::span<const std::byte>(frame_of(2, 8)).first(50));
  turn_until_idle();
  our_clock_ns_ += kFrameBeginToEndNs - 1;
  turn_until_idle();
  EXPECT_TRUE(our_events_.lost.empty());
  our_clock_ns_ += 1;
  turn_until_idle();
  ASSERT_EQ(our_events_.lost.size(), 1u);
  EXPECT_EQ(our_events_.lost[0].reason, Errc::Timeout);
  EXPECT_NE(our_events_.lost[0].text.find("half a message (50 of 56 bytes)"), std::string::npos);
}

TEST_F(UnauthenticatedTest, WhatArrivedBeforeALateLookStillCounts) {
  // More sockets than one pass looks at, so that deadlines are checked before all sockets are read.
  constexpr std::size_t kKnown = 70;
  constexpr std::size_t kUnauthenticated = 40;
  std::vector<UniqueFd> known;
  std::vector<UniqueFd> unauthenticated;
  const Bytes frame = frame_of(2, 8);
  for (std::size_t i = 0; i < kKnown; ++i) {
    known.push_back(known_client().first);
    raw_send(known.back(), std::span<const std::byte>(frame).first(50));
  }
  for (std::size_t i = 0; i < kUnauthenticated; ++i) unauthenticated.push_back(raw_client());
  turn_until_idle();
  for (const UniqueFd& client : known)
    raw_send(client, std::span<const std::byte>(frame).subspan(50));
  for (const UniqueFd& client : unauthenticated) raw_send(client, frame);
  our_clock_ns_ += 1000 * kSecondNs;  // our process was stopped, not theirs
  ASSERT_TRUE(turn_until([&] {
    return our_events_.frames.size() + our_events_.lost.size() >= 2 * kKnown + kUnauthenticated ||
           logged("dropped");
  }));
  EXPECT_EQ(our_events_.frames.size(), 2 * kKnown + kUnauthenticated);
  EXPECT_TRUE(our_events_.lost.empty());
}

TEST_F(UnauthenticatedTest, TheOldestOfTooManyGivesWayAfterItsGrace) {
  std::vector<UniqueFd> silent;
  silent.reserve(kUnauthenticatedMax);
  for (int i = 0; i < kUnauthenticatedMax; ++i) silent.push_back(raw_client());
  turn_until_idle();
  const UniqueFd honest = raw_client();
  raw_send(honest, frame_of(1));
  turn_until_idle();
  EXPECT_TRUE(our_events_.frames.empty()) << "waits in the backlog";
  our_clock_ns_ += kAcceptToGiveWayNs;
  ASSERT_TRUE(turn_until([&] { return our_events_.frames.size() == 1; }));
  EXPECT_TRUE(raw_ended(silent.front()));
  EXPECT_FALSE(raw_ended(silent[1]));
  EXPECT_FALSE(raw_ended(silent.back()));
  EXPECT_TRUE(logged("oldest of 256"));
}

TEST_F(UnauthenticatedTest, IdentifyingOneLetsTheNextIn) {
  std::vector<UniqueFd> clients;
  clients.reserve(kUnauthenticatedMax + 1);
  for (int i = 0; i < kUnauthenticatedMax + 1; ++i) clients.push_back(raw_client());
  turn_until_idle();
  raw_send(clients.back(), frame_of(1));
  turn_until_idle();
  EXPECT_TRUE(our_events_.frames.empty());
  raw_send(clients[5], frame_of(2));
  ASSERT_TRUE(turn_until([&] { return our_events_.frames.size() == 2; }));
  EXPECT_FALSE(raw_ended(clients.front())) << "nobody had to give way";
}

TEST_F(UnauthenticatedTest, RunningOutOfDescriptorsNeitherSpinsNorDeafens) {
  const UniqueFd client = raw_client();
  raw_send(client, frame_of(1));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;  // open descriptors stay, but no new one can be made
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  turn_until_idle();
  const Clock wall;
  const std::uint64_t start_ns = wall.now_ns();
  ours_->wait(50);
  EXPECT_GE(wall.now_ns() - start_ns, 40'000'000u)
      << "the listener, still ready, keeps the control thread awake";
  our_clock_ns_ += kSecondNs;
  turn_until_idle();
  ::setrlimit(RLIMIT_NOFILE, &before);
  const auto complaints = std::count_if(
      log_lines().begin(), log_lines().end(),
      [](const std::string& line) { return line.find("cannot accept") != std::string::npos; });
  EXPECT_EQ(complaints, 1) << "logged once, not at every try";
  EXPECT_TRUE(our_events_.frames.empty());
  our_clock_ns_ += kSecondNs;
  EXPECT_TRUE(turn_until([&] { return our_events_.frames.size() == 1; }));
}

TEST_F(UnauthenticatedTest, HandlersFalseDropsButFlushes) {
  constexpr std::size_t kFrames = 60;
  our_events_.when_frame = [&](const Recorder::Frame& frame) {
    // These frames exceed the peer's receive buffer, so the rest is still on its way when the
    // connection is dropped.
    for (std::size_t i = 0; i < kFrames; ++i)
      EXPECT_TRUE(ours_->send(frame.id, frame_of(99, kBodyBytesMax)));
    return false;
  };
  const ConnectionId id = theirs_->dial({ours_->addresses(), ours_->port()});
  for (std::uint64_t i = 0; i < 20; ++i)
    theirs_->send(id, frame_of(i, 1000));  // unread input must not reset the answer away
  ASSERT_TRUE(turn_until([&] { return !their_events_.lost.empty(); }));
  EXPECT_EQ(their_events_.frames.size(), kFrames);
  EXPECT_EQ(our_events_.frames.size(), 1u) << "nothing is delivered after false";
  EXPECT_TRUE(our_events_.lost.empty());
}

TEST_F(UnauthenticatedTest, CloseDeliversWhatWasSent) {
  constexpr std::size_t kFrames = 60;
  const ConnectionId id = dial_theirs();
  their_events_.when_frame = [&](const Recorder::Frame& frame) {
    theirs_->identify(frame.id);
    return true;
  };
  ASSERT_TRUE(turn_until([&] { return !our_events_.dialed.empty(); }));
  for (std::size_t i = 0; i < kFrames; ++i)
    ASSERT_TRUE(ours_->send(id, frame_of(i, kBodyBytesMax)));
  ours_->close(id);
  ours_->close(id);
  EXPECT_FALSE(ours_->send(id, frame_of(0)));
  ASSERT_TRUE(turn_until([&] { return !their_events_.lost.empty(); }));
  EXPECT_EQ(their_events_.frames.size(), kFrames);
  turn_until_idle();
  EXPECT_TRUE(our_events_.lost.empty()) << "not after close()";
  EXPECT_EQ(ours_->peer_name(id), "unknown") << "gone without needing the deadline";
}

TEST_F(UnauthenticatedTest, CloseGivesUpOnAPeerThatReadsNothing) {
  // The probe shows how many frames fit into the kernel's buffers and our queue. The client gets
  // kSpare fewer: half of our queue, so that the kernel's buffers may differ by half a MiB between
  // the two.
  constexpr std::size_t kSpare = 32;
  const auto [probe, probe_id] = known_client();
  const auto [client, id] = known_client();
  const int small = 4096;
  ::setsockopt(probe.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::size_t frames = 0;
  while (ours_->send(probe_id, frame_of(2, kBodyBytesMax))) ++frames;
  ours_->close(probe_id);
  ASSERT_GT(frames, 2 * kSpare);
  for (std::size_t i = 0; i < frames - kSpare; ++i)
    ASSERT_TRUE(ours_->send(id, frame_of(3, kBodyBytesMax)));
  ours_->close(id);
  our_clock_ns_ += kSecondNs - 1;
  turn_until_idle();
  EXPECT_NE(ours_->peer_name(id), "unknown") << "still flushing";
  EXPECT_FALSE(raw_ended(client));
  our_clock_ns_ += 1;
  turn_until_idle();
  EXPECT_EQ(ours_->peer_name(id), "unknown");
  EXPECT_TRUE(our_events_.lost.empty());
}

TEST_F(UnauthenticatedTest, HandlersMayCloseDialAndSendFromInside) {
  constexpr std::size_t kClients = 20;
  std::vector<UniqueFd> clients;
  std::vector<ConnectionId> known;
  for (std::size_t i = 0; i < kClients; ++i) {
    auto [client, id] = known_client();
    clients.push_back(std::move(client));
    known.push_back(id);
  }
  const std::size_t frames_before = our_events_.frames.size();
  our_events_.when_frame = [&](const Recorder::Frame& frame) {
    for (const ConnectionId id : known) ours_->close(id);  // also the one that brought this frame
    for (int i = 0; i < 100; ++i) dial_theirs();  // makes the table grow during the callback
    EXPECT_FALSE(ours_->send(frame.id, frame_of(5)));
    EXPECT_EQ(frame.body.size(), 512u);
    return true;
  };
  our_events_.when_dialed = [&](ConnectionId id) { ours_->close(id); };
  for (const UniqueFd& client : clients) raw_send(client, frame_of(2, 512));
  ASSERT_TRUE(turn_until([&] { return our_events_.dialed.size() == 100; }));
  EXPECT_EQ(our_events_.frames.size(), frames_before + 1) << "all others were closed by the first";
  EXPECT_TRUE(our_events_.lost.empty());
}

TEST_F(UnauthenticatedTest, HandlersMayActInsideOnLost) {
  std::vector<UniqueFd> clients;
  std::vector<ConnectionId> known;
  for (int i = 0; i < 10; ++i) {
    auto [client, id] = known_client();
    clients.push_back(std::move(client));
    known.push_back(id);
  }
  our_events_.when_lost = [&](const Recorder::Lost& lost) {
    EXPECT_FALSE(ours_->send(lost.id, frame_of(1)));
    EXPECT_NE(ours_->peer_name(lost.id), "unknown") << "its name is still there for the log line";
    for (const ConnectionId id : known) ours_->close(id);
    ours_->dial({{}, 1});  // fails at once, and must not call back from here
  };
  clients.clear();
  ASSERT_TRUE(turn_until([&] { return our_events_.lost.size() >= 2; }));
  EXPECT_EQ(std::count_if(our_events_.lost.begin(), our_events_.lost.end(),
                          [&](const auto& lost) {
                            return std::find(known.begin(), known.end(), lost.id) != known.end();
                          }),
            1)
      << "the first one's handler closed the others";
  our_events_.when_lost = nullptr;
}

TEST_F(UnauthenticatedTest, DestroyWithOpenConnectionsLeaksNoDescriptor) {
  ours_.reset();
  theirs_.reset();
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    ours_ = open(our_events_, our_clock_ns_);
    theirs_ = open(their_events_, their_clock_ns_);
    ASSERT_TRUE(ours_ && theirs_);
    const std::size_t dialed_before = our_events_.dialed.size();
    const UniqueFd unauthenticated = raw_client();
    for (int i = 0; i < 10; ++i) dial_theirs();
    ASSERT_TRUE(turn_until([&] { return our_events_.dialed.size() == dialed_before + 10; }));
    ours_->close(our_events_.dialed.back());
    dial_theirs();
    ours_.reset();
    theirs_.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(UnauthenticatedTest, AForkedChildKeepsNoConnectionAlive) {
  const auto [client, id] = known_client();
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char byte = 0;
    [[maybe_unused]] const ssize_t got =
        ::read(gate[0], &byte, 1);  // sleeps until the parent is done
    ::_exit(0);
  }
  ::close(gate[0]);
  EXPECT_FALSE(raw_ended(client));
  sockaddr_storage listener{};
  const socklen_t listener_bytes = loopback().to_sockaddr(ours_->port(), listener);
  ours_.reset();
  EXPECT_TRUE(turn_until([&ours = client] { return raw_ended(ours); }))
      << "the child still holds the connection";
  const auto refused = [&] {
    const UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(late.get(), reinterpret_cast<const sockaddr*>(&listener), listener_bytes) != 0;
  };
  EXPECT_TRUE(turn_until(refused)) << "the child still holds the listener";
  ::close(gate[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
}

}  // namespace mesh::engine
