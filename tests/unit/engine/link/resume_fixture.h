#pragma once
// Two engines with a proxy between them, which can cut their control connection, and drop or repeat
// frames.

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/link/control_proxy.h"
#include "tests/unit/engine/units.h"

namespace mesh::testkit {

// Host a connects to host b.
class ResumeTest : public testing::Test {
 protected:
  explicit ResumeTest(const BedOptions& options = {}) : bed_(options) {
    bed_.each_round = [this] { proxy_.pump(); };
    bed_.each_handle = [this](HandleBytes& handle) { proxy_.stand_before(handle); };
  }
  std::uint64_t resumes() const { return bed_.stats(0).resumes + bed_.stats(1).resumes; }
  bool back(std::uint64_t times = 1) {
    return bed_.until(
        [&] { return bed_.stats(0).resumes >= times && bed_.stats(1).resumes >= times; });
  }
  // Runs the whole life of a channel: opens it, uses it, takes memory back with a credit open,
  // closes.
  void live() {
    Talk talk(bed_, kA, kB, 4096);
    talk.exchange(4096);
    ASSERT_TRUE(talk.receive({.bytes = 4096}).ok());
    bed_.rounds(10);
    talk.end();
  }
  // Starts a send and a receive that wait, to see their results.
  void wait_on(Talk& talk) {
    sending_ = *talk.send({.bytes = 64, .tag = 1});
    receiving_ = *talk.receive({.bytes = 64, .tag = 2});
    bed_.rounds(50);
  }
  void expect_lost() {
    EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
    EXPECT_EQ(bed_.finish(receiving_).code(), Errc::PeerGone);
  }
  void end(Talk& talk) {
    talk.end();
    EXPECT_TRUE(bed_.empties());
  }

  ControlProxy proxy_;
  Bed bed_;
  const LogCapture log_;
  Request* sending_ = nullptr;
  Request* receiving_ = nullptr;
};

}  // namespace mesh::testkit
