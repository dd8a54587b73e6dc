// A hundred thousand random work requests in both directions at once. Each arrives once, whole and
// in order.

#include "tests/unit/relay/line.h"

#include "tests/prelude.h"

namespace mesh::relay {
namespace {

using testkit::Line, testkit::LineEnd, testkit::LineOptions;

constexpr std::uint32_t kRequests = 100'000;
constexpr std::uint32_t kRequestsInDisorder = 4'000;
constexpr std::uint32_t kLongest = 8192;
constexpr std::uint32_t kPlaces = 64;  // places of kLongest bytes in each half of a memory
constexpr std::size_t kTargets = std::size_t{kPlaces} * kLongest;

// The posts of one end, and the completions and arrivals that they must cause.
class Stream {
 public:
  struct Plan {
    std::size_t end = 0;
    std::uint64_t seed = 1;
    std::uint32_t requests = kRequests;
  };
  Stream(Line& line, const Plan& plan)
      : line_(line), end_(plan.end), requests_(plan.requests), random_(plan.seed) {}

  void post_some() {
    const std::uint32_t burst = draw(12);
    for (std::uint32_t i = 0; i < burst && posted_ < requests_; ++i) {
      // A place is filled again only after the request that used it has completed.
      if (posted_ - completed_ >= kPlaces || open_receives_ == 0 || !post_one()) return;
    }
  }
  void give_receives() {
    if (open_receives_ > 32) return;
    ASSERT_EQ(line_.post_receives(1 - end_, 64), 0);
    open_receives_ += 64;
  }
  void check() {
    LineEnd &here = line_.end(end_), &there = line_.end(1 - end_);
    for (const ibv_wc& completion : there.received) check_arrival(completion, there);
    there.received.clear();
    for (const ibv_wc& completion : here.sent) check_completion(completion);
    here.sent.clear();
  }
  bool over() const { return completed_ == requests_ && expected_.empty(); }

 private:
  struct Expected {
    std::uint32_t imm = 0, bytes = 0;
    std::size_t to = 0;
    unsigned char value = 0;
  };

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  bool post_one() {
    const std::uint32_t kind = draw(8);
    const std::uint32_t bytes = kind == 0 ? 0 : kind < 5 ? draw(300) : draw(kLongest + 1);
    // Signals a request now and then, because nothing else frees the queue.
    const bool due = posted_ % 16 == 15 || posted_ + 1 == requests_, announced = draw(3) != 0;
    const std::size_t place = std::size_t{posted_ % kPlaces} * kLongest;
    const auto value = static_cast<unsigned char>(draw(256));
    std::memset(line_.end(end_).memory.data() + kTargets + place, value, bytes);
    unsigned flags = due || draw(4) == 0 ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
    if (bytes <= 64 && draw(2) == 0) flags |= IBV_SEND_INLINE;
    const int error = line_.post(end_, {.wr_id = posted_,
                                        .from = kTargets + place,
                                        .to = place,
                                        .bytes = bytes,
                                        .announced = announced,
                                        .imm = posted_ * 3,
                                        .flags = flags});
    if (error != 0) {
      EXPECT_EQ(error, ENOMEM);
      return false;
    }
    if ((flags & IBV_SEND_SIGNALED) != 0) signaled_.push_back(posted_);
    if (announced) {
      expected_.push_back({.imm = posted_ * 3, .bytes = bytes, .to = place, .value = value});
      --open_receives_;
    }
    ++posted_;
    return true;
  }

  void check_arrival(const ibv_wc& completion, const LineEnd& there) {
    ASSERT_FALSE(expected_.empty());
    const Expected next = expected_.front();
    expected_.pop_front();
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_EQ(completion.imm_data, next.imm);
    ASSERT_EQ(completion.byte_len, next.bytes);
    // The place is not written again before the sender knows of this arrival.
    const std::vector<std::byte> wanted(kLongest, std::byte{next.value});
    ASSERT_EQ(std::memcmp(&there.memory[next.to], wanted.data(), next.bytes), 0) << next.imm / 3;
  }

  void check_completion(const ibv_wc& completion) {
    ASSERT_FALSE(signaled_.empty());
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
    ASSERT_EQ(completion.wr_id, signaled_.front());
    signaled_.pop_front();
    completed_ = static_cast<std::uint32_t>(completion.wr_id) + 1;
  }

  Line& line_;
  const std::size_t end_;
  const std::uint32_t requests_;
  std::mt19937_64 random_;
  std::deque<std::uint64_t> signaled_;
  std::deque<Expected> expected_;
  std::uint32_t posted_ = 0, completed_ = 0, open_receives_ = 0;
};

class RandomWork : public ::testing::TestWithParam<std::size_t> {
 protected:
  static LineOptions options() {
    LineOptions options;
    options.middles = GetParam();
    options.send_depth = 32;
    options.slots = 24;
    options.wr_bytes = kLongest;
    options.payload_bytes = 5 * kLongest + 64;
    return options;
  }
  static void run(Line& line, std::uint32_t requests) {
    const std::uint64_t seed = 17 + GetParam();
    SCOPED_TRACE(seed);
    Stream right(line, {.end = 0, .seed = seed, .requests = requests});
    Stream left(line, {.end = 1, .seed = seed * 31, .requests = requests});
    while (!right.over() || !left.over()) {
      for (Stream* const stream : {&right, &left}) {
        stream->give_receives();
        stream->post_some();
      }
      line.turn();
      for (Stream* const stream : {&right, &left}) {
        stream->check();
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    for (std::size_t i = 0; i < line.middles(); ++i) {
      const ChainCounters counters = line.chain(i).counters();
      EXPECT_EQ(counters.work_requests[0], requests);
      EXPECT_EQ(counters.work_requests[1], requests);
      EXPECT_EQ(counters.refused, 0u);
    }
  }
};

TEST_P(RandomWork, ArrivesOnceWholeAndInOrderBothWays) {
  Line line(options());
  run(line, kRequests);
}

// The network delays writes, lets others overtake them and repeats them. Nothing that plain writes
// tell may depend on their order.
TEST_P(RandomWork, ArrivesOverANetworkThatKeepsNoOrder) {
  LineOptions shaped = options();
  shaped.link_fields = R"(, "gbps": 400)";
  Line line(shaped);
  ASSERT_TRUE(line.arm({.kind = soft::FaultKind::OutOfOrder, .delay_ns = 20'000, .seed = 5}));
  run(line, kRequestsInDisorder);
}

INSTANTIATE_TEST_SUITE_P(Middles, RandomWork, ::testing::Values(1, 2));

}  // namespace
}  // namespace mesh::relay
