// The control connection is cut again and again while engines with their own threads use it, in
// real time.

#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/link/control_proxy.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::wait_until;

constexpr std::size_t kBytes = 20'000;
constexpr std::uint64_t kResumes = 40;
constexpr int kPumpsBetweenCuts = 200;

class ResumeThreads : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::Warn);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].open(testkit::open_host(testkit::kCable, i),
                     testkit::on_loopback(static_cast<int>(i)));
    }
  }
  void TearDown() override {
    for (testkit::EngineHost<>& host : hosts_) host.close_context(0);
    for (testkit::EngineHost<>& host : hosts_) host.close();
  }

  testkit::Pair connect() {
    return testkit::connect(hosts_[0].member(), hosts_[1].member(),
                            [this](HandleBytes& handle) { proxy_.stand_before(handle); });
  }

  void exchange(const testkit::Pair& pair, std::byte value) {
    testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing, value);
  }

  testkit::ControlProxy proxy_;
  std::array<testkit::EngineHost<>, 2> hosts_;
};

TEST_F(ResumeThreads, ChannelsAndDataGoOnWhileConnectionsAreCut) {
  // The first handshake is not cut, because a link that is not up yet ends with its connection.
  std::atomic<bool> cutting{false}, over{false};
  std::atomic<int> cuts{0};
  const auto run_proxy = [&] {
    for (int pumps = 1; !over.load(); ++pumps) {
      proxy_.pump();
      ::sched_yield();
      if (!cutting.load() || pumps % kPumpsBetweenCuts != 0) continue;
      proxy_.cut();
      ++cuts;
    }
  };
  std::thread proxy(run_proxy);
  const testkit::Pair stays = connect();
  cutting.store(true);
  const auto resumes = [this] {
    return std::min(hosts_[0].engine->stats().resumes, hosts_[1].engine->stats().resumes);
  };
  for (int i = 0; resumes() < kResumes && !HasFailure(); ++i) {
    exchange(stays, static_cast<std::byte>(i));
    const testkit::Pair pair = connect();
    exchange(pair, static_cast<std::byte>(i + 1));
    close(i % 2 == 0 ? pair.send : pair.receive);
    close(i % 2 == 0 ? pair.receive : pair.send);
  }
  cutting.store(false);
  exchange(stays, std::byte{0x3c});
  EXPECT_TRUE(wait_until([&] {
    return hosts_[0].engine->stats().channels + hosts_[1].engine->stats().channels == 2;
  }));
  EXPECT_GE(cuts.load(), static_cast<int>(kResumes));
  close(stays.send);
  close(stays.receive);
  EXPECT_TRUE(wait_until(
      [&] { return hosts_[0].engine->stats().links + hosts_[1].engine->stats().links == 0; }));
  for (const testkit::EngineHost<>& host : hosts_) EXPECT_EQ(host.engine->stats().errors, 0u);
  over.store(true);
  proxy.join();
}

}  // namespace
}  // namespace mesh
