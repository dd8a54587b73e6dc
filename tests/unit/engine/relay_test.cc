// Messages to hosts whose rails do not meet ours. The first message opens a path over middle hosts.

#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/open_bed.h"

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::row, testkit::Talk;

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kSizes[] = {0, 1, 8, 220, 4096, 8192, 65536, 300'000, kBytes};

class Relay : public testkit::OpenBed {
 protected:
  Relay() : OpenBed(kBytes) {}

  // Makes a link from each host to the next one, as a ring or a line of NCCL has.
  void link_neighbours(std::size_t count, bool ring) {
    for (std::size_t i = 0; i + 1 < count + (ring ? 1 : 0); ++i)
      talks_.push_back(talk(i, (i + 1) % count));
  }
  // Opens a - b - c with links between neighbours. Returns the link from a to c.
  std::unique_ptr<Talk> open_line(int path_timeout_s = Settings{}.path_timeout_s) {
    open(testkit::kLine, {.path_timeout_s = path_timeout_s, .rails = "auto"});
    link_neighbours(3, false);
    return talk(0, 2);
  }
  void exchange_all_sizes(Talk& talk) {
    for (const std::size_t bytes : kSizes) talk.exchange(bytes);
  }
  bool nobody_carries() {
    return bed_->until([&] {
      for (testkit::BedHost& host : bed_->hosts) {
        if (host.engine->carries_for_others()) return false;
      }
      return true;
    });
  }
  void late_writes(std::size_t host, const char* nic, bool late) {
    const soft::Fault fault{
        .kind = soft::FaultKind::WriteDelay, .nic = nic, .delay_ns = soft::kFaultDelayMaxNs};
    bed_->hosts[host].fault(fault, late);
  }
};

TEST_F(Relay, AHostBehindAnotherIsReachedByTheFirstMessage) {
  const auto far = open_line();
  EXPECT_TRUE(far->pair.send->link.reach().lazy());
  bed_->rounds(1000);
  EXPECT_FALSE(bed_->hosts[1].engine->carries_for_others()) << "before a message";
  ASSERT_TRUE(far->wakes()) << log_.joined();
  EXPECT_TRUE(bed_->hosts[1].engine->carries_for_others());
  exchange_all_sizes(*far);
  EXPECT_TRUE(log_.said(LogLevel::Detail, "over host b carries messages", 2));
  EXPECT_TRUE(log_.warned("", 0));
  end(*far);
  EXPECT_TRUE(nobody_carries());
  end_all();
  EXPECT_TRUE(log_.said(LogLevel::Detail, "messages over 1 path, over host b", 2))
      << "its other places have carried nothing";
}

// Without a poller only NCCL's calls read the counts that a middle host has written.
TEST_F(Relay, APathThatIsQuietWhileNobodyTurnsTheLoopIsNotLost) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes()) << log_.joined();
  const engine::PeerLink& receiver = far->pair.receive->link;
  const std::uint32_t quarter = receiver.policy().rq_depth / 4;  // receives per window word
  bool owed = false;
  for (std::uint32_t i = 0; i < 2 * quarter && !owed; ++i) {
    far->exchange(8);
    for (testkit::BedHost& host : bed_->hosts) host.loops_stand = true;
    bed_->tick_ns = 10'000'000;
    bed_->rounds(400);  // four seconds, in which NICs, middle hosts and control go on
    for (testkit::BedHost& host : bed_->hosts) host.loops_stand = false;
    bed_->tick_ns = 10'000;
    owed = log_.count(LogLevel::Warn, "") != 0;
  }
  EXPECT_TRUE(log_.warned("", 0));
  EXPECT_EQ(receiver.paths().usable_count(), 1u);
  far->exchange(kBytes);
  end_all(*far);
}

TEST_F(Relay, SeveralHostsAreCrossed) {
  for (std::size_t hosts = 4; hosts <= 5; ++hosts) {
    SCOPED_TRACE(hosts);
    open(row(static_cast<int>(hosts), false));
    link_neighbours(hosts, false);
    const auto far = talk(0, hosts - 1), back = talk(hosts - 1, 0);
    ASSERT_TRUE(far->wakes()) << log_.joined();
    ASSERT_TRUE(back->wakes()) << log_.joined();
    exchange_all_sizes(*far);
    exchange_all_sizes(*back);
    end(*far), end(*back);
    EXPECT_TRUE(nobody_carries());
    end_all();
  }
}

TEST_F(Relay, ManyMessagesAtOnceArriveInOrder) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes());
  constexpr std::size_t kOpen = 8, kEach = kBytes / kOpen;
  for (int round = 0; round < 20; ++round) {
    std::vector<Request*> requests;
    for (std::size_t i = 0; i < kOpen; ++i) {
      const Talk::Part part{.at = i * kEach, .bytes = kEach - static_cast<std::size_t>(round)};
      requests.push_back(far->receive(part).value());
      requests.push_back(far->send(part).value());
    }
    for (Request* const request : requests) EXPECT_TRUE(bed_->finish(request).ok());
    EXPECT_TRUE(far->holds(0, 0, kEach - 20));
  }
  end_all(*far);
}

TEST_F(Relay, ARouteThatIsCutIsReplacedByTheOtherWayRound) {
  open(row(4, true));
  link_neighbours(4, true);
  const auto far = talk(0, 2);
  ASSERT_TRUE(far->wakes());
  exchange_all_sizes(*far);
  const bool over_b = log_.count(LogLevel::Detail, "over host b carries messages") != 0;
  const std::size_t middle = over_b ? 1 : 3;
  for (const char* const nic : {"n0", "n1"}) port(middle, nic, false);
  exchange_all_sizes(*far);
  EXPECT_GE(log_.count(LogLevel::Info, over_b ? "over host d carries" : "over host b carries"), 1)
      << log_.joined();
  for (const char* const nic : {"n0", "n1"}) port(middle, nic, true);
  exchange_all_sizes(*far);
  end_all(*far);
}

// A middle host that loses a port drops its chains, including those that no path uses yet.
TEST_F(Relay, ARouteThatIsCutWhileItIsProbedIsMadeAgainSoon) {
  constexpr int kProbing = 300, kSoon = 1500;  // in milliseconds
  open(row(4, true));
  link_neighbours(4, true);
  const auto far = talk(0, 2);
  bed_->tick_ns = 1'000'000;
  late_writes(1, "n1", true), late_writes(3, "n0", true);  // so the probe stays with them
  EXPECT_EQ(far->send({.bytes = 8}).code(), Errc::WouldBlock);
  bed_->rounds(kProbing);
  EXPECT_TRUE(far->pair.send->link.reach().lazy());
  late_writes(1, "n1", false), late_writes(3, "n0", false);
  for (const bool up : {false, true}) {
    port(1, "n1", up), port(3, "n0", up);
    bed_->rounds(5);
  }
  ASSERT_TRUE(bed_->until([&] { return !far->pair.send->link.reach().lazy(); }, kSoon))
      << log_.joined();
  bed_->tick_ns = 10'000;
  exchange_all_sizes(*far);
  end_all(*far);
}

TEST_F(Relay, ARingThatLosesACableIsALine) {
  open(row(4, true));
  link_neighbours(4, true);
  for (const auto& each : talks_) each->exchange(kBytes);
  port(0, "n1", false), port(1, "n0", false);  // a - b
  exchange_all_sizes(*talks_[0]);
  EXPECT_GE(log_.count(LogLevel::Detail, "over hosts d and c carries messages"), 1)
      << log_.joined();
  for (const auto& each : talks_) exchange_all_sizes(*each);
  port(0, "n1", true), port(1, "n0", true);
  EXPECT_TRUE(nobody_carries()) << "its own cable carries again";
  for (const auto& each : talks_) exchange_all_sizes(*each);
  end_all();
}

TEST_F(Relay, AMiddleHostMayCloseItsCommunicatorFirst) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes());
  for (const auto& each : talks_) end(*each);
  bed_->close_context({1, 0});
  EXPECT_TRUE(bed_->hosts[1].engine->carries_for_others());
  exchange_all_sizes(*far);
  end(*far);
  EXPECT_TRUE(bed_->empties());
  EXPECT_TRUE(nobody_carries());
}

// PyTorch without destroy_process_group.
TEST_F(Relay, AMiddleHostThatExitsWithACommunicatorOpenStaysForTheOthers) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes());
  bool carried = false;
  bed_->meanwhile = [&] {
    exchange_all_sizes(*far);
    EXPECT_TRUE(bed_->hosts[1].engine->carries_for_others());
    EXPECT_NE(talks_[0]->pair.send->link.failure(), Errc::Ok) << "its own links do not wait";
    carried = true;
    end(*far);
  };
  bed_->hosts[1].engine->exit_process();
  EXPECT_TRUE(carried) << "it has not waited";
  EXPECT_FALSE(bed_->hosts[1].engine->carries_for_others());
  end_all();
}

TEST_F(Relay, AHostThatCarriesNothingExitsAtOnceAndKeepsItsLinks) {
  open(testkit::kLine);
  link_neighbours(3, false);
  bed_->hosts[1].engine->exit_process();
  EXPECT_EQ(talks_[0]->pair.receive->link.failure(), Errc::Ok) << "the kernel ends them";
  talks_[0]->exchange(kBytes);
  end_all();
}

// NCCL may close the channels of a failed link much later; its chains must not wait for that.
TEST_F(Relay, ALinkThatHasFailedLeavesNothingWithTheHostsOnTheWay) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes());
  far->exchange(kBytes);
  {
    engine::PeerLink& link = far->pair.send->link;
    const engine::ProgressLoop::Guard guard(link.loop());
    link.fail(Errc::Transport, "the test ends it");
  }
  EXPECT_TRUE(nobody_carries());
  EXPECT_EQ(far->pair.send->link.failure(), Errc::Transport);
  end_all(*far);
}

// The queue pair of the middle host towards the connector fails with the answer to the probe. The
// connector's own queue pair looks sound, so only the middle host can report it.
TEST_F(Relay, AChainThatBreaksWhileItIsProbedIsMadeAnewAtOnce) {
  const auto far = open_line();
  bed_->rounds(1000);
  const soft::Fault fault{.kind = soft::FaultKind::QpError, .nic = "n0"};
  ASSERT_TRUE(bed_->hosts[1].provider->faults().arm(fault).ok());
  const std::uint64_t began_ns = bed_->now_ns();
  ASSERT_TRUE(far->wakes()) << log_.joined();
  EXPECT_LT(bed_->now_ns() - began_ns, 2'000'000'000) << log_.joined();
  exchange_all_sizes(*far);
  end_all(*far);
}

// The message has landed, but the middle host stops before it passes on the count that says so.
TEST_F(Relay, WhatHasLandedIsDoneThoughTheReceiverCloses) {
  const auto far = open_line();
  ASSERT_TRUE(far->wakes()) << log_.joined();
  exchange_all_sizes(*far);
  Request* const receive = far->receive({.bytes = 8}).value();
  Request* const send = far->send({.bytes = 8}).value();
  std::size_t bytes = 0;
  ASSERT_TRUE(bed_->until([&] { return test(*receive, &bytes).ok(); }));
  bed_->hosts[1].control_stands = true;
  ASSERT_EQ(test(*send, &bytes).code(), Errc::WouldBlock) << "it is to be done later";
  bed_->tick_ns = 1'000'000;
  deregister_memory(*far->pair.receive, far->target_region);
  close(far->pair.receive);
  EXPECT_TRUE(bed_->finish(send).ok()) << log_.joined();
  bed_->hosts[1].control_stands = false;
  deregister_memory(*far->pair.send, far->source_region);
  close(far->pair.send);
  end_all();
}

// NCCL starts a receive long before its peer sends.
TEST_F(Relay, AReceiverThatWaitsForItsSenderIsNotLost) {
  const auto far = open_line();
  bed_->tick_ns = 10'000'000;
  for (int i = 0; i < 10'000; ++i) {  // 100 s
    ASSERT_EQ(far->receive({.bytes = 8}).code(), Errc::WouldBlock);
    bed_->round();
  }
  bed_->tick_ns = 10'000;
  ASSERT_TRUE(far->wakes()) << log_.joined();
  exchange_all_sizes(*far);
  end_all(*far);
}

// The port of c is down when the handshake tells a about it.
TEST_F(Relay, APortThatCameUpAfterTheLinkIsReached) {
  open(testkit::kLine);
  link_neighbours(3, false);
  port(2, "n0", false);
  const auto far = talk(0, 2);
  bed_->rounds(1000);
  port(2, "n0", true);
  bed_->tick_ns = 100'000;
  ASSERT_TRUE(far->wakes()) << log_.joined();
  bed_->tick_ns = 10'000;
  exchange_all_sizes(*far);
  end_all(*far);
}

TEST_F(Relay, AMiddleHostThatDoesNotAnswerIsNamed) {
  const auto far = open_line(3);
  bed_->rounds(100);
  bed_->hosts[1].control_stands = true;
  bed_->tick_ns = 1'000'000;
  EXPECT_TRUE(bed_->until([&] { return far->send({.bytes = 8}).code() == Errc::Timeout; }));
  for (const char* line : {"peer c: none of its 4 paths has come back within 3 s "
                           "(NCCL_MESH_PATH_TIMEOUT); check its cables and ports: n0:1 -> n0:1: "
                           "host b: it has not answered",
                           "peer a: its end of the link failed: none of its 4 paths has come back "
                           "within 3 s (NCCL_MESH_PATH_TIMEOUT); check its cables and ports: n0:1 "
                           "-> n0:1: host b: it has not answered"})
    EXPECT_TRUE(log_.warned(line));
  bed_->hosts[1].control_stands = false;
  end_all(*far);
}

// The time-out passes while the path is still being opened and nothing of it has failed.
TEST_F(Relay, APathThatIsStillAwaitedHasAReason) {
  const auto far = open_line(3);
  bed_->rounds(100);
  bed_->hosts[2].control_stands = true;
  bed_->tick_ns = 1'000'000;
  EXPECT_TRUE(bed_->until([&] { return far->send({.bytes = 8}).code() == Errc::Timeout; }));
  EXPECT_TRUE(log_.warned("check its cables and ports: n0:1 -> n0:1: the peer has not answered"));
  bed_->hosts[2].control_stands = false;
  end_all(*far);
}

TEST_F(Relay, WithoutAHostBetweenTheFirstMessageFailsByName) {
  open(testkit::kLine);
  const auto far = talk(0, 2);  // nobody has a link with b, which could join them
  bed_->tick_ns = 100'000;
  EXPECT_EQ(far->send({.bytes = 8}).code(), Errc::WouldBlock);
  EXPECT_TRUE(bed_->until([&] { return far->send({.bytes = 8}).code() != Errc::WouldBlock; }));
  EXPECT_EQ(far->send({.bytes = 8}).code(), Errc::Unreachable);
  EXPECT_TRUE(bed_->until([&] { return far->receive({.bytes = 8}).code() != Errc::WouldBlock; }));
  for (const char* const line :
       {"peer c: no path leads to it; set NCCL_MESH_JOB alike on all hosts",
        "peer a: its end of the link failed: no path leads to it; set NCCL_MESH_JOB alike on all"})
    EXPECT_TRUE(log_.warned(line));
  EXPECT_TRUE(log_.warned("; no known host joins the two; hosts a and c share no", 2));
  end_all(*far);
}

}  // namespace
}  // namespace mesh
