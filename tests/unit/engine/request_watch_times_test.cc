// The times and the number of the log lines about an open request, on a manual clock.
#include "engine/request_watch.h"

#include "tests/unit/engine/watched.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using testkit::kA, testkit::kB;
using testkit::kBar, testkit::kS;
using testkit::Talk;
using testkit::Watched;

TEST(RequestWatchTimes, ChannelsOfOneLinkShareALine) {
  Watched watched;
  Talk second(watched.bed, kA, kB, 4096), third(watched.bed, kA, kB, 4096);
  watched.post_send({.bytes = 8});
  watched.seconds(1);
  EXPECT_TRUE(second.send({.bytes = 8}).ok() && third.send({.bytes = 8}).ok());
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Info, "send 0 of channel 0 (8 bytes) is open for 30 s", 1);
  watched.expect_said(LogLevel::Info, "is open for", 1);
  watched.seconds(kBar);
  watched.expect_said(LogLevel::Warn, "send 0 of channel 0", 1);
  watched.expect_said(LogLevel::Warn, "; 3 channels wait", 1);
}

TEST(RequestWatchTimes, TrafficThatMovesIsNeverSaid) {
  Watched watched;
  for (int i = 0; i < 100; ++i) {
    watched.talk.exchange(1000);
    watched.seconds(1);
  }
  EXPECT_TRUE(watched.log.all().empty()) << watched.log.joined();
}

TEST(RequestWatchTimes, ProcessThatStoodStillItselfSaysNothingAtOnce) {
  Watched watched;
  watched.post_send({.bytes = 8});
  watched.seconds(2);
  watched.bed.advance_ns(3600 * kS);
  watched.bed.round();
  watched.expect_said(LogLevel::Info, "is open for", 0);
  watched.expect_said(LogLevel::Warn, "is open for", 0);
}

TEST(RequestWatchTimes, ZeroSecondsMeansNever) {
  Watched watched({}, 0);
  watched.post_send({.bytes = 8});
  watched.seconds(300);
  EXPECT_TRUE(watched.log.all().empty()) << watched.log.joined();
}

}  // namespace
}  // namespace mesh
