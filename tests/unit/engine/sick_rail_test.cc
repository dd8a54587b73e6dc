// A device takes long for one kind of call, whichever it is. Messages over the host's other devices
// go on meanwhile, also when they lose a path. The test prints a line for each call. With
// SICK_SECONDS=5 the first call of each kind lasts for so long, and paths are lost all the while.

#include "tests/unit/engine/sick_rail.h"

#include "engine/data/peer_link.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "tests/device_memory/device_memory.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::Call, testkit::EngineHost, testkit::Pair, testkit::SickRail, testkit::wait_until;

// n0 is a cable of its own; n1 and n2 are halves of another one.
constexpr const char* kCables = R"({"name":"sick",
  "hosts":[{"name":"a","nics":[
      {"name":"n0","address":"10.0.1.1/24","device_memory":"both","ece":3},
      {"name":"n1","address":"10.0.2.1/24","device_memory":"both","guid":"a1"},
      {"name":"n2","address":"10.0.3.1/24","device_memory":"both","guid":"a1"}]},
    {"name":"b","nics":[
      {"name":"n0","address":"10.0.1.2/24","device_memory":"both","ece":3},
      {"name":"n1","address":"10.0.2.2/24","device_memory":"both","guid":"b1"},
      {"name":"n2","address":"10.0.3.2/24","device_memory":"both","guid":"b1"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]},{"ends":["a/n2","b/n2"]}]})";
constexpr int kSick = 0, kHealthy = 1;  // rails
constexpr std::size_t kBytes = 256 << 10;

// Messages over the healthy rails, one after another, on a thread of their own.
class Stream {
 public:
  static constexpr int kWhileItWaits = 16;  // messages while one call of the device waits
  // A message that is open longer is held up. After kYields the looks are sleeps apart, so that the
  // threads that end the message get a processor.
  static constexpr std::uint64_t kLooksMax = 50'000, kYields = 1000;

  Stream(SickRail& device, soft::FaultPlan& faults, const Pair& pair)
      : device_(device), faults_(faults), pair_(pair) {
    from_ = register_memory(*pair.send, source_.data(), kBytes, MemoryType::Host).value();
    to_ = register_memory(*pair.receive, target_.data(), kBytes, MemoryType::Host).value();
    thread_ = std::thread([this] { run(); });
  }
  ~Stream() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    over_.store(true);
    thread_.join();
    device_.heal();
    deregister_memory(*pair_.send, from_);
    deregister_memory(*pair_.receive, to_);
  }
  // After stop().
  bool held_up() const { return held_up_; }
  std::uint64_t messages() const { return beside_; }
  std::uint64_t losses() const { return losses_; }
  double longest_ms() const { return longest_ms_; }
  double longest_cpu_ms() const { return longest_cpu_ms_; }

 private:
  void run() {
    while (!over_.load()) {
      const std::uint64_t waits = device_.waiting();
      const bool begins = waits != seen_;
      if (begins) {
        if (seen_ == 0) until_ms_ = now_ms(CLOCK_MONOTONIC) + 1e3 * hold_s_;
        seen_ = waits;
        left_ = kWhileItWaits;
      }
      const bool lasts = now_ms(CLOCK_MONOTONIC) < until_ms_;
      const bool whole = all_up();
      struck_ |= !whole;
      if (whole && (begins || (lasts && struck_))) lose_path();
      message();
      if (left_ > 1) {
        --left_;
      } else if (left_ == 1 && !lasts) {
        left_ = 0;
        device_.let_go();
      }
    }
  }
  bool all_up() const {
    return pair_.send->link.paths().all_up() && pair_.receive->link.paths().all_up();
  }
  // The next work request on one of the two rails fails. The message goes on over the other one.
  void lose_path() {
    const soft::Fault fault{.kind = soft::FaultKind::QpError,
                            .nic = losses_ % 2 == 0 ? "n1" : "n2"};
    EXPECT_TRUE(faults_.arm(fault).ok());
    ++losses_;
    struck_ = false;
  }
  static double now_ms(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  }
  void message() {
    const double began = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    Request *receiving = nullptr, *sending = nullptr;
    for (std::uint64_t looks = 0;; ++looks) {
      if (receiving == nullptr)
        receiving =
            irecv(*pair_.receive, {.data = target_.data(), .bytes = kBytes, .region = to_}).value();
      if (sending == nullptr)
        sending =
            isend(*pair_.send, {.data = source_.data(), .bytes = kBytes, .region = from_}).value();
      if (!sent_ && sending != nullptr) sent_ = ended(*sending);
      if (!received_ && receiving != nullptr) received_ = ended(*receiving);
      if (sent_ && received_) break;
      if (looks >= kLooksMax && device_.is_waiting()) {
        if (!held_up_) LOG_INFO("a message is held up");
        held_up_ = true;
        device_.heal();
      }
      if (looks < kYields) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
    sent_ = received_ = false;
    if (left_ == 0 && !held_up_) return;
    ++beside_;
    longest_ms_ = std::max(longest_ms_, now_ms(CLOCK_MONOTONIC) - began);
    longest_cpu_ms_ = std::max(longest_cpu_ms_, now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }
  static bool ended(Request& request) {
    const Status status = test(request, nullptr);
    EXPECT_TRUE(status.ok() || status.code() == Errc::WouldBlock) << errc_name(status.code());
    return status.code() != Errc::WouldBlock;
  }

  SickRail& device_;
  soft::FaultPlan& faults_;
  const Pair pair_;
  std::vector<std::byte> source_ = std::vector<std::byte>(kBytes, std::byte{7});
  std::vector<std::byte> target_ = std::vector<std::byte>(kBytes);
  Registration *from_ = nullptr, *to_ = nullptr;
  bool sent_ = false, received_ = false;
  bool struck_ = false;  // the last fault has taken a path
  std::atomic<bool> over_{false};
  bool held_up_ = false;
  int left_ = 0;  // messages until the call of the device returns
  const double hold_s_ = std::atoi(process_environment()["SICK_SECONDS"].c_str());
  double until_ms_ = 0;  // the first call returns then at the earliest
  std::uint64_t seen_ = 0, beside_ = 0, losses_ = 0;
  double longest_ms_ = 0, longest_cpu_ms_ = 0;
  std::thread thread_;
};

class SickRailTest : public testing::TestWithParam<Call> {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::Info);
    EngineOptions options = testkit::on_loopback(0);
    options.settings.rails = "auto";
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(std::make_unique<SickRail>(testkit::open_host(kCables, i)), options, 1);
  }
  void TearDown() override {
    if (hosts_[0].provider != nullptr) device().heal();
    for (EngineHost<SickRail>& host : hosts_) host.close();
    if (HasFailure()) std::puts(log_.joined().c_str());
  }

  SickRail& device() { return *hosts_[0].provider; }
  Pair connect(std::size_t from, std::size_t to, int rail, std::size_t communicator = 0) {
    return testkit::connect(hosts_[from].member(communicator, rail),
                            hosts_[to].member(communicator, rail));
  }
  soft::FaultPlan& faults(std::size_t host) { return hosts_[host].provider->under().faults(); }
  int back() const {
    return log_.count(LogLevel::Info, "is back after") +
           log_.count(LogLevel::Detail, "is back after");
  }

  // Uses the device for all that it is used for: two links over it, in both directions, memory,
  // a flush, a lost path that comes back, and a communicator that ends.
  void use_device() {
    const std::array<Pair, 2> pairs = {connect(0, 1, kSick), connect(1, 0, kSick)};
    for (const Pair& pair : pairs) testkit::exchange(pair, {8, kBytes}, testkit::Leaves::Nothing);
    const UniqueFd buffer = memory_.export_buffer();
    Registration* const region = register_memory(*pairs[1].receive, {.data = memory_.address(),
                                                                     .bytes = kBytes,
                                                                     .type = MemoryType::Device,
                                                                     .fd = buffer.get()})
                                     .value();
    ASSERT_NE(region, nullptr);
    flush_at(pairs[1], region);
    lose_cable(pairs);
    hosts_[0].provider->under().fail_queue_pairs(SickRail::kDevice, -1);
    flush_at(pairs[1], region);
    flush_at(pairs[1], region);
    for (const Pair& pair : pairs) testkit::exchange(pair, {8, kBytes}, testkit::Leaves::Nothing);
    deregister_memory(*pairs[1].receive, region);
    for (const Pair& pair : pairs) close(pair.send), close(pair.receive);
    use_communicator();
  }
  void flush_at(const Pair& pair, Registration* region) {
    const Result<Request*> started =
        flush(*pair.receive, {.data = memory_.address(), .bytes = 1, .region = region});
    ASSERT_TRUE(started.ok());
    if (*started == nullptr) return;
    EXPECT_TRUE(wait_until([&] { return test(**started, nullptr).code() != Errc::WouldBlock; }));
  }
  void lose_cable(std::span<const Pair> pairs) {
    const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = SickRail::kDevice};
    for (const std::size_t host : {0u, 1u}) ASSERT_TRUE(faults(host).arm(down).ok());
    for (const Pair& pair : pairs) testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
    for (const std::size_t host : {0u, 1u}) faults(host).lift(down);
    EXPECT_TRUE(wait_until([&] {
      const std::vector<testkit::LoggedLine> lines = log_.all();
      return std::count_if(lines.begin(), lines.end(), [](const testkit::LoggedLine& line) {
               return line.text.find("path n0:1") != std::string::npos &&
                      line.text.find("is back after") != std::string::npos;
             }) >= 4;
    })) << log_.joined();
  }
  void use_communicator() {
    for (EngineHost<SickRail>& host : hosts_)
      host.contexts.push_back(host.engine->open_context({}).value());
    std::vector<Pair> pairs;  // more than have room in the memory that a link begins with
    pairs.reserve(4);
    for (int i = 0; i < 4; ++i) pairs.push_back(connect(0, 1, kSick, 1));
    for (const Pair& pair : pairs) {
      testkit::exchange(pair, {8, kBytes}, testkit::Leaves::Nothing);
      close(pair.send), close(pair.receive);
    }
    for (EngineHost<SickRail>& host : hosts_) host.close_context(1);
    EXPECT_TRUE(wait_until([&] {
      return std::all_of(hosts_.begin(), hosts_.end(), [](const EngineHost<SickRail>& host) {
        return host.engine->stats().contexts == 1;
      });
    }));
  }

  testkit::LogCapture log_;
  testkit::DeviceMemory memory_{kBytes};
  std::array<EngineHost<SickRail>, 2> hosts_;
};

TEST_P(SickRailTest, DelaysNoMessageOverOtherRails) {
  Stream stream(device(), faults(0), connect(0, 1, kHealthy));
  // Neither waits for a device: one never blocks, the other makes a socket of a net device.
  const bool asks_no_device = GetParam() == Call::NextEvent || GetParam() == Call::OpenDatagrams;
  if (!asks_no_device) device().slow_down(GetParam());
  use_device();
  stream.stop();
  device().heal();
  const testkit::CallCounts counts = device().counts(GetParam());
  std::printf(
      "%-17s %4llu calls, %4llu with the control mutex, %3llu with a progress lock, %3llu waited; "
      "beside them %4llu messages, %3llu losses, longest %7.2f ms (processor %7.2f): %s\n",
      testkit::name_of(GetParam()), static_cast<unsigned long long>(counts.all),
      static_cast<unsigned long long>(counts.with_control_mutex),
      static_cast<unsigned long long>(counts.with_progress_lock),
      static_cast<unsigned long long>(device().waited()),
      static_cast<unsigned long long>(stream.messages()),
      static_cast<unsigned long long>(stream.losses()), stream.longest_ms(),
      stream.longest_cpu_ms(), stream.held_up() ? "held up" : "goes on");
  EXPECT_FALSE(stream.held_up()) << log_.joined();
  if (GetParam() == Call::OpenDatagrams) return;
  EXPECT_EQ(counts.with_control_mutex + counts.with_progress_lock, 0u)
      << testkit::name_of(GetParam()) << " was called under a lock that healthy rails need";
}

INSTANTIATE_TEST_SUITE_P(EachCall, SickRailTest, testing::ValuesIn(testkit::all_calls()),
                         [](const auto& call) { return testkit::test_name_of(call.param); });

}  // namespace
}  // namespace mesh
