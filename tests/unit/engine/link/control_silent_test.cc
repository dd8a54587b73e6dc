// Control is silent under traffic: the link goes on, and the peer's death is an error all the same.

#include "src/base/timeouts.h"
#include "tests/unit/engine/link/resume_fixture.h"

namespace mesh {
namespace {

using testkit::kA, testkit::kB, testkit::kMs, testkit::kSecond, testkit::ResumeTest, testkit::Talk;

// A management switch that restarts is silent for longer than NCCL_MESH_PATH_TIMEOUT: first nobody
// hears anything, then TCP gives the connection up, and dials stay unanswered.
class ControlSilent : public ResumeTest {
 protected:
  explicit ControlSilent(const testkit::BedOptions& options = {}) : ResumeTest(options) {}
  static constexpr std::uint64_t kSilentNs = 120 * kSecond;
  static constexpr std::size_t kBytes = 4096;

  // Verifies messages one after another for as long as control is silent.
  void talk_in_silence(Talk& talk) {
    bed_.tick_ns = 10 * kMs;
    const std::uint64_t began_ns = bed_.now_ns();
    const auto passed = [&] { return bed_.now_ns() - began_ns; };
    const auto message = [&] {
      talk.exchange(kBytes);
      ++messages_;
    };
    proxy_.mute_first_address();
    while (passed() < kSilenceToDeadHostMs * kMs && !HasFailure()) message();
    proxy_.cut();
    while (passed() < kSilentNs && !HasFailure()) message();
    EXPECT_EQ(resumes(), 0u);
    EXPECT_EQ(bed_.stats(0).links, links_);
    EXPECT_EQ(bed_.stats(1).links, links_);
    silent_ns_ = passed();
  }
  void print(const char* what, std::uint64_t took_ns) const {
    std::printf(
        "control silent for %.1f s: %llu messages of %zu bytes verified, no link ended; %s "
        "%.1f s later\n",
        static_cast<double>(silent_ns_) / 1e9, static_cast<unsigned long long>(messages_), kBytes,
        what, static_cast<double>(took_ns) / 1e9);
  }

  std::uint64_t links_ = 1, messages_ = 0, silent_ns_ = 0;
};

TEST_F(ControlSilent, ForTwoMinutesEndsNoLink) {
  Talk talk(bed_, kA, kB, kBytes), idle(bed_, kB, kA, kBytes);
  links_ = 2;
  talk_in_silence(talk);
  proxy_.come_alive();
  const std::uint64_t alive_ns = bed_.now_ns();
  EXPECT_TRUE(back()) << log_.joined();
  print("it is back", bed_.now_ns() - alive_ns);
  bed_.tick_ns = 1000;
  idle.exchange(kBytes);
  live();
  idle.end();
  end(talk);
}

TEST_F(ControlSilent, AndAPeerThatDiesMeanwhileIsANamedErrorWithinThePathTimeout) {
  Talk talk(bed_, kA, kB, kBytes);
  talk_in_silence(talk);
  wait_on(talk);
  const std::uint64_t died_ns = bed_.now_ns();
  const soft::Fault gone{.kind = soft::FaultKind::PeerLost, .peer_host = "b"};
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(gone).ok());
  testkit::BedHost& dead = bed_.hosts[1];
  dead.nics_stand = dead.loops_stand = dead.control_stands = true;
  const Errc error = bed_.finish(sending_).code();
  const std::uint64_t took_ns = bed_.now_ns() - died_ns;
  EXPECT_TRUE(error == Errc::PeerGone || error == Errc::Timeout) << errc_name(error);
  EXPECT_LE(took_ns, 30 * kSecond) << "NCCL_MESH_PATH_TIMEOUT";
  EXPECT_TRUE(log_.warned("peer b is lost: no way back to its control port in 1"));
  print("the peer dies then, and its error comes", took_ns);
  dead.nics_stand = dead.loops_stand = dead.control_stands = false;
  end(talk);
}

class ControlSilentOverTwoPaths : public ControlSilent {
 protected:
  ControlSilentOverTwoPaths() : ControlSilent({.fabric = testkit::kHalves}) {}
};

// The fence of a lost path needs control. What was sent over that path waits for it.
TEST_F(ControlSilentOverTwoPaths, AMessageOfALostPathWaitsForControlAsLongAsForAPath) {
  constexpr std::size_t kLarge = 1 << 20;
  Talk talk(bed_, kA, kB, kLarge);
  talk.exchange(kLarge);
  talk_in_silence(talk);
  bed_.hosts[0].fault({.kind = soft::FaultKind::QpError, .nic = "n1"});
  receiving_ = *talk.receive({.bytes = kLarge});
  sending_ = *talk.send({.bytes = kLarge});
  const std::uint64_t lost_ns = bed_.now_ns();
  bed_.until([&] { return bed_.now_ns() >= lost_ns + 25 * kSecond; });
  EXPECT_TRUE(log_.warned("peer b is lost: ", 0));
  proxy_.come_alive();
  EXPECT_TRUE(bed_.finish_all({sending_, receiving_})) << log_.joined();
  end(talk);
}

}  // namespace
}  // namespace mesh
