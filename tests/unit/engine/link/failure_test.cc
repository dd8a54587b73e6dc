// A link that breaks for good (recovery_test.cc has paths that break). One line names peer and
// path, and only the channels of that link fail.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;

soft::Fault broken_queue_pair(ibv_wc_status status) {
  soft::Fault fault;
  fault.kind = soft::FaultKind::QpError;
  fault.status = status;
  return fault;
}

TEST(LinkFailure, QueuePairErrorFailsItsLinkAndIsSaidOnce) {
  Bed bed({.contexts = 2});
  Talk struck(bed, kA, kB, 1 << 20), neighbour(bed, kA, kB, 4096),
      elsewhere(bed, {0, 1}, {1, 1}, 1 << 20);
  Talk backwards(bed, kB, kA, 4096);  // the opposite direction has its own link
  const auto waiting_send = neighbour.send({.bytes = 10});
  const auto waiting_receive = neighbour.receive({.bytes = 10, .tag = 1});
  bed.rounds(100);
  const LogCapture log;
  ASSERT_TRUE(bed.hosts[0].provider->faults().arm(broken_queue_pair(IBV_WC_REM_ACCESS_ERR)).ok());
  const auto receiving = struck.receive({.bytes = 1 << 20});
  const auto sending = struck.send({.bytes = 1 << 20});
  EXPECT_EQ(bed.finish(*sending).code(), Errc::Transport);
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::Transport);
  EXPECT_EQ(bed.finish(*waiting_send).code(), Errc::Transport)
      << "the neighbour shares the queue pairs";
  EXPECT_EQ(bed.finish(*waiting_receive).code(), Errc::Transport);
  EXPECT_TRUE(log.warned("peer b: n0:1 10.0.1.1 -> n0:1 10.0.1.2: remote access error"));
  EXPECT_EQ(struck.send({.bytes = 1}).code(), Errc::Transport) << "the verdict stays";
  EXPECT_EQ(neighbour.receive({.bytes = 1}).code(), Errc::Transport);
  elsewhere.exchange(1 << 20);
  backwards.exchange(4096);
  for (Talk* talk : {&struck, &neighbour, &elsewhere, &backwards}) talk->end();
  EXPECT_TRUE(bed.empties());
}

TEST(LinkFailure, ReceiverSeesItsOwnQueuePairBreak) {
  Bed bed({});
  Talk talk(bed, kA, kB, 4096);
  const LogCapture log;
  ASSERT_TRUE(bed.hosts[1].provider->faults().arm(broken_queue_pair(IBV_WC_REM_ACCESS_ERR)).ok());
  const auto receiving = talk.receive({.bytes = 4096});  // the work request of its credit fails
  const auto sending = talk.send({.bytes = 4096});
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::Transport);
  EXPECT_EQ(bed.finish(*sending).code(), Errc::Transport);
  EXPECT_TRUE(log.warned("peer a: n0:1 10.0.1.2 -> n0:1 10.0.1.1: "));
  EXPECT_TRUE(
      log.warned("peer b: its end of the link failed: n0:1 10.0.1.2 -> n0:1 10.0.1.1: remote "));
}

TEST(LinkFailure, WhereBothEndsBreakEachSaysItOnce) {
  Bed bed({});
  Talk talk(bed, kA, kB, 4096);
  const auto first = talk.receive({.bytes = 64});
  bed.rounds(100);
  const LogCapture log;
  for (testkit::BedHost& host : bed.hosts) {
    host.control_stands = true;  // until both sides know
    ASSERT_TRUE(host.provider->faults().arm(broken_queue_pair(IBV_WC_REM_ACCESS_ERR)).ok());
  }
  const auto second = talk.receive({.bytes = 64});
  const auto sending = talk.send({.bytes = 64});
  for (Request* request : {*first, *second, *sending})
    EXPECT_EQ(bed.finish(request).code(), Errc::Transport);
  for (testkit::BedHost& host : bed.hosts) host.control_stands = false;
  bed.rounds(100);
  EXPECT_TRUE(log.warned("remote access error", 2));
  EXPECT_TRUE(log.warned("", 2));
  EXPECT_TRUE(log.said(LogLevel::Detail, "its end of the link failed"));
}

TEST(LinkFailure, ConnectingAgainAfterAFailureMakesANewLink) {
  Bed bed({});
  Talk struck(bed, kA, kB, 4096);
  ASSERT_TRUE(bed.hosts[0].provider->faults().arm(broken_queue_pair(IBV_WC_REM_ACCESS_ERR)).ok());
  const auto receiving = struck.receive({.bytes = 64});
  const auto sending = struck.send({.bytes = 64});
  EXPECT_EQ(bed.finish(*sending).code(), Errc::Transport);
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::Transport);
  Talk again(bed, kA, kB, 1 << 20);
  again.exchange(1 << 20);
  for (Talk* talk : {&struck, &again}) talk->end();
  EXPECT_TRUE(bed.empties());
}

TEST(LinkFailure, LostHostFailsOnlyWhatGoesToIt) {
  Bed bed({.fabric = testkit::kLine});  // a - b - c
  const testkit::Seat c{2, 0};
  Talk to_c(bed, kB, c, 1 << 20);
  Talk from_a(bed, kA, kB, 1 << 20);
  soft::Fault lost;
  lost.kind = soft::FaultKind::PeerLost;
  lost.peer_host = "a";
  ASSERT_TRUE(bed.hosts[1].provider->faults().arm(lost).ok());
  const LogCapture log;
  const auto receiving = from_a.receive({.bytes = 1 << 20});
  const auto sending = from_a.send({.bytes = 1 << 20});
  to_c.exchange(1 << 20);
  bed.tick_ns = 1'000'000;
  const std::uint64_t began_ns = bed.now_ns();
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::Timeout);
  EXPECT_EQ(bed.finish(*sending).code(), Errc::Timeout);
  EXPECT_GT(bed.now_ns() - began_ns, 30'000'000'000u)
      << "NCCL_MESH_PATH_TIMEOUT, after about 0.27 s times 6 retries";
  EXPECT_LT(bed.now_ns() - began_ns, 36'000'000'000u);
  EXPECT_GE(log.count(LogLevel::Warn, "retries exceeded"), 1) << log.joined();
  EXPECT_TRUE(
      log.warned("peer a: its only path has not come back within 30 s (NCCL_MESH_PATH_TIMEOUT)"));
  EXPECT_TRUE(log.warned("peer b: its end of the link failed: its only path has not"));
  to_c.exchange(1 << 20);
}

TEST(LinkFailure, EndedProcessFailsItsPeersRequests) {
  Bed bed({.fabric = testkit::kLine});
  const testkit::Seat c{2, 0};
  Talk from_a(bed, kA, kB, 4096), to_c(bed, kB, c, 4096);
  const auto receiving = from_a.receive({.bytes = 4096});
  bed.close_context(kA);
  const Status status = bed.finish(*receiving);
  EXPECT_TRUE(status.code() == Errc::PeerClosed || status.code() == Errc::PeerGone)
      << errc_name(status.code());
  to_c.exchange(4096);
  deregister_memory(*from_a.pair.receive, from_a.target_region);
  close(from_a.pair.receive);
  to_c.end();
  EXPECT_TRUE(bed.empties());
}

}  // namespace
}  // namespace mesh
