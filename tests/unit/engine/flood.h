#pragma once
// Two hosts whose handshakes are timed while somebody floods one of them. Thread: one, beside that
// of a flood. Bound: a minute for each handshake.

#include "src/base/clock.h"
#include "src/base/log.h"
#include "tests/unit/engine/bed.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <thread>

namespace mesh::testkit {

inline constexpr double kDelayMaxMs = 1000;
inline constexpr std::int64_t kGrowthMaxKb = 8 * 1024;

inline std::int64_t resident_kb() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

class FloodTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_log_level(LogLevel::None); }
  static void TearDownTestSuite() { set_log_level(LogLevel::Warn); }
  explicit FloodTest(const char* fabric = kCable) {
    EngineOptions options = on_loopback(0);
    options.settings.job = "a secret";
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(open_host(fabric, i), options, 0);
    target_ = hosts_[1].engine->open_context({}).value();
    EXPECT_TRUE(hosts_[1].engine->listen(*target_, 0, handle_).ok());
  }

  // Measures a whole handshake: a link and a channel between two new communicators.
  double handshake_ms() {
    Context* const from = hosts_[0].engine->open_context({}).value();
    Context* const to = hosts_[1].engine->open_context({}).value();
    HandleBytes handle{};
    Listener* const listener = hosts_[1].engine->listen(*to, 0, handle).value();
    const Clock clock;
    const std::uint64_t began_ns = clock.now_ns();
    Result<Channel*> sent = Errc::WouldBlock, received = Errc::WouldBlock;
    while (sent.code() == Errc::WouldBlock || received.code() == Errc::WouldBlock) {
      if (sent.code() == Errc::WouldBlock) sent = hosts_[0].engine->connect(*from, 0, handle);
      if (received.code() == Errc::WouldBlock) received = hosts_[1].engine->accept(*listener);
      if (clock.now_ns() - began_ns > 60'000'000'000) break;
      std::this_thread::yield();
    }
    const double took_ms = static_cast<double>(clock.now_ns() - began_ns) / 1e6;
    EXPECT_TRUE(sent.ok() && received.ok())
        << errc_name(sent.code()) << ", " << errc_name(received.code());
    hosts_[1].engine->close_listener(listener);
    hosts_[0].engine->close_context(from);
    hosts_[1].engine->close_context(to);
    return took_ms;
  }
  double longest_ms(int times) {
    double longest = 0;
    for (int i = 0; i < times; ++i) longest = std::max(longest, handshake_ms());
    return longest;
  }

  std::array<EngineHost<>, 2> hosts_;
  Context* target_ = nullptr;
  HandleBytes handle_{};
};

}  // namespace mesh::testkit
