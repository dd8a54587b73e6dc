// Flushes of device memory, with NICs that hold back written data until that memory is read.

#include "engine/data/flusher.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/timeouts.h"
#include "tests/device_memory/device_memory.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/data/lose_path.h"

namespace mesh::engine {
namespace {

using testkit::Bed, testkit::Pair;

constexpr const char* kLateHalves = R"({"name":"late",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24","device_memory":"both"},
             {"name":"n1","address":"10.0.2.1/24","device_memory":"both"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24","device_memory":"both",
             "late_device_writes":true},
             {"name":"n1","address":"10.0.2.2/24","device_memory":"both",
             "late_device_writes":true}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";
constexpr std::size_t kBytes = 1 << 20;
constexpr std::byte kSent{7};

class Flush : public testing::Test {
 protected:
  explicit Flush(const testkit::BedOptions& options = {.fabric = kLateHalves})
      : bed_(options), pair_(bed_.connect(testkit::kA, testkit::kB)), source_(kBytes, kSent) {
    source_region_ = register_memory(*pair_.send, source_.data(), kBytes, MemoryType::Host).value();
    const UniqueFd buffer = device_.export_buffer();
    target_ = register_memory(*pair_.receive, MemoryRange{.data = device_.address(),
                                                          .bytes = kBytes,
                                                          .type = MemoryType::Device,
                                                          .fd = buffer.get()})
                  .value();
    EXPECT_NE(target_, nullptr) << log_.joined();
  }
  ~Flush() override {
    deregister_memory(*pair_.send, source_region_);
    if (target_ != nullptr) deregister_memory(*pair_.receive, target_);
    close(pair_.send);
    close(pair_.receive);
    EXPECT_TRUE(bed_.empties());
  }

  void move() {
    const Result<Request*> receiving =
        irecv(*pair_.receive, {.data = device_.address(), .bytes = kBytes, .region = target_});
    const Result<Request*> sending =
        isend(*pair_.send, {.data = source_.data(), .bytes = kBytes, .region = source_region_});
    ASSERT_TRUE(receiving.ok() && sending.ok());
    ASSERT_TRUE(bed_.finish_all({*sending, *receiving}));
  }
  Result<Request*> start() {
    return flush(*pair_.receive, {.data = device_.address(), .bytes = 1, .region = target_});
  }
  Status flushed() { return bed_.finish(*start()); }
  // Returns the number of bytes of the message that the device sees.
  std::ptrdiff_t there() const {
    return std::count(device_.device_view(), device_.device_view() + kBytes, kSent);
  }
  void arm(soft::FaultKind kind, std::uint64_t work_requests) {
    const soft::Fault fault{.kind = kind, .nic = "n0", .work_requests = work_requests};
    ASSERT_TRUE(bed_.hosts[1].provider->faults().arm(fault).ok());
  }

  testkit::LogCapture log_;
  Bed bed_;
  Pair pair_;
  std::vector<std::byte> source_;
  testkit::DeviceMemory device_{kBytes};
  Registration* source_region_ = nullptr;
  Registration* target_ = nullptr;
};

TEST_F(Flush, PushesWhatEveryRailHasWritten) {
  move();
  EXPECT_LT(there(), static_cast<std::ptrdiff_t>(kBytes)) << "the NICs keep nothing";
  EXPECT_TRUE(flushed().ok());
  EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(Flush, HostMemoryNeedsNone) {
  std::vector<std::byte> memory(4096);
  Registration* const host =
      register_memory(*pair_.receive, memory.data(), memory.size(), MemoryType::Host).value();
  const Result<Request*> none =
      flush(*pair_.receive, {.data = memory.data(), .bytes = 1, .region = host});
  EXPECT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_EQ(*flush(*pair_.receive, {}), nullptr) << "a message of no bytes has no region";
  deregister_memory(*pair_.receive, host);
}

TEST_F(Flush, AFailedReadIsRepeatedOverANewQueuePair) {
  for (const auto kind : {soft::FaultKind::QpError, soft::FaultKind::PostRefused}) {
    std::fill(device_.device_view(), device_.device_view() + kBytes, std::byte{0});
    move();
    arm(kind, 1);
    EXPECT_TRUE(flushed().ok()) << log_.joined();
    EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
    bed_.hosts[1].provider->faults().disarm_all();
  }
}

TEST_F(Flush, ACardThatHangsFailsTheRequestWithALine) {
  move();
  arm(soft::FaultKind::Mute, 0);
  bed_.tick_ns = 5'000'000;
  const std::uint64_t began_ns = bed_.now_ns();
  EXPECT_EQ(flushed().code(), Errc::Timeout);
  EXPECT_GT(bed_.now_ns() - began_ns, kSilenceOfAllToLossNs / 2);
  EXPECT_LT(bed_.now_ns() - began_ns, 2 * kSilenceOfAllToLossNs);
  EXPECT_TRUE(log_.warned("n0:1: flushes of GPU memory have not completed for 10 s"));
  bed_.hosts[1].provider->faults().disarm_all();
  EXPECT_TRUE(flushed().ok()) << "the rail is well again";
  EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
}

class FlushWithALongTimer : public Flush {
 protected:
  FlushWithALongTimer() : Flush({.fabric = kLateHalves, .path_timeout_s = 120, .ack_timer = 22}) {}
};

TEST_F(FlushWithALongTimer, ACardThatHangsForMinutesFailsTheRequest) {
  move();
  arm(soft::FaultKind::Mute, 0);
  bed_.tick_ns = 5'000'000;
  const std::uint64_t began_ns = bed_.now_ns();
  EXPECT_EQ(flushed().code(), Errc::Timeout);
  EXPECT_GT(bed_.now_ns() - began_ns, 66 * kNsPerSecond) << "which 16 bits of milliseconds are not";
  bed_.hosts[1].provider->faults().disarm_all();
}

TEST_F(Flush, AFlushThatNobodyAsksAboutForAMinuteIsNotSilent) {
  move();
  Request* const open = *start();
  bed_.tick_ns = 5'000'000;
  bed_.rounds(12'000);
  EXPECT_TRUE(bed_.finish(open).ok()) << log_.joined();
}

TEST_F(Flush, ARailThatFailsAgainAndAgainFailsTheRequestWithALine) {
  arm(soft::FaultKind::PostRefused, 1000);
  EXPECT_EQ(flushed().code(), Errc::Transport);
  EXPECT_TRUE(log_.warned("a flush of GPU memory at"));
  bed_.hosts[1].provider->faults().disarm_all();
  EXPECT_TRUE(flushed().ok()) << "the rail is well again";
}

TEST_F(Flush, MoreThanAQueuePairHoldsWait) {
  move();
  std::vector<Request*> open;
  for (std::uint32_t i = 0; i < 3 * kFlushDepth; ++i) open.push_back(*start());
  ASSERT_EQ(std::count(open.begin(), open.end(), nullptr), 0);
  for (Request* const each : open) EXPECT_TRUE(bed_.finish(each).ok());
  EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(Flush, GoesOnWhenItsMemoryIsTakenBack) {
  arm(soft::FaultKind::QpError, 1);
  Request* const open = *start();
  deregister_memory(*pair_.receive, std::exchange(target_, nullptr));
  EXPECT_TRUE(bed_.finish(open).ok());
  bed_.hosts[1].provider->faults().disarm_all();
}

TEST_F(Flush, IsNotAskedOfAPathThatIsFenced) {
  move();
  testkit::lose_path(*pair_.receive, 0);
  EXPECT_EQ(pair_.receive->link.paths().written_rails(), 3u) << "not fenced yet";
  ASSERT_TRUE(bed_.until([&] { return pair_.receive->link.paths().written_rails() == 2; }));
  EXPECT_TRUE(flushed().ok());
}

TEST_F(Flush, IsAskedOfAPathThatThePeerMayUseAlready) {
  testkit::lose_path(*pair_.receive, 0);
  const PeerLink& link = pair_.receive->link;
  ASSERT_TRUE(bed_.until([&] { return link.paths().written_rails() == 2; }));
  ASSERT_TRUE(bed_.until([&] { return link.paths().written_rails() == 3; }));
  EXPECT_NE(link.paths()[0].health.state, PathState::Up)
      << "it has queue pairs, and no PATH UP yet";
  EXPECT_TRUE(bed_.until([&] { return link.paths().all_up(); }));
}

// Data that a lost path has brought must be in the memory before the peer may send again.
TEST_F(Flush, ComesBeforeTheFenceOfAPath) {
  move();
  const std::ptrdiff_t before = there();
  testkit::lose_path(*pair_.receive, 0);
  ASSERT_TRUE(bed_.until([&] { return pair_.receive->link.paths().written_rails() == 2; }));
  const std::ptrdiff_t first = there();
  EXPECT_GT(first, before);
  EXPECT_LT(first, static_cast<std::ptrdiff_t>(kBytes)) << "the other path's is not there yet";
  testkit::lose_path(*pair_.receive, 1);
  ASSERT_TRUE(bed_.until([&] { return there() == static_cast<std::ptrdiff_t>(kBytes); }));
}

// A card that has left writes nothing more. Flushes and its path's fence go on without its reads.
TEST_F(Flush, ACardThatHasLeftOwesNothing) {
  move();
  const soft::Fault left{.kind = soft::FaultKind::CardLeft, .nic = "n0"};
  const soft::Fault says_nothing{
      .kind = soft::FaultKind::WriteDelay, .nic = "n0", .delay_ns = soft::kFaultDelayMaxNs};
  soft::FaultPlan& faults = bed_.hosts[1].provider->faults();
  ASSERT_TRUE(faults.arm(says_nothing).ok());
  Request* const open = *start();
  bed_.rounds(10);
  ASSERT_TRUE(faults.arm(left).ok());
  const std::uint64_t began_ns = bed_.now_ns();
  bed_.tick_ns = 1'000'000;
  EXPECT_TRUE(bed_.finish(open).ok()) << log_.joined();
  EXPECT_LT(bed_.now_ns() - began_ns, soft::kFaultDelayMaxNs / 2);
  faults.lift(says_nothing);
  const PeerLink& link = pair_.receive->link;
  ASSERT_TRUE(bed_.until([&] { return link.paths().written_rails() == 2; })) << log_.joined();
  EXPECT_TRUE(flushed().ok());
  move();
  EXPECT_TRUE(flushed().ok()) << log_.joined();
  EXPECT_EQ(link.failure(), Errc::Ok);
  faults.lift(left);
  ASSERT_TRUE(bed_.until([&] { return link.paths().all_up(); })) << log_.joined();
  move();
  EXPECT_TRUE(flushed().ok()) << log_.joined();
  EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
}

class FlushOfAWaitingDevice : public Flush {
 protected:
  FlushOfAWaitingDevice() : Flush({.fabric = kLateHalves, .device_works = [] { return true; }}) {}
};

TEST_F(FlushOfAWaitingDevice, OwesNothingIfItsCardLeavesWhileItMakesAQueuePair) {
  move();
  arm(soft::FaultKind::QpError, 1);
  Request* const open = *start();
  DeviceContext& device = *pair_.receive->loop.devices[0];
  ASSERT_TRUE(bed_.until(
      [&] { return test(*open, nullptr).code() == Errc::WouldBlock && device.has_work(); }));
  device.leave();
  EXPECT_TRUE(bed_.finish(open).ok()) << log_.joined();
  EXPECT_TRUE(log_.warned("cannot create the queue pair for flushes", 0))
      << "the line of the card says it";
  EXPECT_TRUE(flushed().ok()) << log_.joined();
  EXPECT_EQ(pair_.receive->link.failure(), Errc::Ok);
}

// The device does not answer the read for a long time, and the link fails meanwhile.
TEST_F(Flush, ThatIsOpenEndsWithItsLink) {
  move();
  const soft::Fault late{
      .kind = soft::FaultKind::WriteDelay, .nic = "n0", .delay_ns = soft::kFaultDelayMaxNs};
  ASSERT_TRUE(bed_.hosts[1].provider->faults().arm(late).ok());
  Request* const open = *start();
  bed_.rounds(10);
  std::size_t bytes = 0;
  EXPECT_EQ(test(*open, &bytes).code(), Errc::WouldBlock);
  {
    const ProgressLoop::Guard guard(pair_.receive->loop);
    pair_.receive->link.fail(Errc::Timeout, "this test says so");
  }
  EXPECT_EQ(bed_.finish(open).code(), Errc::Timeout);
  bed_.hosts[1].provider->faults().disarm_all();
}

TEST_F(Flush, AFenceWhoseRailCannotBeFlushedFailsTheLinkWithALine) {
  move();
  arm(soft::FaultKind::PostRefused, 1000);
  testkit::lose_path(*pair_.receive, 0);
  const PeerLink& link = pair_.receive->link;
  EXPECT_TRUE(bed_.until([&] { return link.failure() != Errc::Ok; }));
  EXPECT_TRUE(log_.warned("the flush of GPU memory behind lost path"));
}

// Both beliefs about a queue pair that is connected to itself on a port that is down: it works, and
// it fails. The receiver's cable is cut for good.
constexpr const char* kTwoBeliefs = R"({{"name":"deaf",
  "hosts":[{{"name":"a","nics":[{{"name":"n0","address":"10.0.1.1/24","device_memory":"both"}},
             {{"name":"n1","address":"10.0.2.1/24","device_memory":"both"}}]}},
           {{"name":"b","nics":[{{"name":"n0","address":"10.0.1.2/24","device_memory":"both",
             "loop_back_needs_port":{0}}},
             {{"name":"n1","address":"10.0.2.2/24","device_memory":"both",
             "loop_back_needs_port":{0}}}]}}],
  "links":[{{"ends":["a/n0","b/n0"]}},{{"ends":["a/n1","b/n1"]}}]}})";
struct Belief {
  const char* rails = "";  // all: the other cable's path is up, too; auto: it stands by
  bool needs_port = false;
};
class FlushOverADeadPort : public testing::WithParamInterface<Belief>, public Flush {
 protected:
  FlushOverADeadPort() : Flush({.fabric = fabric().c_str(), .rails = GetParam().rails}) {
    bed_.tick_ns = 1'000'000;
  }
  static const std::string& fabric() {
    static std::string text;
    return text = fmt::format(kTwoBeliefs, GetParam().needs_port);
  }
};

TEST_P(FlushOverADeadPort, EndsWithAReadOfTheOtherRail) {
  move();
  testkit::cut_cable(bed_, 0);
  EXPECT_TRUE(flushed().ok()) << log_.joined();
  for (int times = 0; times < 3; ++times) {
    move();
    EXPECT_TRUE(flushed().ok()) << log_.joined();
  }
  EXPECT_EQ(there(), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_EQ(pair_.receive->link.failure(), Errc::Ok) << log_.joined();
  testkit::mend_cable(bed_, 0);
  ASSERT_TRUE(bed_.until([&] { return pair_.receive->link.paths().all_up(); })) << log_.joined();
  move();
  EXPECT_TRUE(flushed().ok()) << log_.joined();
}

INSTANTIATE_TEST_SUITE_P(In, FlushOverADeadPort,
                         testing::Values(Belief{"all", false}, Belief{"all", true},
                                         Belief{"auto", false}, Belief{"auto", true}),
                         [](const auto& of) {
                           return std::string(of.param.rails) +
                                  (of.param.needs_port ? "_NeedsThePort" : "_NeedsNoPort");
                         });

}  // namespace
}  // namespace mesh::engine
