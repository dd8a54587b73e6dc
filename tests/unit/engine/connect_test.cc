// How channels are opened, and what becomes of channels that never open.

#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "src/base/socket.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;

// Calls connect once.
Result<Channel*> try_connect(Bed& bed, const testkit::Seat& seat, HandleBytes& handle) {
  testkit::BedHost& host = bed.hosts[seat.host];
  return host.engine->connect(*host.contexts[seat.context], 0, handle);
}

// Calls connect until its result is not WouldBlock.
Result<Channel*> connect(Bed& bed, const testkit::Seat& seat, HandleBytes& handle) {
  Result<Channel*> answer = Errc::WouldBlock;
  EXPECT_TRUE(bed.until([&] {
    answer = try_connect(bed, seat, handle);
    return answer.code() != Errc::WouldBlock;
  }));
  return answer;
}

// Calls accept until its result is not WouldBlock, within so few rounds that no time-out passes.
Errc accept(Bed& bed, const testkit::Seat& seat, Listener& listener) {
  Errc answer = Errc::WouldBlock;
  EXPECT_TRUE(bed.until([&] {
    return (answer = bed.hosts[seat.host].engine->accept(listener).code()) != Errc::WouldBlock;
  }));
  return answer;
}

Listener* listen(Bed& bed, const testkit::Seat& seat, HandleBytes& handle) {
  return bed.hosts[seat.host]
      .engine->listen(*bed.hosts[seat.host].contexts[seat.context], 0, handle)
      .value();
}

TEST(Connect, FiveHundredChannelsShareTheQueuePairsOfOne) {
  Bed bed({.fabric = testkit::kHalves});
  std::vector<std::unique_ptr<Talk>> talks;
  talks.push_back(std::make_unique<Talk>(bed, kA, kB, 512));
  const EngineStats sender = bed.stats(0), receiver = bed.stats(1);
  EXPECT_EQ(sender.queue_pairs, 2u * (1 + 4));
  for (int i = 1; i < 512; ++i) talks.push_back(std::make_unique<Talk>(bed, kA, kB, 512));
  EXPECT_EQ(bed.stats(0).channels, 512u);
  EXPECT_EQ(bed.stats(0).queue_pairs, sender.queue_pairs);
  EXPECT_EQ(bed.stats(1).queue_pairs, receiver.queue_pairs);
  EXPECT_EQ(bed.stats(0).completion_queues, sender.completion_queues);
  EXPECT_EQ(bed.stats(0).links, 1u);
  std::vector<Request*> open;
  open.reserve(2 * talks.size());
  for (const auto& talk : talks) open.push_back(talk->receive({.bytes = 512}).value());
  for (const auto& talk : talks) open.push_back(talk->send({.bytes = 512}).value());
  for (Request* request : open) ASSERT_TRUE(bed.finish(request).ok());
  for (const auto& talk : talks) ASSERT_TRUE(talk->holds(0, 0, 512));
  for (const auto& talk : talks) talk->end();
  EXPECT_TRUE(bed.empties());
}

TEST(Connect, CommunicatorsShareNoQueuePair) {
  Bed bed({.contexts = 2});
  Talk one(bed, kA, kB, 4096);
  const std::uint64_t of_one = bed.stats(0).queue_pairs;
  Talk other(bed, {0, 1}, {1, 1}, 4096);
  EXPECT_EQ(bed.stats(0).queue_pairs, 2 * of_one);
  bed.close_context({0, 1});
  one.exchange(4096);
}

TEST(Connect, ListenerThatWasClosedIsPeerClosed) {
  Bed bed({});
  HandleBytes handle{};
  bed.hosts[1].engine->close_listener(listen(bed, kB, handle));
  EXPECT_EQ(connect(bed, kA, handle).code(), Errc::PeerClosed);
  EXPECT_TRUE(bed.empties());
}

// HELLO names only the first listener, because the connects to the others come later. That
// the first listener was closed must not fail them.
TEST(Connect, ListenerThatWasClosedFailsItsOwnConnectOnly) {
  for (int rounds = 0; rounds < 8; ++rounds) {
    Bed bed({});
    std::array<HandleBytes, 3> handles{};
    std::array<Listener*, 3> listeners{};
    for (std::size_t i = 0; i < handles.size(); ++i) listeners[i] = listen(bed, kB, handles[i]);
    bed.hosts[1].engine->close_listener(listeners[0]);
    EXPECT_EQ(try_connect(bed, kA, handles[0]).code(), Errc::WouldBlock);
    bed.rounds(rounds);
    const bool closed_too = rounds % 2 == 1;
    for (const std::size_t i : {1u, 2u})
      EXPECT_EQ(try_connect(bed, kA, handles[i]).code(), Errc::WouldBlock);
    if (closed_too) bed.hosts[1].engine->close_listener(listeners[1]);
    EXPECT_EQ(connect(bed, kA, handles[0]).code(), Errc::PeerClosed);
    EXPECT_EQ(connect(bed, kA, handles[1]).code(), closed_too ? Errc::PeerClosed : Errc::Ok);
    EXPECT_EQ(connect(bed, kA, handles[2]).code(), Errc::Ok) << "after " << rounds << " rounds";
    EXPECT_LE(bed.stats(0).links, 1u);
  }
}

// More connects wait for the link than HELLO can name, and only the listener of the last is open.
TEST(Connect, EveryConnectHasItsTurnToBeNamed) {
  Bed bed({});
  std::vector<HandleBytes> handles(2 * engine::kHelloListenersMax + 1);
  for (HandleBytes& handle : handles) {
    Listener* const listener = listen(bed, kB, handle);
    EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle).code(),
              Errc::WouldBlock);
    if (&handle != &handles.back()) bed.hosts[1].engine->close_listener(listener);
  }
  for (HandleBytes& handle : handles) {
    EXPECT_EQ(connect(bed, kA, handle).code(),
              &handle == &handles.back() ? Errc::Ok : Errc::PeerClosed);
  }
}

TEST(Connect, AHandleOfAnotherVersionIsNamedWithOurs) {
  Bed bed({});
  HandleBytes handle{};
  Listener* const listener = listen(bed, kB, handle);
  handle[4] = std::byte{engine::kProtocolVersion - 1};
  const LogCapture log;
  EXPECT_EQ(connect(bed, kA, handle).code(), Errc::Protocol);
  EXPECT_TRUE(log.warned(fmt::format("the peer speaks version {}, we speak {}",
                                     engine::kProtocolVersion - 1, engine::kProtocolVersion)));
  EXPECT_EQ(accept(bed, kB, *listener), Errc::Protocol);
  EXPECT_TRUE(log.warned(fmt::format("host a speaks version {} and was asked for version {}",
                                     engine::kProtocolVersion, engine::kProtocolVersion - 1)));
}

TEST(Connect, CommunicatorThatHasEndedIsPeerClosed) {
  Bed bed({});
  HandleBytes handle{};
  listen(bed, kB, handle);
  bed.close_context(kB);
  EXPECT_EQ(connect(bed, kA, handle).code(), Errc::PeerClosed);
  EXPECT_TRUE(bed.empties());
}

// NCCL also connects hosts that never send each other anything.
TEST(Connect, HostsThatShareNoSubnetConnectAndTheFirstMessageFailsByName) {
  const LogCapture log;
  set_log_level(LogLevel::Info);
  Bed bed({.fabric = testkit::kLine, .relay = 0});
  set_log_level(LogLevel::Info);
  Talk talk(bed, bed.connect(kA, {2, 0}), 4096);
  EXPECT_TRUE(log.said(LogLevel::Info, "NCCL_ALGO=Ring keeps to neighbours", 2));
  EXPECT_TRUE(log.warned("", 0)) << "what is not used does no harm";
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(talk.send({.bytes = 8}).code(), Errc::Unreachable);
    EXPECT_EQ(talk.receive({.bytes = 8}).code(), Errc::Unreachable);
  }
  for (const char* peer : {"peer a: ", "peer c: "})
    EXPECT_TRUE(log.warned(std::string(peer) + "no path leads to it: NCCL_MESH_RELAY=0"));
  EXPECT_TRUE(log.warned(
      "hosts a and c share no subnet: the first has 10.0.1.0/24; the second 10.0.2.0/24", 2));
  EXPECT_TRUE(log.warned("NCCL_MESH_RELAY=0 on host c lets no host between carry", 2));
  EXPECT_EQ(bed.stats(0).queue_pairs + bed.stats(2).queue_pairs, 0u);
  Talk beside(bed, bed.connect(kA, kB), 4096);
  beside.exchange(4096);
  for (Talk* each : {&talk, &beside}) each->end();
  EXPECT_TRUE(bed.empties());
}

TEST(Connect, AnUnreachableLinkEndsWithItsPeer) {
  Bed bed({.fabric = testkit::kLine, .relay = 0});
  const testkit::Pair pair = bed.connect(kA, {2, 0});
  bed.close_context({2, 0});
  bed.rounds(100);
  close(pair.send);
  EXPECT_TRUE(bed.empties());
}

// The first device of a leads to b, and its second one to c.
const char* const kFork = R"({"name":"fork",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},
                               {"name":"n1","address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"}]},
           {"name":"c","nics":[{"name":"n0","address":"10.0.2.3/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","c/n0"]}]})";

TEST(Connect, ADeviceThatReachesNobodyIsRefusedByNameWhereNoOtherIsAllowed) {
  Bed bed({.fabric = kFork, .rails = "asked"});
  const testkit::Seat c{2, 0};
  HandleBytes handle{};
  Listener* const listener = listen(bed, c, handle);
  const LogCapture log;
  EXPECT_EQ(connect(bed, kA, handle).code(), Errc::Unreachable);
  EXPECT_EQ(accept(bed, c, *listener), Errc::Unreachable);
  EXPECT_EQ(bed.hosts[2].engine->accept(*listener).code(), Errc::WouldBlock) << "told once";
  EXPECT_TRUE(log.warned("device n0:1 of host a reaches no device of host c", 2));
  EXPECT_TRUE(log.warned("NCCL_MESH_RAILS=asked", 2));
  EXPECT_TRUE(bed.empties());
}

// A HELLO names up to 16 listeners. The remaining connects dial again, so that every accept fails.
TEST(Connect, ARefusalReachesEveryAccept) {
  Bed bed({.fabric = kFork, .rails = "asked"});
  const testkit::Seat c{2, 0};
  std::vector<HandleBytes> handles(2 * engine::kHelloListenersMax + 1);
  std::vector<Listener*> listeners;
  for (HandleBytes& handle : handles) {
    listeners.push_back(listen(bed, c, handle));
    EXPECT_EQ(try_connect(bed, kA, handle).code(), Errc::WouldBlock);
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(connect(bed, kA, handles[i]).code(), Errc::Unreachable) << i;
    EXPECT_EQ(accept(bed, c, *listeners[i]), Errc::Unreachable) << i;
  }
  EXPECT_TRUE(bed.empties());
}

TEST(Connect, RandomBytesAreNoHandle) {
  Bed bed({});
  const LogCapture log;
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    HandleBytes handle{};
    for (std::byte& byte : handle) byte = static_cast<std::byte>(random() & 0xff);
    if (i % 2 == 0) std::fill(handle.end() - 16, handle.end(), std::byte{0});
    const Errc code = bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle).code();
    EXPECT_EQ(code, Errc::Protocol);
  }
  EXPECT_TRUE(log.warned("are not a handle", 200)) << "whatever its last bytes are";
  EXPECT_EQ(bed.stats(0).links, 0u);
}

// A program that is none of ours has the port at an address that the handle names first.
TEST(Connect, AStrangeProgramAtOneOfThePeersAddressesDecidesNothing) {
  for (const std::string& answer : {std::string(), std::string("SSH-2.0-OpenSSH_9.2\r\n")}) {
    Bed bed({});
    HandleBytes bytes{};
    Listener* const listener = listen(bed, kB, bytes);
    engine::Handle handle = *engine::read_handle(bytes);
    handle.addresses.insert(handle.addresses.begin(), *SocketAddress::from_text("127.0.0.9"));
    engine::write_handle(handle, bytes);
    const Result<UniqueFd> strange = tcp_listen(handle.addresses.front(), handle.port);
    ASSERT_TRUE(strange.ok());
    int met = 0;
    const auto serve = [&] {
      const Result<AcceptedSocket> caller = tcp_accept(strange->get());
      if (!caller.ok()) return;
      ++met;
      EXPECT_EQ(::write(caller->fd.get(), answer.data(), answer.size()),
                static_cast<ssize_t>(answer.size()));
    };
    Errc connected = Errc::WouldBlock, accepted = Errc::WouldBlock;
    EXPECT_TRUE(bed.until([&] {
      serve();
      if (connected == Errc::WouldBlock) connected = try_connect(bed, kA, bytes).code();
      if (accepted == Errc::WouldBlock) accepted = bed.hosts[1].engine->accept(*listener).code();
      return connected != Errc::WouldBlock && accepted != Errc::WouldBlock;
    }));
    EXPECT_EQ(connected, Errc::Ok) << answer;
    EXPECT_EQ(accepted, Errc::Ok) << answer;
    EXPECT_EQ(met, answer.empty() ? 2 : 1) << "the peer itself may drop a connection once";
  }
}

TEST(Connect, DeviceOutOfRangeIsRefused) {
  Bed bed({});
  HandleBytes handle{};
  listen(bed, kB, handle);
  for (const int rail : {-1, 1, 1000}) {
    HandleBytes copy = handle;
    EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], rail, copy).code(),
              Errc::InvalidArgument);
    EXPECT_EQ(bed.hosts[0].engine->listen(*bed.hosts[0].contexts[0], rail, copy).code(),
              Errc::InvalidArgument);
  }
}

TEST(Connect, TamperedStageIsRefusedAndTheTrueOneGoesOn) {
  Bed bed({});
  HandleBytes handle{};
  Listener* const listener = listen(bed, kB, handle);
  EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle).code(),
            Errc::WouldBlock);
  for (std::size_t at = handle.size() - 16; at < handle.size(); ++at) {
    HandleBytes tampered = handle;
    tampered[at] ^= std::byte{0x40};
    EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, tampered).code(),
              Errc::InvalidArgument)
        << at;
  }
  testkit::Pair pair;
  pair.send = connect(bed, kA, handle).value();
  ASSERT_NE(pair.send, nullptr);
  ASSERT_TRUE(bed.until(
      [&] { return (pair.receive = bed.hosts[1].engine->accept(*listener).value()) != nullptr; }));
  Talk talk(bed, pair, 4096);
  talk.exchange(4096);
  EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle).code(),
            Errc::InvalidArgument)
      << "used up";
}

// NCCL polls one connect until it fails and then gives the communicator up. The link is gone then.
TEST(Connect, ThatFailedAndIsNotPolledAgainIsForgottenWithItsContext) {
  Bed bed({});
  HandleBytes polled{}, left{};
  listen(bed, kB, polled);
  listen(bed, kB, left);
  for (HandleBytes* const handle : {&polled, &left}) {
    EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, *handle).code(),
              Errc::WouldBlock);
  }
  bed.close_context(kB);
  EXPECT_EQ(connect(bed, kA, polled).code(), Errc::PeerClosed);
  ASSERT_TRUE(bed.until([&] { return bed.stats(0).links == 0; }));
  bed.close_context(kA);
  EXPECT_TRUE(bed.empties());
}

// The connector goes away after `rounds` rounds. Both sides give back all that had been built.
TEST(Connect, AbandonedByTheConnectorIsReclaimed) {
  for (int rounds = 0; rounds < 24; ++rounds) {
    Bed bed({});
    HandleBytes handle{};
    Listener* const listener = listen(bed, kB, handle);
    EXPECT_EQ(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle).code(),
              Errc::WouldBlock);
    bed.rounds(rounds);
    bed.close_context(kA);
    bed.rounds(100);
    bed.hosts[1].engine->close_listener(listener);
    EXPECT_TRUE(bed.empties()) << "after " << rounds << " rounds";
  }
}

TEST(Connect, AbandonedByTheAcceptorEndsAndIsReclaimed) {
  for (int rounds = 0; rounds < 24; ++rounds) {
    Bed bed({});
    HandleBytes handle{};
    Listener* const listener = listen(bed, kB, handle);
    static_cast<void>(bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle));
    bed.rounds(rounds);
    bed.hosts[1].engine->close_listener(listener);
    const Result<Channel*> channel = connect(bed, kA, handle);
    if (channel.ok()) {
      const auto sending =
          isend(**channel, {.data = nullptr, .bytes = 0, .tag = 0, .region = nullptr});
      if (sending.ok()) {
        EXPECT_NE(bed.finish(*sending).code(), Errc::WouldBlock);  // owes zero bytes, so it is done
      }
      close(*channel);
    } else {
      EXPECT_EQ(channel.code(), Errc::PeerClosed);
    }
    EXPECT_TRUE(bed.empties()) << "after " << rounds << " rounds";
  }
}

}  // namespace
}  // namespace mesh
