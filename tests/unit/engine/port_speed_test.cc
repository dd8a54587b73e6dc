// A port whose speed changes while a job runs: a bond that has lost a port, or a link that has been
// trained anew.

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "src/base/log.h"
#include "src/base/unique_fd.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh {
namespace {

using testkit::EngineHost, testkit::Leaves, testkit::LogCapture;

// Reports no event but a change of speed, when a test asks for it.
class SpeedChanges final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  int event_fd(ibv_context*) const noexcept override { return fd_.get(); }
  bool next_event(ibv_context*, verbs::DeviceEvent* event) override {
    eventfd_t count = 0;
    if (::eventfd_read(fd_.get(), &count) != 0) return false;
    *event = {.kind = verbs::DeviceEventKind::SpeedChange};
    return true;
  }
  std::uint32_t port_speed_mbps(ibv_context*, std::uint8_t) override { return mbps_.load(); }

  void change_to(std::uint32_t mbps) {
    mbps_.store(mbps);
    ::eventfd_write(fd_.get(), 1);
  }

 private:
  std::atomic<std::uint32_t> mbps_{200'000};
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST(PortSpeed, AChangeIsLoggedShownAndFitsTheBytesInFlight) {
  set_log_level(LogLevel::Info);
  const LogCapture log;
  std::array<EngineHost<SpeedChanges>, 2> hosts;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    EngineOptions options = testkit::on_loopback(0);
    options.policy.inflight_us = 64;
    hosts[i].open(std::make_unique<SpeedChanges>(testkit::open_host(testkit::kCable, i)), options);
  }
  const testkit::Pair pair = testkit::connect({*hosts[0].engine, *hosts[0].contexts[0]},
                                              {*hosts[1].engine, *hosts[1].contexts[0]});
  const engine::Path& path = pair.send->link.paths()[0];
  const auto rail = [&hosts] { return hosts[0].engine->snapshot().rails.at(0); };
  EXPECT_EQ(rail().speed_mbps, 200'000u);
  EXPECT_EQ(path.inflight_bytes_max, 1'600'000u);

  hosts[0].provider->change_to(100'000);
  ASSERT_TRUE(testkit::wait_until([&] { return rail().speed_mbps == 100'000; }));
  EXPECT_TRUE(log.warned("its port carries 100 Gb/s now, and 200 before"));
  EXPECT_EQ(path.speed_mbps, 100'000u);
  EXPECT_EQ(path.inflight_bytes_max, 800'000u);
  testkit::exchange(pair, {4 << 20}, Leaves::Nothing);

  hosts[0].provider->change_to(200'000);
  ASSERT_TRUE(testkit::wait_until([&] { return rail().speed_mbps == 200'000; }));
  EXPECT_TRUE(log.said(LogLevel::Info, "its port carries 200 Gb/s now, and 100 before"));
  EXPECT_EQ(path.inflight_bytes_max, 1'600'000u);
  for (EngineHost<SpeedChanges>& host : hosts) host.close();
}

}  // namespace
}  // namespace mesh
