// The control connection is cut again and again under the feet of engines with threads of their
// own, in real time.

#include "src/base/log.h"
#include "src/soft/soft_provider.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/link/control_proxy.h"
#include "tests/unit/engine/patience.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

namespace mesh {
namespace {

using testkit::wait_until;

constexpr std::size_t kBytes = 20'000;
constexpr std::uint64_t kResumes = 40;
constexpr int kPumpsBetweenCuts = 200;

struct Host {
  std::unique_ptr<soft::SoftProvider> provider;
  std::unique_ptr<Engine> engine;
  Context* context = nullptr;
};

class ResumeThreads : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::Warn);
    const soft::FabricFile fabric = soft::parse(testkit::kCable).value();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].provider = std::move(*soft::SoftProvider::open(
          {.fabric = fabric, .host = fabric.hosts[i].name, .clock = Clock()}));
      EngineOptions options;
      options.settings.socket_ifname = "lo";
      options.settings.threads = static_cast<int>(i);
      options.provider = hosts_[i].provider.get();
      hosts_[i].engine = std::move(*Engine::open(options));
      hosts_[i].context = hosts_[i].engine->open_context({}).value();
    }
  }
  void TearDown() override {
    for (Host& host : hosts_) host.engine->close_context(host.context);
    for (Host& host : hosts_) host.engine.reset();
  }

  testkit::Pair connect() {
    HandleBytes handle{};
    Listener* const listener = hosts_[1].engine->listen(*hosts_[1].context, 0, handle).value();
    proxy_.stand_before(handle);
    testkit::Pair pair;
    EXPECT_TRUE(wait_until([&] {
      if (pair.send == nullptr)
        pair.send = hosts_[0].engine->connect(*hosts_[0].context, 0, handle).value();
      if (pair.receive == nullptr) pair.receive = hosts_[1].engine->accept(*listener).value();
      return pair.send != nullptr && pair.receive != nullptr;
    }));
    hosts_[1].engine->close_listener(listener);
    return pair;
  }

  void exchange(const testkit::Pair& pair, std::byte value) {
    std::vector<std::byte> source(kBytes, value), target(kBytes);
    Registration* const from =
        register_memory(*pair.send, source.data(), kBytes, MemoryType::Host).value();
    Registration* const to =
        register_memory(*pair.receive, target.data(), kBytes, MemoryType::Host).value();
    const auto receiving =
        irecv(*pair.receive, {.data = target.data(), .bytes = kBytes, .region = to});
    const auto sending =
        isend(*pair.send, {.data = source.data(), .bytes = kBytes, .region = from});
    ASSERT_TRUE(receiving.ok() && sending.ok())
        << errc_name(receiving.code()) << ", " << errc_name(sending.code());
    EXPECT_TRUE(wait_until([&] { return test(**sending, nullptr).ok(); }));
    EXPECT_TRUE(wait_until([&] { return test(**receiving, nullptr).ok(); }));
    EXPECT_EQ(source, target);
    deregister_memory(*pair.receive, to);
    deregister_memory(*pair.send, from);
  }

  testkit::ControlProxy proxy_;
  std::array<Host, 2> hosts_;
};

TEST_F(ResumeThreads, ChannelsAndDataGoOnWhileConnectionsAreCut) {
  // The first handshake is not cut: a link that is not up yet ends with its connection.
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
  for (const Host& host : hosts_) EXPECT_EQ(host.engine->stats().errors, 0u);
  over.store(true);
  proxy.join();
}

}  // namespace
}  // namespace mesh
