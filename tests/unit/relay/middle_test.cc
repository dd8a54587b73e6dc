// The thread of a middle host. Chains come and go while it turns, it carries the traffic of a
// fabric with agents, and it rests when there is nothing to do.

#include "src/relay/middle.h"

#include "src/base/clock.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineOptions;

void wait_sent(Line& line, std::size_t end, std::size_t count) {
  while (line.end(end).sent.size() < count) line.poll(end);
}

TEST(Middle, WithoutAThreadItsOwnerTurnsTheChains) {
  Line line;
  Middle middle;
  ASSERT_TRUE(middle.add(line.chain()).ok());
  EXPECT_EQ(middle.size(), 1u);
  ASSERT_EQ(line.post(0, {.wr_id = 1, .bytes = 100}), 0);
  while (line.end(0).sent.empty()) {
    middle.turn();
    line.poll(0);
    line.poll(1);
  }
  middle.remove(line.chain());
  middle.remove(line.chain());  // already removed
  EXPECT_EQ(middle.size(), 0u);
  EXPECT_EQ(middle.turn(), 0u);
}

// The ends' send queues have the greatest depth that the device allows. The middle host needs two
// work requests for each of theirs, so some wait for room.
TEST(Middle, WhatADeviceDoesNotTakeAtOnceWaits) {
  LineOptions options;
  options.send_depth = 8192;
  Line line(options);
  constexpr std::size_t kMessages = 100;
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 5000}), 0);
  EXPECT_TRUE(line.until_sent(0, kMessages));
}

TEST(Middle, ItsThreadCarriesBothWays) {
  LineOptions options;
  options.agent = soft::Agent::Thread;
  Line line(options);
  std::atomic<int> prepared{0};
  Middle middle;
  ASSERT_TRUE(middle.start([&prepared] { prepared.fetch_add(1); }).ok());
  ASSERT_TRUE(middle.add(line.chain()).ok());
  for (std::size_t round = 1; round <= 200; ++round) {
    for (std::size_t end = 0; end < 2; ++end) {
      std::memset(line.end(end).memory.data() + 65536, static_cast<int>(round), 5000);
      ASSERT_EQ(line.post(end, {.wr_id = round, .from = 65536, .bytes = 5000}), 0);
    }
    for (std::size_t end = 0; end < 2; ++end) wait_sent(line, end, round);
    for (std::size_t end = 0; end < 2; ++end)
      ASSERT_EQ(line.end(end).memory[4999], static_cast<std::byte>(round));
  }
  EXPECT_EQ(prepared.load(), 1);
  middle.remove(line.chain());
}

TEST(Middle, ChainsComeAndGoWhileOthersCarry) {
  LineOptions options;
  options.agent = soft::Agent::Thread;
  Line line(options);
  Middle middle;
  ASSERT_TRUE(middle.start().ok());
  ASSERT_TRUE(middle.add(line.chain()).ok());
  for (std::size_t round = 1; round <= 20; ++round) {
    Line other(options);
    ASSERT_TRUE(middle.add(other.chain()).ok());
    ASSERT_EQ(line.post(0, {.wr_id = round, .bytes = 5000}), 0);
    ASSERT_EQ(other.post(0, {.wr_id = round, .bytes = 5000}), 0);
    wait_sent(line, 0, round);
    if (round % 2 == 0) wait_sent(other, 0, 1);
    middle.remove(other.chain());
  }
  middle.remove(line.chain());
}

TEST(Middle, AChainIsClosedFromAnotherThread) {
  LineOptions options;
  options.agent = soft::Agent::Thread;
  Line line(options);
  Middle middle;
  ASSERT_TRUE(middle.start().ok());
  ASSERT_TRUE(middle.add(line.chain()).ok());
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(line.post(0, {.wr_id = i, .bytes = 4000}), 0);
  line.chain().close(IBV_WC_RETRY_EXC_ERR);
  wait_sent(line, 0, 8);
  while (line.chain().state() != ChainState::Gone) line.poll(1);
  middle.remove(line.chain());
}

std::uint64_t thread_cpu_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// The bar is far above the printed figure, so that a busy machine does not decide the test.
TEST(Middle, AnIdleOneRests) {
  std::vector<std::unique_ptr<Line>> lines;
  Middle middle;
  std::atomic<clockid_t> cpu{};
  std::atomic<bool> known{false};
  ASSERT_TRUE(middle
                  .start([&] {
                    clockid_t own{};
                    ::pthread_getcpuclockid(::pthread_self(), &own);
                    cpu.store(own);
                    known.store(true);
                  })
                  .ok());
  for (int i = 0; i < 8; ++i) {
    lines.push_back(std::make_unique<Line>());
    ASSERT_TRUE(middle.add(lines.back()->chain()).ok());
  }
  while (!known.load()) ::sched_yield();
  const timespec settle{.tv_sec = 0, .tv_nsec = 300'000'000}, look{.tv_sec = 2, .tv_nsec = 0};
  ::nanosleep(&settle, nullptr);
  const std::uint64_t before = thread_cpu_ns(cpu.load());
  const Clock clock;
  const std::uint64_t from = clock.now_ns();
  ::nanosleep(&look, nullptr);
  const std::uint64_t spent = thread_cpu_ns(cpu.load()) - before, passed = clock.now_ns() - from;
  std::printf("an idle relay of %zu chains over %ld s: %.3f %% of a CPU\n", middle.size(),
              static_cast<long>(look.tv_sec),
              100.0 * static_cast<double>(spent) / static_cast<double>(passed));
  EXPECT_LT(spent * 10, passed);
  for (const auto& line : lines) middle.remove(line->chain());
}

}  // namespace
}  // namespace mesh::relay
