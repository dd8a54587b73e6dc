// A rail fails to register the memory that a standby path needs.

#include "src/base/log.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace mesh {
namespace {

// Refuses to register NCCL's memory on n1 while `refuses` is set.
class RefusingDevice final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;
  static constexpr std::size_t kOfNccl = 100'000;  // ours is smaller

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const context = PassingProvider::open_device(name);
    if (name == "n1") n1_ = context;
    return context;
  }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    if (!refuses.load() || pd->context != n1_ || bytes < kOfNccl)
      return PassingProvider::reg_mr(pd, address, bytes, access);
    ++refused;
    errno = ENOMEM;
    return nullptr;
  }

  std::atomic<bool> refuses{false};
  std::atomic<int> refused{0};

 private:
  ibv_context* n1_ = nullptr;
};

// Two hosts with three cables, of which the one at n0 carries.
class StandbyMemory : public testing::Test {
 protected:
  StandbyMemory() {
    set_log_level(LogLevel::Info);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      EngineOptions options = testkit::on_loopback(1);
      options.settings.rails = "auto";
      hosts_[i].open(std::make_unique<RefusingDevice>(testkit::open_host(fabric_.c_str(), i)),
                     options);
    }
    pair_ = testkit::connect({*hosts_[0].engine, *hosts_[0].contexts[0]},
                             {*hosts_[1].engine, *hosts_[1].contexts[0]});
    exchange();
  }
  ~StandbyMemory() override {
    for (auto& host : hosts_) host.close();
  }
  void exchange() { testkit::exchange(pair_, {100'000}, testkit::Leaves::Nothing); }
  void cut_first_cable() {
    for (auto& host : hosts_) {
      const soft::Fault cut{.kind = soft::FaultKind::PortDown, .nic = "n0"};
      ASSERT_TRUE(host.provider->under().faults().arm(cut).ok());
    }
  }
  int carries(const std::string& rail) const {
    return log_.count(LogLevel::Detail, "standby path " + rail);
  }

  const testkit::LogCapture log_;
  const std::string fabric_ = testkit::cables(3);
  std::array<testkit::EngineHost<RefusingDevice>, 2> hosts_;
  testkit::Pair pair_;
};

TEST_F(StandbyMemory, CarriesOnSoonAfterTheCut) {
  cut_first_cable();
  using Time = std::chrono::steady_clock;
  const auto began = Time::now();
  exchange();
  const std::chrono::duration<double, std::milli> took = Time::now() - began;
  EXPECT_EQ(carries("n1:1"), 2) << log_.joined();
  std::printf("a message over the standby path %.1f ms after the cut\n", took.count());
}

TEST_F(StandbyMemory, ARailThatRefusesIsNamedAndTheNextOneCarries) {
  // Memory registered before the cut, on both sides. Later registrations go to rails in use only.
  constexpr std::size_t kHeldBytes = RefusingDevice::kOfNccl;
  std::vector<std::byte> sent(kHeldBytes), received(kHeldBytes);
  Registration* const from =
      register_memory(*pair_.send, sent.data(), kHeldBytes, MemoryType::Host).value();
  Registration* const to =
      register_memory(*pair_.receive, received.data(), kHeldBytes, MemoryType::Host).value();
  for (auto& host : hosts_) host.provider->refuses.store(true);
  cut_first_cable();
  exchange();
  deregister_memory(*pair_.send, from);
  deregister_memory(*pair_.receive, to);
  EXPECT_GT(hosts_[0].provider->refused + hosts_[1].provider->refused, 0) << log_.joined();
  EXPECT_GE(log_.count(LogLevel::Warn, "cannot register 100000 bytes"), 1) << log_.joined();
  EXPECT_EQ(carries("n2:1"), 2) << log_.joined();
  EXPECT_EQ(carries("n1:1"), 0) << log_.joined();
}

}  // namespace
}  // namespace mesh
