// The engine as NCCL drives it: one progress thread per channel side, while a service thread of
// each communicator registers, connects, closes and opens communicators. Two hosts in one process,
// real time, every number of pollers. The thread sanitizer is the judge.
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::wait_until;

constexpr std::size_t kCommunicators = 2;
constexpr std::uint64_t kMessages = 200;   // per channel
constexpr std::size_t kLargest = 200'000;  // of a message's sizes
constexpr int kServiceRounds = 12;

// One side of a channel as one progress thread drives it: a number of messages of many sizes,
// several under way at a time, each checked.
class ChannelSide {
 public:
  enum class Kind { Send, Receive };
  ChannelSide(Kind kind, Channel& channel, std::uint64_t messages)
      : kind_(kind), channel_(channel), messages_(messages), memory_(kOpen * kLargest) {}

  void run() {
    region_ = register_memory(channel_, memory_.data(), memory_.size(), MemoryType::Host).value();
    ASSERT_NE(region_, nullptr);
    EXPECT_TRUE(wait_until([this] { return step(); }))
        << ended_ << " of " << messages_ << " messages ended";
    deregister_memory(channel_, region_);
  }

 private:
  static constexpr std::size_t kOpen = 8;  // requests under way, as with NCCL's steps

  static std::size_t size_of(std::uint64_t message) {
    return message % 7 == 0 ? kLargest - message : message * 613 % 9000;
  }
  static std::byte byte_of(std::uint64_t message) {
    return static_cast<std::byte>(message * 29 + 1);
  }

  bool sends() const { return kind_ == Kind::Send; }
  std::byte* place(std::uint64_t message) { return memory_.data() + message % kOpen * kLargest; }

  bool step() {
    if (started_ < messages_ && open_.size() < kOpen) start();
    while (!open_.empty() && end()) {
    }
    return ended_ == messages_ || testing::Test::HasFailure();
  }
  void start() {
    const std::size_t bytes = size_of(started_);
    std::byte* const at = place(started_);
    if (sends()) std::memset(at, static_cast<int>(byte_of(started_)), bytes);
    const auto request =
        sends() ? isend(channel_, {.data = at, .bytes = bytes, .tag = 1, .region = region_})
                : irecv(channel_, {.data = at, .bytes = kLargest, .tag = 1, .region = region_});
    if (request.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(request.ok()) << errc_name(request.code());
    open_.push_back(*request);
    ++started_;
  }
  bool end() {
    std::size_t bytes = 0;
    const Status status = test(*open_.front(), &bytes);
    if (status.code() == Errc::WouldBlock) return false;
    open_.pop_front();
    const std::uint64_t message = ended_++;
    EXPECT_TRUE(status.ok()) << errc_name(status.code()) << ", message " << message;
    EXPECT_EQ(bytes, size_of(message));
    if (!sends()) {
      const std::byte* const at = place(message);
      const bool good = std::all_of(at, at + bytes,
                                    [message](std::byte byte) { return byte == byte_of(message); });
      EXPECT_TRUE(good) << "message " << message;
    }
    return true;
  }

  const Kind kind_;
  Channel& channel_;
  const std::uint64_t messages_;
  std::vector<std::byte> memory_;
  Registration* region_ = nullptr;
  std::deque<Request*> open_;
  std::uint64_t started_ = 0, ended_ = 0;
};

class EngineThreads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::Warn);
    EngineOptions options = testkit::on_loopback(GetParam());
    options.policy.rq_depth = 16;
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(testkit::open_host(testkit::kHalves, i), options, kCommunicators);
  }
  void TearDown() override {
    for (testkit::EngineHost<>& host : hosts_) {
      for (std::size_t i = 0; i < kCommunicators; ++i) host.close_context(i);
      EXPECT_EQ(host.engine->stats().queue_pairs, 0u);
      EXPECT_EQ(host.engine->stats().registrations, 0u);
    }
    for (testkit::EngineHost<>& host : hosts_) host.close();
  }

  testkit::Pair connect(std::size_t from, Context* sender, Context* receiver) {
    return testkit::connect({*hosts_[from].engine, *sender}, {*hosts_[1 - from].engine, *receiver});
  }
  testkit::Pair connect(std::size_t from, std::size_t communicator) {
    return connect(from, hosts_[from].contexts[communicator],
                   hosts_[1 - from].contexts[communicator]);
  }

  // Sends a few messages on a new channel, both sides from this thread.
  static void exchange(const testkit::Pair& pair) {
    testkit::exchange(pair, {0, 100, kLargest}, testkit::Leaves::ACredit);
  }

  // Runs the service thread of a communicator.
  void serve(std::size_t communicator, Channel& busy) {
    std::vector<std::byte> memory(3 * 4096);
    for (int round = 0; round < kServiceRounds && !HasFailure(); ++round) {
      Registration* const one =
          register_memory(busy, memory.data(), 4096, MemoryType::Host).value();
      Registration* const two =
          register_memory(busy, memory.data(), memory.size(), MemoryType::Host).value();
      const testkit::Pair pair = connect(static_cast<std::size_t>(round) % 2, communicator);
      exchange(pair);
      close(round % 3 == 0 ? pair.receive : pair.send);
      deregister_memory(busy, one);
      close(round % 3 == 0 ? pair.send : pair.receive);
      deregister_memory(busy, two);
      EXPECT_GE(hosts_[0].engine->stats().contexts, kCommunicators);
      if (round % 4 == 3) another_communicator();
    }
  }
  void another_communicator() {
    Context* const near = hosts_[0].engine->open_context({}).value();
    Context* const far = hosts_[1].engine->open_context({}).value();
    const testkit::Pair pair = connect(0, near, far);
    exchange(pair);
    hosts_[0].engine->close_context(near);  // with its channel open, as in an abort
    close(pair.receive);
    hosts_[1].engine->close_context(far);
  }

  std::array<testkit::EngineHost<>, 2> hosts_;
};

TEST_P(EngineThreads, ProgressAndServiceThreadsOfTwoCommunicators) {
  std::vector<testkit::Pair> pairs;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<ChannelSide>> sides;
  for (std::size_t communicator = 0; communicator < kCommunicators; ++communicator) {
    for (const std::size_t from : {std::size_t{0}, std::size_t{0}, std::size_t{1}})
      pairs.push_back(connect(from, communicator));
  }
  for (const testkit::Pair& pair : pairs) {
    for (const auto kind : {ChannelSide::Kind::Send, ChannelSide::Kind::Receive}) {
      Channel* const channel = kind == ChannelSide::Kind::Send ? pair.send : pair.receive;
      sides.push_back(std::make_unique<ChannelSide>(kind, *channel, kMessages));
      threads.emplace_back([side = sides.back().get()] { side->run(); });
    }
  }
  for (std::size_t communicator = 0; communicator < kCommunicators; ++communicator) {
    threads.emplace_back(
        [this, communicator, &pairs] { serve(communicator, *pairs[communicator * 3].receive); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const testkit::Pair& pair : pairs) {
    close(pair.send);
    close(pair.receive);
  }
  const auto links = [this] {
    return hosts_[0].engine->stats().links + hosts_[1].engine->stats().links;
  };
  EXPECT_TRUE(wait_until([&] { return links() == 0; })) << links() << " links are left";
  for (const testkit::EngineHost<>& host : hosts_) {
    for (const char* nic : {"n0", "n1"}) EXPECT_EQ(host.provider->counters(nic).rnr_events, 0u);
    EXPECT_EQ(host.engine->stats().errors, 0u);
  }
}

std::string pollers_name(const testing::TestParamInfo<int>& info) {
  return fmt::format("{}Pollers", info.param);
}
INSTANTIATE_TEST_SUITE_P(Settings, EngineThreads, testing::Values(0, 1, 2), pollers_name);

}  // namespace
}  // namespace mesh
