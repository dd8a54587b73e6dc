// A communicator begins while a card is replaced, or a link comes up while the card leaves and its
// event is still to come. Both have the new card, at whatever moment the former one goes. No call
// fails meanwhile, however often it goes. What is still being deregistered on the former card keeps
// its domain and its device.

#include "engine/data/device_gate.h"
#include "engine/data/peer_link.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/engine/slow_device.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh {
namespace {

using testkit::EngineHost, testkit::Pair, testkit::wait_until;

constexpr const char* kTwoCards = R"({"name":"cards",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},
                               {"name":"n1","address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},
                               {"name":"n1","address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";
constexpr int kReplacedRail = 0, kWellRail = 1;  // rails

// The next protection domain on the named device waits, before the device is asked.
class WaitingDomain final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;
  ibv_pd* alloc_pd(ibv_context* at) override {
    const char* const device = next_on.load();
    if (device != nullptr && std::string_view(at->device->name) == device) {
      next_on.store(nullptr);
      at_it.store(true);
      EXPECT_TRUE(wait_until([this] { return go_on.load(); }));
    }
    return PassingProvider::alloc_pd(at);
  }
  std::atomic<const char*> next_on{nullptr};
  std::atomic<bool> at_it{false}, go_on{false};
};

// When the communicator's domain is made on the card's device, or on another one behind it.
struct Moment {
  const char* waits_on = "";
  bool comes_back = false;  // before the communicator has begun
};

class TwoCards : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::Info);
    EngineOptions options = testkit::on_loopback(0);
    options.settings.rails = "auto";
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(std::make_unique<WaitingDomain>(testkit::open_host(kTwoCards, i)), options,
                     1 + i);
  }
  WaitingDomain& provider() { return *hosts_[0].provider; }
  bool says(const char* text) {
    return wait_until([&] { return log_.count(LogLevel::Warn, text) != 0; });
  }
  Pair connect(std::size_t communicator, int rail) {
    return testkit::connect(hosts_[0].member(communicator, rail),
                            hosts_[1].member(communicator, rail));
  }
  void carry(std::size_t communicator, int rail) {
    const Pair pair = connect(communicator, rail);
    testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
    if (rail == kReplacedRail) {
      EXPECT_TRUE(wait_until(
          [&] { return pair.send->link.paths().all_up() && pair.receive->link.paths().all_up(); }));
    }
    close(pair.send), close(pair.receive);
  }

  testkit::LogCapture log_;
  std::array<EngineHost<WaitingDomain>, 2> hosts_;
};

class CardMeanwhile : public TwoCards, public testing::WithParamInterface<Moment> {};

TEST_P(CardMeanwhile, TheCommunicatorThatBeginsHasTheNewCard) {
  const soft::Fault replaced{.kind = soft::FaultKind::CardReplaced, .nic = "n0"};
  soft::FaultPlan& faults = provider().under().faults();
  provider().next_on.store(GetParam().waits_on);
  std::thread begins([this] {
    const Result<Context*> opened = hosts_[0].engine->open_context({});
    EXPECT_TRUE(opened.ok());
    hosts_[0].contexts.push_back(opened.value());
  });
  EXPECT_TRUE(wait_until([this] { return provider().at_it.load(); }));
  EXPECT_TRUE(faults.arm(replaced).ok());
  EXPECT_TRUE(says("the device says that it has failed"));
  const auto bring_back = [&] {
    faults.lift(replaced);
    EXPECT_TRUE(wait_until(
        [this] { return log_.count(LogLevel::Info, "a new card is in its place") != 0; }));
  };
  if (GetParam().comes_back) bring_back();
  provider().go_on.store(true);
  begins.join();
  ASSERT_NE(hosts_[0].contexts[1], nullptr);
  carry(1, kWellRail);
  if (!GetParam().comes_back) bring_back();
  carry(1, kReplacedRail);
  carry(0, kReplacedRail);
  EXPECT_EQ(log_.count(LogLevel::Warn, "the device says that it has failed"), 1);
}

INSTANTIATE_TEST_SUITE_P(When, CardMeanwhile,
                         testing::Values(Moment{"n0", false}, Moment{"n0", true},
                                         Moment{"n1", false}, Moment{"n1", true}),
                         [](const auto& of) {
                           return std::string(of.param.waits_on) +
                                  (of.param.comes_back ? "_GoesAndComes" : "_Goes");
                         });

// Two threads begin and end communicators, connect, register memory and send messages over both
// cards, while one of these is replaced again and again.
class ReplacedOften : public TwoCards {
 protected:
  void work(std::size_t receives_at) {
    Engine &from = *hosts_[0].engine, &to = *hosts_[1].engine;
    while (!over_.load()) {
      const Result<Context*> sender = from.open_context({});
      ASSERT_TRUE(sender.ok()) << errc_name(sender.code());
      for (const bool asked_for : {true, false}) {  // the card that is replaced
        const testkit::Member own{from, **sender}, its{to, *hosts_[1].contexts[receives_at]};
        const Pair pair = asked_for ? testkit::connect(own, its) : testkit::connect(its, own);
        ASSERT_TRUE(pair.send != nullptr && pair.receive != nullptr);
        for (int i = 0; i < 3; ++i) testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
        close(pair.send), close(pair.receive);
      }
      from.close_context(*sender);
      rounds_.fetch_add(1);
    }
  }
  int news() { return log_.count(LogLevel::Info, "a new card is in its place"); }

  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> rounds_{0};
};

TEST_F(ReplacedOften, NoCallFailsWhileAnotherCableIsWell) {
  const soft::Fault replaced{.kind = soft::FaultKind::CardReplaced, .nic = "n0"};
  soft::FaultPlan& faults = provider().under().faults();
  std::thread first([this] { work(0); }), second([this] { work(1); });
  constexpr std::uint64_t kTimes = 100;
  for (std::uint64_t i = 0; i < kTimes && !HasFailure(); ++i) {
    const int before = news();
    EXPECT_TRUE(faults.arm(replaced).ok());
    // It may be back before anybody has seen it go.
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 20));
    faults.lift(replaced);
    EXPECT_TRUE(wait_until([&] { return news() > before; })) << i;
  }
  over_.store(true);
  first.join(), second.join();
  RecordProperty("rounds", std::to_string(rounds_.load()));
  EXPECT_GE(rounds_.load(), 2u);
  if (!HasFailure()) carry(0, kReplacedRail);
}

// A card that leaves when the first queue pair moves on, and whose event comes late.
class LeavingCard final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    if (attr->qp_state == leaves_at.load()) {
      leaves_at.store(IBV_QPS_RESET);
      silent.store(true);
      EXPECT_TRUE(under().faults().arm(kReplaced).ok());
      return EIO;
    }
    return PassingProvider::modify_qp(qp, attr, mask);
  }
  bool next_event(ibv_context* at, verbs::DeviceEvent* event) override {
    return !silent.load() && PassingProvider::next_event(at, event);
  }
  static inline const soft::Fault kReplaced{.kind = soft::FaultKind::CardReplaced, .nic = "n0"};
  std::atomic<ibv_qp_state> leaves_at{IBV_QPS_RESET};
  std::atomic<bool> silent{false};
};

class CardLeaves : public testing::TestWithParam<std::tuple<ibv_qp_state, std::size_t>> {
 protected:
  testkit::LogCapture log_;
  std::array<EngineHost<LeavingCard>, 2> hosts_;
};

// The link is made without its only path, and waits for the new card.
TEST_P(CardLeaves, AConnectFailsForNoneOfItsMoments) {
  const ibv_qp_state state = std::get<0>(GetParam());
  const std::size_t from = std::get<1>(GetParam());
  set_log_level(LogLevel::Info);
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    hosts_[i].open(std::make_unique<LeavingCard>(testkit::open_host(testkit::kCable, i)),
                   testkit::on_loopback(0), 1);
  LeavingCard& card = *hosts_[0].provider;
  card.leaves_at.store(state);
  HandleBytes handle{};
  Engine &sender = *hosts_[from].engine, &receiver = *hosts_[1 - from].engine;
  Listener* const listener = receiver.listen(*hosts_[1 - from].contexts[0], 0, handle).value();
  Pair pair;
  EXPECT_TRUE(wait_until([&] {
    if (pair.send == nullptr) {
      const Result<Channel*> sends = sender.connect(*hosts_[from].contexts[0], 0, handle);
      EXPECT_TRUE(sends.ok() || sends.code() == Errc::WouldBlock) << errc_name(sends.code());
      if (sends.ok()) pair.send = *sends;
      if (!sends.ok() && sends.code() != Errc::WouldBlock) return true;
    }
    if (pair.receive == nullptr) pair.receive = receiver.accept(*listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  }));
  ASSERT_TRUE(pair.send != nullptr && pair.receive != nullptr) << log_.joined();
  card.under().faults().lift(LeavingCard::kReplaced);
  card.silent.store(false);
  testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  receiver.close_listener(listener);
  close(pair.send), close(pair.receive);
}

INSTANTIATE_TEST_SUITE_P(At, CardLeaves,
                         testing::Combine(testing::Values(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS),
                                          testing::Values(std::size_t{0}, std::size_t{1})),
                         [](const auto& of) {
                           const ibv_qp_state state = std::get<0>(of.param);
                           return std::string(state == IBV_QPS_INIT  ? "Init"
                                              : state == IBV_QPS_RTR ? "Rtr"
                                                                     : "Rts") +
                                  (std::get<1>(of.param) == 0 ? "_AtTheConnector"
                                                              : "_AtTheAcceptor");
                         });

// A gate that was quiet stays so while threads knock in vain, so its card can be taken apart.
TEST(DeviceGate, CountsNobodyWhoIsNotLetIn) {
  engine::DeviceGate gate;
  gate.close();
  std::atomic<bool> over{false};
  std::thread knocks([&] {
    while (!over.load()) EXPECT_FALSE(engine::DeviceGate::Visit(gate));
  });
  int loud = 0;
  for (int look = 0; look < 1'000'000; ++look) loud += gate.quiet() ? 0 : 1;
  over.store(true);
  knocks.join();
  EXPECT_EQ(loud, 0);
  gate.open();
  EXPECT_TRUE(engine::DeviceGate::Visit(gate));
}

// The fabric refuses to free a domain that has regions, and to close a device that has domains.
class FormerCard : public testkit::SlowDeviceTest {
 protected:
  void take_card() {
    ASSERT_TRUE(device().under().faults().arm(kReplaced).ok());
    ASSERT_TRUE(wait_until([this] { return lost() != 0; })) << log_.joined();
  }
  bool is_back() {
    return wait_until([this] { return back() == 2; });
  }
  static inline const soft::Fault kReplaced{.kind = soft::FaultKind::CardReplaced, .nic = "n1"};
};

TEST_F(FormerCard, StaysOpenUntilItsLastRegionIsDeregistered) {
  const Pair pair = connect(0, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  device().slow.store(memory_.data());
  std::thread ends([&] { deregister_memory(*pair.send, region); });
  EXPECT_TRUE(wait_until([this] { return device().at_it.load(); }));
  take_card();
  device().under().faults().lift(kReplaced);
  EXPECT_TRUE(is_back()) << log_.joined();
  EXPECT_EQ(device().closed.load(), 0);
  device().done.store(true);
  ends.join();
  EXPECT_TRUE(wait_until([this] { return device().closed.load() == 1; }));
  EXPECT_EQ(log_.count(LogLevel::Warn, "busy"), 0) << log_.joined();
}

TEST_F(FormerCard, StaysOpenWhileTheNewOneRefusesADomain) {
  const Pair pair = connect(0, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  take_card();
  device().refused_domains.store(1);
  device().under().faults().lift(kReplaced);
  EXPECT_TRUE(is_back()) << log_.joined();
  EXPECT_EQ(device().refused_domains.load(), 0);
  EXPECT_EQ(count(LogLevel::Warn, "cannot create a protection domain"), 1) << log_.joined();
  testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  deregister_memory(*pair.send, region);
  EXPECT_TRUE(wait_until([this] { return device().closed.load() == 2; }));
  EXPECT_EQ(log_.count(LogLevel::Warn, "busy"), 0) << log_.joined();
}

}  // namespace
}  // namespace mesh
