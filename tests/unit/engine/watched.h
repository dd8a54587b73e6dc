#pragma once
// Two hosts with a channel on a manual clock, and the log lines of the request watch about their
// requests. Thread: the test's.

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

inline constexpr std::uint64_t kS = 1'000'000'000;
inline constexpr int kBar = 30;

class Watched {
 public:
  explicit Watched(const TransferPolicy& policy = {}, int stall_seconds = kBar)
      : bed({.policy = policy, .stall_seconds = stall_seconds, .rewrites_late = false}),
        talk(bed, kA, kB, 16 << 20) {  // a post of the peer's would turn its stopped NIC
    bed.rounds(100);                   // clears what the set-up left behind
  }
  // Closes the contexts before the memory that open requests name goes.
  ~Watched() {
    for (BedHost& host : bed.hosts) host.nics_stand = host.loops_stand = false;
    bed.close_context(kA);
    bed.close_context(kB);
  }
  // Starts requests that the test does not ask about again.
  void post_send(const Talk::Part& part) { EXPECT_TRUE(talk.send(part).ok()); }
  void post_receive(const Talk::Part& part) { EXPECT_TRUE(talk.receive(part).ok()); }
  // Stops NIC and loop, because a loop that polls turns its NIC.
  void stop_nic_of_peer() { bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = true; }
  // Lets `count` seconds pass, with one look of the watch in each.
  void seconds(int count) {
    for (int i = 0; i < count; ++i) {
      bed.advance_ns(kS);
      bed.round();
    }
  }
  // Checks how often a line of this level with these words was logged.
  void expect_said(LogLevel level, const std::string& words, int times) {
    EXPECT_EQ(log.count(level, words), times) << words << "\n" << log.joined();
  }

  Bed bed;
  Talk talk;
  const LogCapture log;
};

}  // namespace mesh::testkit
