// How the thread of a middle host sleeps and wakes. A test counts what has ended its sleeps, so the
// speed of the machine does not decide. The figures are printed only.

#include "src/base/clock.h"
#include "src/base/served_set.h"
#include "src/base/timeouts.h"
#include "src/relay/middle.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineOptions;

constexpr std::uint32_t kSliceBytes = 4096;

void wait_sleep(const Middle& middle, std::uint64_t begun) {
  while (middle.sleeps().begun <= begun) ::sched_yield();
}

// Carries a slice from the left end to the right one, both of which poll.
void carry_slice(Line& line) {
  const std::size_t had = line.end(1).received.size();
  ASSERT_EQ(line.post_receives(1, 1), 0);
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = kSliceBytes, .announced = true}), 0);
  while (line.end(1).received.size() == had) {
    line.poll(0);
    line.poll(1);
    ::sched_yield();
  }
}

class RelayWake : public ::testing::TestWithParam<std::size_t> {
 protected:
  RelayWake() : line_(options()) {}
  static LineOptions options() {
    LineOptions options;
    options.middles = GetParam();
    options.agent = soft::Agent::Thread;
    return options;
  }
  void SetUp() override {
    ASSERT_TRUE(middle_.start().ok());
    for (std::size_t i = 0; i < line_.middles(); ++i) ASSERT_TRUE(middle_.add(line_.chain(i)).ok());
  }
  void TearDown() override {
    for (std::size_t i = 0; i < line_.middles(); ++i) middle_.remove(line_.chain(i));
  }

  Line line_;
  Middle middle_;
};

// A sleep may time out just before the slice, which then finds the thread awake. So one of many
// slices must ring.
TEST_P(RelayWake, ASliceEndsTheSleep) {
  constexpr int kSlices = 50;
  for (int i = 0; i < kSlices && middle_.sleeps().rung == 0; ++i) {
    wait_sleep(middle_, middle_.sleeps().begun);
    carry_slice(line_);
  }
  EXPECT_NE(middle_.sleeps().rung, 0u);
}

TEST_P(RelayWake, AWakeEndsTheSleep) {
  wait_sleep(middle_, 0);
  const std::uint64_t begun = middle_.sleeps().begun;
  middle_.wake();
  wait_sleep(middle_, begun);
  EXPECT_EQ(middle_.sleeps().rung, 0u);
}

// It begins a sleep 10 times a second, and the bar is 20. A slow machine begins fewer.
TEST_P(RelayWake, AnIdleThreadLooksRarely) {
  constexpr std::uint64_t kSleeps = 12, kPerSecond = 20;
  wait_sleep(middle_, 1);
  const Clock clock;
  const std::uint64_t from = middle_.sleeps().timed_out, from_ns = clock.now_ns();
  while (middle_.sleeps().timed_out < from + kSleeps) {
    const timespec look{.tv_sec = 0, .tv_nsec = static_cast<long>(10 * kNsPerMs)};
    ::nanosleep(&look, nullptr);
  }
  EXPECT_GE(clock.now_ns() - from_ns, kSleeps * kNsPerSecond / kPerSecond);
}

INSTANTIATE_TEST_SUITE_P(Middles, RelayWake, ::testing::Values(1, 2));

// ---- The rule about arming: a slice that comes just before rings no bell.

constexpr std::size_t kSlotAt = 4096;  // in the left end's memory, behind its counts

// Writes a slot into the first ring, in place of the left end's device.
void post_slot(Line& line, std::uint32_t number) {
  testkit::LineEnd &left = line.end(0), &right = line.end(1);
  const SlotHeader header{.address = right.address(),
                          .rkey = right.mr->rkey,
                          .bytes = 8,
                          .payload = kInSlot,
                          .number = number,
                          .version = kSlotVersion,
                          .kind = static_cast<std::uint8_t>(SlotKind::Write)};
  const std::size_t at = kSlotAt + std::size_t{number} * kSlotBytes;
  std::memcpy(left.memory.data() + at, &header, sizeof header);
  ibv_sge sge{left.address(at), sizeof header + 8, left.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = number;
  wr.send_flags = IBV_SEND_SIGNALED;
  const RingTarget& ring = line.chain().ring(Side::Left);
  wr.wr.rdma = {.remote_addr = ring.address + std::uint64_t{number} * kSlotBytes,
                .rkey = ring.rkey};
  EXPECT_EQ(ibv_post_send(left.qp.get(), &wr, &bad), 0);
}

// The test posts slot 0, so the thread arms its queues anew. Before the first of them is armed,
// slot 1 comes. Then the sleeps that time out are counted until the thread arms again, with both
// carried.
struct Ambush {
  Line& line;
  Middle& middle;
  int (*arm)(ibv_cq*, int) = nullptr;
  bool laid = false;
  std::uint64_t timed_out = 0;
  std::atomic<bool> over{false};  // released when timed_out is known
};
Ambush* g_ambush = nullptr;

int ambush(ibv_cq* cq, int solicited_only) {
  Ambush& plan = *g_ambush;
  const std::uint64_t carried = plan.line.chain().counters().work_requests[0];
  const std::uint64_t timed_out = plan.middle.sleeps().timed_out;
  if (carried == 1 && !std::exchange(plan.laid, true)) {
    plan.timed_out = timed_out;
    post_slot(plan.line, 1);
    // The device has completed slot 1 before it acknowledges it.
    while (plan.line.end(0).sent.size() < 2) plan.line.poll(0);
  }
  if (carried == 2 && !plan.over.load()) {
    plan.timed_out = timed_out - plan.timed_out;
    plan.over.store(true);
  }
  return plan.arm(cq, solicited_only);
}

TEST(RelayWakeRule, ASliceJustBeforeArmingWaitsForNoTimeOut) {
  LineOptions options;
  options.agent = soft::Agent::Thread;
  options.raw_left = true;
  Line line(options);
  Middle middle;
  Ambush plan{.line = line, .middle = middle};
  ibv_context_ops& ops = line.chain().qp(Side::Left)->context->ops;
  plan.arm = std::exchange(ops.req_notify_cq, ambush);
  g_ambush = &plan;
  ASSERT_TRUE(middle.start().ok());
  ASSERT_TRUE(middle.add(line.chain()).ok());
  // A sleep that began after add() has timed out: nothing of add() wakes the thread any more.
  const std::uint64_t before = middle.sleeps().timed_out;
  while (middle.sleeps().timed_out < before + 2) ::sched_yield();
  post_slot(line, 0);
  while (!plan.over.load()) ::sched_yield();
  EXPECT_EQ(plan.timed_out, 0u);
  middle.remove(line.chain());
  ops.req_notify_cq = plan.arm;
}

// ---- Figures.

double slice_us(Line& line) {
  const Clock clock;
  const std::uint64_t from_ns = clock.now_ns();
  carry_slice(line);
  return static_cast<double>(clock.now_ns() - from_ns) / 1e3;
}

double median_after_us(Line& line, std::uint64_t pause_ms) {
  constexpr std::size_t kSlices = 5;
  std::array<double, kSlices> taken{};
  for (double& each : taken) {
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pause_ms * kNsPerMs)};
    ::nanosleep(&pause, nullptr);
    each = slice_us(line);
  }
  std::nth_element(taken.begin(), taken.begin() + kSlices / 2, taken.end());
  return taken[kSlices / 2];
}

void print_figures(Line& line, const char* loop) {
  for (const std::uint64_t pause_ms : {10u, 100u, 500u})
    std::printf("%s: the first slice after %3d ms takes %.1f us\n", loop,
                static_cast<int>(pause_ms), median_after_us(line, pause_ms));
}

// A busy loop is the bar: a loop that sleeps may take twice its time.
TEST(RelayWakeFigures, OfTheFirstSliceAfterAPause) {
  LineOptions options;
  options.agent = soft::Agent::Thread;
  Line line(options);
  {
    Middle middle;
    ASSERT_TRUE(middle.start().ok());
    ASSERT_TRUE(middle.add(line.chain()).ok());
    print_figures(line, "a loop that sleeps");
    middle.remove(line.chain());
  }
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    for (std::uint32_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
      line.chain().turn();
      if (turn % IdleBackOff::kPassesBetweenYields == 0) ::sched_yield();
    }
  });
  print_figures(line, "a loop that is busy");
  stop.store(true);
  loop.join();
}

}  // namespace
}  // namespace mesh::relay
