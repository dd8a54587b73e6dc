// The address of a peer takes long to resolve. Nobody else waits for it, and everything that ends
// meanwhile ends in good order.

#include "engine/link/bring_up.h"
#include "engine/control/handle.h"
#include "src/base/log.h"
#include "src/soft/soft_provider.h"
#include "src/verbs/gid_choice.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

#include <condition_variable>

namespace mesh {
namespace {

using Time = std::chrono::steady_clock;

using testkit::wait_until;

// A host of the software fabric that resolves one address slowly: a step to RTR towards it waits
// for the test's answer.
class Asking final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  int asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  void answer(const std::vector<int>& errors) {  // for the next tries; later ones wait for more
    const std::lock_guard lock(mutex_);
    for (const int error : errors) answers_.push_back(error);
    changed_.notify_all();
  }
  void answer_all(int error) {
    const std::lock_guard lock(mutex_);
    always_ = error;
    changed_.notify_all();
  }
  std::string address = "10.0.1.1";  // the slow one; constant once an engine is open

  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    if (attr->qp_state == IBV_QPS_RTR &&
        verbs::address_of(attr->ah_attr.grh.dgid).text() == address) {
      if (const int error = resolve(); error != 0) return error;
    }
    return PassingProvider::modify_qp(qp, attr, mask);
  }

 private:
  int resolve() {
    std::unique_lock lock(mutex_);
    const auto at = static_cast<std::size_t>(asked_++);
    changed_.wait(lock, [&] { return at < answers_.size() || always_ >= 0; });
    return at < answers_.size() ? answers_[at] : always_;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> answers_;
  int always_ = -1;  // below zero: wait
  int asked_ = 0;
};

using Host = testkit::EngineHost<Asking>;

enum class Way : std::uint8_t { ToA, FromA };

// Hosts a - b - c, of which b cannot resolve a.
class BringUpTest : public testing::TestWithParam<Way> {
 protected:
  static constexpr std::size_t kA = 0, kB = 1, kC = 2;

  void SetUp() override {
    set_log_level(LogLevel::Warn);
    const soft::FabricFile fabric = soft::parse(fabric_text()).value();
    for (std::size_t i = 0; i < fabric.hosts.size(); ++i) {
      hosts_[i].open(std::make_unique<Asking>(testkit::open_host(fabric_text(), i)),
                     testkit::on_loopback(0));
    }
  }
  void TearDown() override {
    asking().answer_all(ETIMEDOUT);  // so that nothing waits for ever
    for (Host& host : hosts_) {
      if (host.engine) host.close_context(0);
    }
    for (Host& host : hosts_) host.close();
  }
  virtual const char* fabric_text() const { return testkit::kLine; }
  Asking& asking() { return *hosts_[kB].provider; }

  // Begins the connection between b and the host a that b cannot resolve; b connects or accepts.
  void begin() {
    const bool to_a = GetParam() == Way::ToA;
    near_ = to_a ? kB : kA;
    far_ = to_a ? kA : kB;
    listener_ = hosts_[far_].engine->listen(*hosts_[far_].contexts[0], 0, handle_).value();
    ASSERT_TRUE(
        wait_until([this] { return step().code() == Errc::WouldBlock && asking().asked() == 1; }));
  }
  Result<Channel*> step() {
    return hosts_[near_].engine->connect(*hosts_[near_].contexts[0], 0, handle_);
  }
  Errc outcome() {
    Result<Channel*> answer = Errc::WouldBlock;
    EXPECT_TRUE(wait_until([&] { return (answer = step()).code() != Errc::WouldBlock; }));
    pair_.send = answer.value();
    return answer.code();
  }
  // Runs a call on a thread. If it waits for the slow address, the test fails and then answers.
  void expect_to_end_without_the_answer(const std::function<void()>& call) {
    std::atomic<bool> ended{false};
    std::thread thread([&] {
      call();
      ended.store(true);
    });
    EXPECT_TRUE(wait_until([&] { return ended.load(); })) << "it waits for the address";
    if (!ended.load()) asking().answer_all(ETIMEDOUT);
    thread.join();
  }
  // If the one path does not come up on either side, the connector dials anew, to ask first whether
  // the ports meet.
  static constexpr int kTriesInVain = 2 * 3;
  int warnings() const { return log_.count(LogLevel::Warn, ""); }
  bool b_empties() {
    return wait_until([this] {
      const EngineStats stats = hosts_[kB].engine->stats();
      return stats.links + stats.queue_pairs == 0;
    });
  }
  testkit::Pair connect(std::size_t from, std::size_t to) {
    return testkit::connect(hosts_[from].member(), hosts_[to].member());
  }
  static void exchange(const testkit::Pair& pair) {
    testkit::exchange(pair, {100'000}, testkit::Leaves::ACredit);
  }

  testkit::LogCapture log_;
  std::array<Host, 3> hosts_;
  HandleBytes handle_{};
  Listener* listener_ = nullptr;
  testkit::Pair pair_;
  std::size_t near_ = 0, far_ = 0;
};

TEST_P(BringUpTest, NobodyElseWaits) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Context* const other = hosts_[kB].engine->open_context({}).value();
  for (const auto& [from, to] : {std::pair{kB, kC}, std::pair{kC, kB}}) {
    const testkit::Pair pair = connect(from, to);
    exchange(pair);  // with a REVOKE that b answers, and one that b sends
    close(pair.send);
    close(pair.receive);
  }
  hosts_[kB].engine->close_context(other);
  EXPECT_EQ(asking().asked(), 1) << "all that in one try";
  EXPECT_EQ(warnings(), 0) << log_.joined();
}

// A peer whose address does not resolve holds four threads, however many of its links wait.
TEST_P(BringUpTest, OnePeerHoldsFourThreads) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Engine& near = *hosts_[near_].engine;
  Engine& far = *hosts_[far_].engine;
  std::array<HandleBytes, 5> handles{};
  std::array<Context*, 5> from{};
  for (std::size_t i = 0; i < handles.size(); ++i) {
    from[i] = near.open_context({}).value();
    ASSERT_TRUE(far.listen(*far.open_context({}).value(), 0, handles[i]).ok());
    ASSERT_TRUE(wait_until([&] {
      static_cast<void>(near.connect(*from[i], 0, handles[i]));
      return engine::read_stage(handles[i]).index != 0;
    }));
  }
  ASSERT_TRUE(wait_until([&] { return hosts_[kB].engine->stats().links == 6; }));
  ASSERT_TRUE(wait_until([&] { return asking().asked() >= 4; }));
  for (int i = 0; i < 100; ++i) {  // makes the control thread look again and again
    HandleBytes handle{};
    far.close_listener(far.listen(*hosts_[far_].contexts[0], 0, handle).value());
    near.close_listener(near.listen(*hosts_[near_].contexts[0], 0, handle).value());
  }
  EXPECT_EQ(asking().asked(), 4);
  asking().answer_all(0);
  EXPECT_EQ(outcome(), Errc::Ok);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    Result<Channel*> answer = Errc::WouldBlock;
    EXPECT_TRUE(wait_until([&] {
      return (answer = near.connect(*from[i], 0, handles[i])).code() != Errc::WouldBlock;
    }));
    EXPECT_TRUE(answer.ok()) << errc_name(answer.code());
  }
}

TEST_P(BringUpTest, TheThirdTryConnects) {
  ASSERT_NO_FATAL_FAILURE(begin());
  asking().answer({ETIMEDOUT, ETIMEDOUT});
  ASSERT_TRUE(wait_until([this] { return asking().asked() == 3; }));
  asking().answer_all(0);
  ASSERT_EQ(outcome(), Errc::Ok);
  ASSERT_TRUE(wait_until([this] {
    return (pair_.receive = hosts_[far_].engine->accept(*listener_).value()) != nullptr;
  }));
  exchange(pair_);
  EXPECT_EQ(asking().asked(), 2 + 5) << "two more tries, not two for each of the five queue pairs";
  close(pair_.send);
  close(pair_.receive);
  EXPECT_TRUE(b_empties());
}

TEST_P(BringUpTest, ThreeTriesInVainAreSaidOnceOnEachSide) {
  ASSERT_NO_FATAL_FAILURE(begin());
  asking().answer_all(ETIMEDOUT);
  EXPECT_EQ(outcome(), Errc::Transport);
  Errc accepted = Errc::WouldBlock;
  EXPECT_TRUE(wait_until([&] {
    return (accepted = hosts_[far_].engine->accept(*listener_).code()) != Errc::WouldBlock;
  }));
  EXPECT_EQ(accepted, Errc::Transport);
  EXPECT_TRUE(b_empties());
  EXPECT_EQ(asking().asked(), kTriesInVain);
  ASSERT_TRUE(wait_until([this] { return warnings() >= 2; }));
  EXPECT_EQ(log_.count(LogLevel::Warn,
                       "n0:1 10.0.1.2 -> n0:1 10.0.1.1: queue pair to RTR: Connection timed out"),
            1);
  EXPECT_EQ(log_.count(LogLevel::Warn, "host b: its end of the link failed"), 1);
  EXPECT_EQ(warnings(), 2) << log_.joined();
}

TEST_P(BringUpTest, AConnectThatCameAfterHelloWaitsForAnotherLink) {
  ASSERT_NO_FATAL_FAILURE(begin());
  asking().answer({ETIMEDOUT, ETIMEDOUT, ETIMEDOUT});  // the last HELLO comes after it
  ASSERT_TRUE(wait_until([this] { return asking().asked() == 4; }));
  Engine& near = *hosts_[near_].engine;
  Engine& far = *hosts_[far_].engine;
  HandleBytes late{};
  Listener* const listener = far.listen(*hosts_[far_].contexts[0], 0, late).value();
  const HandleBytes as_listened = late;
  connect(kB, kC);  // a link beside the failing one
  const auto connect_late = [&] { return near.connect(*hosts_[near_].contexts[0], 0, late); };
  ASSERT_TRUE(wait_until([&] { return connect_late().ok() || late != as_listened; }));
  asking().answer({ETIMEDOUT, ETIMEDOUT, ETIMEDOUT});
  asking().answer_all(0);
  EXPECT_NE(outcome(), Errc::Ok);
  testkit::Pair pair;
  EXPECT_TRUE(wait_until([&] {
    if (pair.send == nullptr) pair.send = connect_late().value();
    if (pair.receive == nullptr) pair.receive = far.accept(*listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  }));
  far.close_listener(listener);
}

TEST_P(BringUpTest, TheCommunicatorEndsMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const auto began = Time::now();
  expect_to_end_without_the_answer([this] { hosts_[kB].close_context(0); });
  EXPECT_EQ(hosts_[kB].engine->stats().queue_pairs, 5u)
      << "a thread is still at work on one of them";
  // The second for its goodbye passes. The end of the communicator, due then, must not make others
  // wait.
  expect_to_end_without_the_answer([&] {
    while (Time::now() < began + std::chrono::milliseconds(1200)) {
      EXPECT_EQ(hosts_[kB].engine->stats().contexts, 1u);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  asking().answer({ETIMEDOUT});
  EXPECT_TRUE(b_empties());
  EXPECT_TRUE(wait_until([this] { return hosts_[kB].engine->stats().contexts == 0; }));
  EXPECT_EQ(asking().asked(), 1) << "given up";
}

TEST_P(BringUpTest, ThePeerEndsMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(begin());
  hosts_[kA].close_context(0);
  const bool heard = GetParam() == Way::ToA;  // an acceptor has nobody to tell
  EXPECT_TRUE(!heard || outcome() != Errc::Ok) << "while the try is still under way";
  asking().answer_all(0);  // the address resolves after all
  EXPECT_TRUE(b_empties());
  EXPECT_LE(asking().asked(), heard ? 1 : 5);
}

TEST_P(BringUpTest, TheEngineEndsMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(begin());
  // Answers later than anything that the engine's destructor itself waits for.
  std::thread late([this, until = Time::now() + std::chrono::milliseconds(1500)] {
    std::this_thread::sleep_until(until);
    asking().answer_all(ETIMEDOUT);
  });
  hosts_[kB].contexts[0] = nullptr;
  hosts_[kB].engine.reset();
  late.join();
  EXPECT_EQ(asking().asked(), 1);
}

// Hosts a and b with two paths; over one of them b cannot resolve a.
class OneOfTwoPaths : public BringUpTest {
 protected:
  const char* fabric_text() const override { return testkit::kHalves; }
};

TEST_P(OneOfTwoPaths, TheLinkDoesWithoutItUntilItAnswers) {
  asking().answer_all(ETIMEDOUT);
  const bool to_a = GetParam() == Way::ToA;
  const testkit::Pair pair = connect(to_a ? kB : kA, to_a ? kA : kB);
  exchange(pair);
  EXPECT_EQ(log_.count(LogLevel::Warn, "could not be brought up; 1 of 2 paths carry on"), 2)
      << log_.joined();
  asking().answer_all(0);
  EXPECT_TRUE(wait_until([this] { return log_.count(LogLevel::Info, "is back after") == 2; }))
      << log_.joined();
  const testkit::Pair later = connect(to_a ? kB : kA, to_a ? kA : kB);
  exchange(later);
  for (const testkit::Pair& each : {pair, later}) close(each.send), close(each.receive);
  EXPECT_TRUE(b_empties());
}

std::string way_name(const testing::TestParamInfo<Way>& info) {
  return info.param == Way::ToA ? "Connecting" : "Accepting";
}
INSTANTIATE_TEST_SUITE_P(Side, BringUpTest, testing::Values(Way::ToA, Way::FromA), way_name);
INSTANTIATE_TEST_SUITE_P(Side, OneOfTwoPaths, testing::Values(Way::ToA, Way::FromA), way_name);

}  // namespace
}  // namespace mesh
