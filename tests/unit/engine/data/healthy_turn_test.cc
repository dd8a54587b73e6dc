// A healthy turn neither allocates nor locks nor enters the kernel. Two engines on the in-process
// fabric exchange 10,000 messages. One thread makes every isend, irecv, test, turn of a loop and
// turn of a NIC, and any allocation, lock or system call ends it.

#include "engine/data/peer_link.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/trap.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::ChildReport, testkit::Talk, testkit::Violation;

constexpr std::uint64_t kMessages = 10'000;  // total over all channels, after the warm-up
constexpr std::uint64_t kWarmUp = 200;       // touches pages, binds symbols
constexpr std::uint64_t kRoundsMax = 50'000'000;
constexpr std::size_t kLargest = 1'363'149;  // 1.3 MiB, an odd number
constexpr std::size_t kOpen = 4;             // messages under way per channel
constexpr std::size_t kSource = 4u << 20;

constexpr int kGood = 0, kWrongBytes = 11, kWrongSize = 12, kFailed = 13, kNeverEnded = 14,
              kNotTimed = 15;

std::size_t size_of(std::uint64_t message) {
  if (message % 50 == 0) return kLargest;
  if (message % 10 == 1) return 70 * 1024;
  static constexpr std::array<std::size_t, 5> kSizes{0, 8, 300, 8192, 64};
  return kSizes[message % kSizes.size()];
}

// The messages of one channel, with all state in arrays of fixed size.
class Stream {
 public:
  Stream(Bed& bed, const testkit::Seat& from, const testkit::Seat& to)
      : talk_(bed, from, to, kSource + kOpen * kLargest) {}

  // Returns false when all messages are done or code() is not kGood.
  bool turn(std::uint64_t messages) {
    if (next_receive_ < messages && next_receive_ < received_ + kOpen)
      start(next_receive_, receives_, false);
    if (next_send_ < messages && next_send_ < sent_ + kOpen) start(next_send_, sends_, true);
    if (sent_ < next_send_) end(sent_, sends_, true);
    if (received_ < next_receive_) end(received_, receives_, false);
    return code_ == kGood && (received_ < messages || sent_ < messages);
  }
  int code() const { return code_; }
  std::uint64_t received() const { return received_; }
  bool is_timed() const { return talk_.pair.send->link.paths()[0].latency.under_way(); }

 private:
  using Requests = std::array<Request*, kOpen>;

  static std::size_t source_at(std::uint64_t message) {
    return message * 4099 % (kSource - kLargest);
  }
  static std::size_t target_at(std::uint64_t message) { return message % kOpen * kLargest; }

  void start(std::uint64_t& next, Requests& requests, bool sending) {
    const std::size_t bytes = size_of(next);
    const auto request = sending ? talk_.send({.at = source_at(next), .bytes = bytes})
                                 : talk_.receive({.at = target_at(next),
                                                  .bytes = bytes + next % 2 * (kLargest - bytes)});
    if (request.code() == Errc::WouldBlock) return;
    if (!request.ok()) code_ = kFailed;
    requests[next++ % kOpen] = *request;
  }
  void end(std::uint64_t& oldest, const Requests& requests, bool sending) {
    std::size_t bytes = 0;
    const Status status = test(*requests[oldest % kOpen], &bytes);
    if (status.code() == Errc::WouldBlock) return;
    if (!status.ok()) code_ = kFailed;
    if (bytes != size_of(oldest)) code_ = kWrongSize;
    if (!sending && !talk_.holds(target_at(oldest), source_at(oldest), bytes)) code_ = kWrongBytes;
    ++oldest;
  }

  Talk talk_;
  Requests sends_{}, receives_{};
  std::uint64_t next_send_ = 0, next_receive_ = 0, sent_ = 0, received_ = 0;
  int code_ = kGood;
};

using Streams = std::vector<std::unique_ptr<Stream>>;

int move(Bed& bed, const Streams& streams, std::uint64_t per_stream) {
  bool more = true;
  for (std::uint64_t round = 0; more; ++round) {
    if (round == kRoundsMax) return kNeverEnded;
    more = false;
    for (const auto& stream : streams) {
      more |= stream->turn(per_stream);
      if (stream->code() != kGood) return stream->code();
    }
    bed.data_round();
  }
  return kGood;
}

// Runs in the child process.
int traffic(const testkit::BedOptions& options, void (*planted)()) {
  set_log_level(LogLevel::Warn);
  testkit::BedOptions timed = options;
  timed.timed_ns = kLookToNextNs;
  Bed bed(timed);
  Streams streams;
  const testkit::Seat a{0, 0}, b{1, 0};
  streams.push_back(std::make_unique<Stream>(bed, a, b));
  streams.push_back(std::make_unique<Stream>(bed, a, b));
  streams.push_back(std::make_unique<Stream>(bed, b, a));
  streams.push_back(std::make_unique<Stream>(bed, a, a));
  if (const int code = move(bed, streams, kWarmUp); code != kGood) return code;
  // The turns that follow also take the completions of writes that measure latencies.
  bed.advance_ns(kLookToNextNs);
  for (testkit::BedHost& host : bed.hosts) host.engine->poll_control();
  if (!options.wall_clock && !streams[0]->is_timed()) return kNotTimed;
  testkit::arm();
  if (planted != nullptr) planted();
  const int code = move(bed, streams, kWarmUp + kMessages / streams.size());
  testkit::leave(code);
}

void expect_healthy(const testkit::BedOptions& options) {
  const ChildReport report =
      testkit::run_in_child([&options] { return traffic(options, nullptr); });
  EXPECT_EQ(report.violation, Violation::None) << report.text;
  EXPECT_EQ(report.code, kGood) << report.text;
}

const char* const kModelled = R"({"name":"modelled",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},{"name":"n1",
     "address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},{"name":"n1",
              "address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"],"gbps":200,"delay_us":2},{"ends":["a/n1","b/n1"],"gbps":200,
     "delay_us":2}]})";

TEST(HealthyTurn, StaysOutOfKernelHeapAndLocks) { expect_healthy({}); }
TEST(HealthyTurn, StaysOutOnTwoPathsInRealTime) {
  expect_healthy({.fabric = kModelled, .wall_clock = true});
}

TEST(HealthyTurn, StaysOutWhereQueuesAndWindowsAreFullAllTheTime) {
  TransferPolicy policy;
  policy.qps = 2;
  policy.slots = 32;
  policy.rq_depth = 16;
  policy.sq_depth = 64;
  policy.signal_interval = 1;
  policy.wr_bytes = 16384;
  policy.inflight_bytes = 65536;
  expect_healthy({.fabric = testkit::kHalves, .policy = policy});
}

// ---- Tests that the trap works.
Violation violation_of(void (*planted)()) {
  return testkit::run_in_child([planted] { return traffic({}, planted); }).violation;
}
void* volatile g_memory = nullptr;
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;

TEST(HealthyTurn, PlantedSystemCallIsCaught) {
  EXPECT_EQ(violation_of([] { static_cast<void>(::getpid()); }), Violation::SystemCall);
}
TEST(HealthyTurn, PlantedAllocationIsCaught) {
  EXPECT_EQ(violation_of([] { g_memory = std::malloc(8); }), Violation::Allocation);
  EXPECT_EQ(violation_of([] { g_memory = new int(1); }), Violation::Allocation);
  EXPECT_EQ(violation_of([] { std::free(g_memory); }), Violation::Allocation);
}
TEST(HealthyTurn, PlantedLockIsCaught) {
  EXPECT_EQ(violation_of([] { pthread_mutex_lock(&g_mutex); }), Violation::Lock);
}

}  // namespace
}  // namespace mesh
