// A path is lost under traffic. Every byte arrives once, in the buffer that it was meant for, over
// the remaining paths. The path is used again when it is back.

#include <mesh/snapshot.h>

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::size_t kRegionBytes = 1 << 20;

struct Break {
  std::size_t host = 0;
  const char* nic = "n0";
  std::uint64_t after = 0;
};

void break_queue_pair(Bed& bed, const Break& at) {
  bed.hosts[at.host].fault(
      {.kind = soft::FaultKind::QpError, .nic = at.nic, .after_work_requests = at.after});
}

// Drops all packets on the path, while the port is up and reports so.
void silence_path(Bed& bed, const Break& at, std::uint64_t duration_ns) {
  bed.hosts[at.host].fault({.kind = soft::FaultKind::PeerLost,
                            .nic = at.nic,
                            .peer_host = "b",
                            .duration_ns = duration_ns});
}

// Exchanges many messages of many sizes, several in flight. Checks the buffer of each receive when
// it is done.
void stream(Bed& bed, Talk& talk, int messages) {
  constexpr std::array<std::size_t, 7> kSizes{8, 0, 4096, 70'000, 1, 200'000, 9000};
  struct Open {
    Request* send = nullptr;
    Request* receive = nullptr;
    std::size_t at = 0, bytes = 0;
  };
  std::vector<Open> open;
  constexpr std::size_t kInFlight = 4, kShare = kRegionBytes / kInFlight;
  std::fill(talk.target.begin(), talk.target.end(), std::byte{0xa5});
  int begun = 0, done = 0;
  const bool all = bed.until(
      [&] {
        while (begun < messages && open.size() < kInFlight) {
          const std::size_t bytes = kSizes[static_cast<std::size_t>(begun) % kSizes.size()];
          const std::size_t at = static_cast<std::size_t>(begun) % kInFlight * kShare;
          const auto receiving = talk.receive({.at = at, .bytes = bytes});
          const auto sending = talk.send({.at = at, .bytes = bytes});
          EXPECT_TRUE(receiving.ok() && sending.ok())
              << errc_name(receiving.code()) << errc_name(sending.code());
          if (!receiving.ok() || !sending.ok()) return true;
          open.push_back({.send = *sending, .receive = *receiving, .at = at, .bytes = bytes});
          ++begun;
        }
        Open& first = open.front();
        for (Request** request : {&first.send, &first.receive}) {
          if (*request == nullptr) continue;
          std::size_t bytes = SIZE_MAX;
          const Status status = test(**request, &bytes);
          if (status.code() == Errc::WouldBlock) continue;
          EXPECT_TRUE(status.ok()) << errc_name(status.code()) << " in message " << done;
          EXPECT_EQ(bytes, first.bytes);
          if (*request == first.receive) {
            EXPECT_TRUE(talk.holds(first.at, first.at, first.bytes)) << "message " << done;
            std::memset(talk.target.data() + first.at, 0xa5, first.bytes);
          }
          *request = nullptr;
          if (!status.ok()) return true;
        }
        if (first.send == nullptr && first.receive == nullptr) open.erase(open.begin()), ++done;
        return done == messages;
      },
      3'000'000);
  EXPECT_TRUE(all && done == messages) << done << " of " << messages;
}

class Recovery : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Recovery, AQueuePairThatBreaksAnywhereLosesNothing) {
  for (const std::size_t host : {0u, 1u}) {
    Bed bed({.fabric = testkit::kHalves});
    Talk talk(bed, kA, kB, kRegionBytes), other(bed, kA, kB, kRegionBytes);
    stream(bed, talk, 5);
    const LogCapture log;
    break_queue_pair(bed, {.host = host, .nic = "n0", .after = GetParam()});
    stream(bed, talk, 60);
    stream(bed, other, 20);
    EXPECT_TRUE(log.warned("is lost: ", 2));
    EXPECT_TRUE(log.warned("1 of 2 paths carry on", 2));
    bed.tick_ns = 100'000;
    EXPECT_TRUE(bed.until([&] { return log.count(LogLevel::Info, "is back after") == 2; }))
        << log.joined();
    bed.tick_ns = 1000;
    stream(bed, talk, 20);
    EXPECT_EQ(bed.rnr_events(), 0u);
    for (Talk* each : {&talk, &other}) each->end();
    EXPECT_TRUE(bed.empties());
  }
}

INSTANTIATE_TEST_SUITE_P(AtWorkRequest, Recovery, testing::Values(0, 1, 2, 3, 5, 8, 13, 21, 34));

TEST(RecoveryOfOnePath, TheOnlyPathComesBackAndTheJobGoesOn) {
  Bed bed({});
  Talk talk(bed, kA, kB, kRegionBytes);
  const LogCapture log;
  stream(bed, talk, 60);  // more than kRegionBytes, so that a double count shows
  break_queue_pair(bed, {.host = 0, .nic = "n0", .after = 11});
  bed.tick_ns = 10'000;
  stream(bed, talk, 60);
  EXPECT_TRUE(log.warned("no other path is up, waiting for one", 2));
  EXPECT_TRUE(log.said(LogLevel::Info, "is back after", 2));
  // The bytes sent over the path are all received bytes, and again those of lost writes.
  const std::uint64_t sent =
      bed.hosts[0].engine->snapshot().peers.at(0).paths.at(0).counters.bytes_sent;
  const std::uint64_t received = bed.hosts[1].engine->snapshot().peers.at(0).bytes;
  EXPECT_GT(received, kRegionBytes);
  EXPECT_GE(sent, received);
  EXPECT_LE(sent, received + kRegionBytes);
}

TEST(RecoveryOfOnePath, BothCablesOneAfterTheOther) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kRegionBytes);
  const LogCapture log;
  bed.tick_ns = 10'000;
  for (std::uint64_t round = 0; round < 6; ++round) {
    break_queue_pair(bed,
                     {.host = round % 2, .nic = round % 4 < 2 ? "n0" : "n1", .after = 3 * round});
    break_queue_pair(bed, {.host = 0, .nic = "n1", .after = 2 * round});
    stream(bed, talk, 40);
  }
  EXPECT_GT(log.count(LogLevel::Info, "is back after"), 6) << log.joined();
}

TEST(RecoveryOfOnePath, ASilentPathIsLeftAndUsedAgain) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kRegionBytes);
  const LogCapture log;
  silence_path(bed, {.host = 0, .nic = "n1"}, 4'000'000'000);
  bed.tick_ns = 100'000;
  stream(bed, talk, 60);
  EXPECT_TRUE(log.warned("is lost: ", 2));
  bed.tick_ns = 1'000'000;
  EXPECT_TRUE(bed.until([&] { return log.count(LogLevel::Info, "is back after") == 2; }))
      << log.joined();
  EXPECT_GE(log.count(LogLevel::Detail, "is still down: nothing gets through"), 1) << log.joined();
  bed.tick_ns = 1000;
  const std::uint64_t before = bed.hosts[0].provider->counters("n1").work_requests;
  stream(bed, talk, 20);
  EXPECT_GT(bed.hosts[0].provider->counters("n1").work_requests, before);
}

TEST(RecoveryOfOnePath, BothPathsAtOnceAndTheAnswersTogether) {
  Bed bed({.fabric = testkit::kHalves});
  Talk talk(bed, kA, kB, kRegionBytes);
  const LogCapture log;
  for (const char* nic : {"n0", "n1"}) break_queue_pair(bed, {.host = 0, .nic = nic});
  const auto receiving = talk.receive({.bytes = kRegionBytes});
  const auto sending = talk.send({.bytes = kRegionBytes});
  bed.tick_ns = 10'000;
  ASSERT_TRUE(bed.until([&] { return log.count(LogLevel::Detail, "is fenced") == 4; }))
      << log.joined();
  // Lets all frames of one side arrive at its peer at once.
  for (int round = 0; log.count(LogLevel::Info, "is back after") < 4 && round < 2000; ++round) {
    for (std::size_t host = 0; host < 2; ++host) {
      bed.hosts[host].control_stands = true;
      bed.rounds(40);
      bed.hosts[host].control_stands = false;
    }
  }
  EXPECT_TRUE(log.said(LogLevel::Info, "is back after", 4));
  EXPECT_TRUE(bed.finish(*sending).ok() && bed.finish(*receiving).ok());
  EXPECT_TRUE(talk.holds(0, 0, kRegionBytes));
}

TEST(RecoveryOfOnePath, WhatNeverGetsThroughEndsInAnErrorThoughProbesDo) {
  Bed bed({.path_timeout_s = 3});
  Talk talk(bed, kA, kB, kRegionBytes);
  const LogCapture log;
  const auto sending = talk.send({.bytes = kRegionBytes});
  const auto receiving = talk.receive({.bytes = kRegionBytes});
  bed.tick_ns = 100'000;
  int struck = -1;
  Status end = Errc::WouldBlock;
  const std::uint64_t began_ns = bed.now_ns();
  EXPECT_TRUE(bed.until(
      [&] {
        const int fenced =
            log.count(LogLevel::Detail, "peer b: path n0:1 10.0.1.1 -> n0:1 10.0.1.2 is fenced");
        if (fenced != std::exchange(struck, fenced)) {
          bed.hosts[0].provider->faults().disarm_all();
          break_queue_pair(bed, {.after = fenced == 0 ? 0u : 2u});  // breaks all but the probes
        }
        end = test(**sending, nullptr);
        return end.code() != Errc::WouldBlock;
      },
      200'000));
  EXPECT_EQ(end.code(), Errc::Timeout) << log.joined();
  EXPECT_GE(bed.now_ns() - began_ns, 3'000'000'000u);
  EXPECT_GE(struck, 3);
  EXPECT_FALSE(bed.finish(*receiving).ok());
}

// Lets small packets pass and drops full ones.
void swallow_full_packets(Bed& bed) {
  bed.hosts[0].fault({.kind = soft::FaultKind::Mtu, .nic = "n1", .mtu = 2048});
}

TEST(RecoveryFromABlackHole, TheProbeFindsItWithoutTrafficAndNamesTheMtu) {
  Bed bed({.fabric = testkit::kHalves});
  const LogCapture log;
  swallow_full_packets(bed);
  Talk talk(bed, kA, kB, kRegionBytes);  // the link does not wait for the probe
  talk.exchange(8);
  EXPECT_TRUE(log.warned("is lost", 0));
  bed.tick_ns = 1'000'000;
  EXPECT_TRUE(bed.until([&] { return log.count(LogLevel::Warn, "is lost: ") == 2; }))
      << log.joined();
  const char* const text =
      "full packets of 4096 bytes (the path's MTU) vanish; raise the MTU on the way";
  EXPECT_TRUE(log.warned(text, 2)) << "on both sides";
  EXPECT_TRUE(log.warned("path n1:1 -> n1:1", 2));
  const PeerSnapshot peer = bed.hosts[0].engine->snapshot().peers.at(0);
  for (const PathSnapshot& path : peer.paths)
    EXPECT_EQ(path.black_holes != 0, path.rail == "n1:1") << path.name;
  stream(bed, talk, 60);
}

TEST(RecoveryFromABlackHole, ThePathStaysDownWhileOnlySmallPacketsPass) {
  Bed bed({.fabric = testkit::kHalves});
  const LogCapture log;
  Talk talk(bed, kA, kB, kRegionBytes);
  bed.tick_ns = 1'000'000;
  stream(bed, talk, 5);
  swallow_full_packets(bed);
  stream(bed, talk, 20);  // notices the loss, and goes on over the other path
  EXPECT_TRUE(log.warned("is lost: retries exceeded"));
  EXPECT_TRUE(bed.until([&] {
    return log.count(LogLevel::Detail, "is still down: full packets of 4096 bytes") >= 3;
  })) << log.joined();
  EXPECT_TRUE(log.said(LogLevel::Info, "is back after", 0));
  const auto tries = [&bed] {
    const PeerSnapshot peer = bed.hosts[0].engine->snapshot().peers.at(0);
    std::uint64_t sum = 0;
    for (const PathSnapshot& path : peer.paths) sum += path.reopen_tries;
    return sum;
  };
  bed.tick_ns = 10'000'000;
  EXPECT_TRUE(bed.until([&] { return tries() >= 20; })) << log.joined();
  EXPECT_LE(log.count(LogLevel::Detail, "is still down"), 10)
      << "one for each pause, until it grows no more\n"
      << log.joined();
  bed.tick_ns = 1'000'000;
  bed.hosts[0].provider->faults().disarm_all();
  EXPECT_TRUE(bed.until([&] { return log.count(LogLevel::Info, "is back after") == 2; }))
      << log.joined();
  stream(bed, talk, 20);
}

TEST(RecoveryOfOnePath, MemoryCanBeTakenBackWhileNoPathIsUp) {
  Bed bed({});
  Talk talk(bed, kA, kB, kRegionBytes);
  silence_path(bed, {.host = 0, .nic = "n0"}, 0);
  const auto receiving = talk.receive({.bytes = kRegionBytes});
  const auto sending = talk.send({.bytes = kRegionBytes});
  bed.tick_ns = 1'000'000;
  talk.release();  // ends the channel, or cuts the link after half a second
  EXPECT_FALSE(bed.finish(*receiving).ok());
  EXPECT_FALSE(bed.finish(*sending).ok());
  talk.close_both();
  EXPECT_TRUE(bed.empties());
}

}  // namespace
}  // namespace mesh
