#pragma once
// Two engines whose control connection a proxy can cut, drop frames of, or repeat frames on.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/link/control_proxy.h"
#include "tests/unit/engine/units.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace mesh::testkit {

// a connects to b.
class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    bed_.each_round = [this] { proxy_.pump(); };
    bed_.each_handle = [this](HandleBytes& handle) { proxy_.stand_before(handle); };
  }
  std::uint64_t resumes() const { return bed_.stats(0).resumes + bed_.stats(1).resumes; }
  bool back(std::uint64_t times = 1) {
    return bed_.until(
        [&] { return bed_.stats(0).resumes >= times && bed_.stats(1).resumes >= times; });
  }
  // A channel's whole life: opened, used, its memory taken back with a credit open, closed.
  void live() {
    Talk talk(bed_, kA, kB, 4096);
    talk.exchange(4096);
    ASSERT_TRUE(talk.receive({.bytes = 4096}).ok());
    bed_.rounds(10);
    talk.release();
    talk.close_both();
  }
  // Requests that wait on both sides, to see what they are told.
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
    talk.release();
    talk.close_both();
    EXPECT_TRUE(bed_.empties());
  }

  ControlProxy proxy_;
  Bed bed_{{}};
  const LogCapture log_;
  Request* sending_ = nullptr;
  Request* receiving_ = nullptr;
};

}  // namespace mesh::testkit
