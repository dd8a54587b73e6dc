// A device hangs while it registers memory. Links over the host's other devices come up without it,
// a line names it and the call, and its paths stand by when the call returns. So does a line if a
// link cannot do without the device. A device whose paths stand by hangs while one is opened: the
// primary path is opened again meanwhile. It hangs when its path stands by again: NCCL's
// registrations do not wait for it.

#include "tests/unit/engine/sick_rail.h"

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "engine/data/registration.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::Call, testkit::EngineHost, testkit::Pair, testkit::SickRail, testkit::wait_until;

constexpr const char* kTwoCables = R"({"name":"standby",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24","ece":3},
                               {"name":"n1","address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24","ece":3},
                               {"name":"n1","address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";
// n0 leads to another host: paths over other hosts may use it.
constexpr const char* kRing = R"({"name":"ring",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},
                               {"name":"n1","address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.3.2/24"},
                               {"name":"n1","address":"10.0.2.2/24"}]},
           {"name":"c","nics":[{"name":"n0","address":"10.0.1.3/24"},
                               {"name":"n1","address":"10.0.3.3/24"}]}],
  "links":[{"ends":["a/n0","c/n0"]},{"ends":["a/n1","b/n1"]},{"ends":["b/n0","c/n1"]}]})";
constexpr int kOverN1 = 1;  // rail

struct Command {
  Call call = Call::RegMr;
  const char* name = "";
};

class SickStandby : public testing::Test {
 protected:
  void open(const char* cables, std::size_t communicators = 1) {
    set_log_level(LogLevel::Info);
    EngineOptions options = testkit::on_loopback(1);
    options.settings.rails = "auto";
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      options.settings.path_timeout_s = i == 0 ? path_timeout_s_ : 30;
      hosts_[i].open(std::make_unique<SickRail>(testkit::open_host(cables, i)), options,
                     communicators);
    }
  }
  void TearDown() override {
    device().heal();
    for (EngineHost<SickRail>& host : hosts_) host.close();
    if (HasFailure()) std::puts(log_.joined().c_str());
  }
  SickRail& device() { return *hosts_[0].provider; }
  // A link from one host to the other, over the healthy device; the other one still hangs then.
  Pair connect_while_it_hangs(std::size_t from, std::size_t to) {
    const Pair pair = connect(from, to);
    EXPECT_TRUE(device().is_waiting());
    return pair;
  }
  Pair connect(std::size_t from, std::size_t to, std::size_t communicator = 0, int rail = kOverN1) {
    return testkit::connect(hosts_[from].member(communicator, rail),
                            hosts_[to].member(communicator, rail));
  }
  // Returns true if the path that NCCL named is up and the other one stands by.
  bool spare_rests() const {
    std::uint64_t up = 0, standby = 0, away = 0;
    for (const PeerSnapshot& peer : hosts_[0].engine->snapshot().peers) {
      for (const PathSnapshot& path : peer.paths) {
        up += path.up;
        standby += path.standby;
        away += path.down + path.quarantined;
      }
    }
    return up == 1 && standby == 1 && away == 0;
  }
  bool says(LogLevel level, const char* text, int times) {
    return wait_until([&] { return log_.count(level, text) == times; });
  }

  testkit::LogCapture log_;
  int path_timeout_s_ = 30;  // of the host with the sick device
  std::array<EngineHost<SickRail>, 2> hosts_;
};

TEST_F(SickStandby, ThatRegistersNoMemoryHoldsUpNoLinkAndJoinsLater) {
  open(kTwoCables);
  device().slow_down(Call::RegMr);
  const std::array<Pair, 2> pairs = {connect_while_it_hangs(0, 1), connect_while_it_hangs(1, 0)};
  for (const Pair& pair : pairs) testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  EXPECT_TRUE(says(LogLevel::Warn, "n0:1: ibv_reg_mr has not returned in 500 ms", 1));
  device().heal();
  EXPECT_TRUE(says(LogLevel::Info, "n0:1: ibv_reg_mr has returned after", 1));
  EXPECT_TRUE(says(LogLevel::Detail, "n0:1 stands by from now on", 2));
  const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n1"};
  for (EngineHost<SickRail>& host : hosts_)
    ASSERT_TRUE(host.provider->under().faults().arm(down).ok());
  for (const Pair& pair : pairs) testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  for (const Pair& pair : pairs) close(pair.send), close(pair.receive);
}

TEST_F(SickStandby, ThatMakesNoDomainHoldsUpNoCommunicatorAndJoinsLater) {
  open(kTwoCables);
  device().slow_down(Call::AllocPd);
  for (EngineHost<SickRail>& host : hosts_)
    host.contexts.push_back(host.engine->open_context({}).value());
  EXPECT_TRUE(device().is_waiting());
  EXPECT_TRUE(says(LogLevel::Warn, "n0:1: ibv_alloc_pd has not returned in 500 ms", 1));
  const std::array<Pair, 2> pairs = {connect(0, 1, 1), connect(1, 0, 1)};
  for (const Pair& pair : pairs) testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  EXPECT_TRUE(device().is_waiting());
  device().heal();
  EXPECT_TRUE(says(LogLevel::Info, "n0:1: ibv_alloc_pd has returned after", 1));
  const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n1"};
  for (EngineHost<SickRail>& host : hosts_)
    ASSERT_TRUE(host.provider->under().faults().arm(down).ok());
  for (const Pair& pair : pairs) testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  EXPECT_EQ(log_.count(LogLevel::Warn, "the card left"), 0);
  for (const Pair& pair : pairs) close(pair.send), close(pair.receive);
}

// An engine ends for its peers, and leaves to its destructor what the device holds up.
class SickEnd : public SickStandby, public testing::WithParamInterface<Call> {};
TEST_P(SickEnd, HoldsUpNoGoodbye) {
  open(kTwoCables);
  const Pair pair = connect(0, 1, 0, 0);
  testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  device().slow_down(GetParam());
  close(pair.send), close(pair.receive);
  hosts_[0].close_context(0);
  hosts_[0].engine->end();
  EXPECT_TRUE(wait_until([this] { return hosts_[1].engine->stats().links == 0; }));
  EXPECT_EQ(device().waited(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Of, SickEnd,
                         testing::Values(Call::ModifyToErr, Call::DestroyQp, Call::DestroyCq,
                                         Call::DeregMr, Call::DeallocPd),
                         [](const auto& call) { return testkit::test_name_of(call.param); });

TEST_F(SickStandby, ThatPathsOverOtherHostsMayUseHoldsUpNoLink) {
  open(kRing);
  device().slow_down(Call::RegMr);
  const Pair pair = connect_while_it_hangs(0, 1);
  testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  EXPECT_TRUE(says(LogLevel::Warn, "n0:1: ibv_reg_mr has not returned in 500 ms", 1));
  close(pair.send), close(pair.receive);
}

// Nothing goes on without the card of a primary rail, but somebody must say which it is.
class SickPrimary : public SickStandby, public testing::WithParamInterface<Command> {};

TEST_P(SickPrimary, IsNamedWithItsCommandWhileALinkWaits) {
  constexpr int kOverN0 = 0;
  open(kTwoCables);
  device().slow_down(GetParam().call);
  HandleBytes handle{};
  Listener* const listener =
      hosts_[1].engine->listen(*hosts_[1].contexts[0], kOverN0, handle).value();
  Channel *send = nullptr, *receive = nullptr;
  const auto try_both = [&] {
    if (send == nullptr)
      send = hosts_[0].engine->connect(*hosts_[0].contexts[0], kOverN0, handle).value();
    if (receive == nullptr) receive = hosts_[1].engine->accept(*listener).value();
    return send != nullptr && receive != nullptr;
  };
  const std::string name = GetParam().name;
  EXPECT_TRUE(wait_until([&] {
    return !try_both() && log_.count(LogLevel::Warn, "n0:1: " + name + " has not returned") == 1;
  }));
  device().heal();
  EXPECT_TRUE(wait_until(try_both));
  EXPECT_TRUE(says(LogLevel::Info, ("n0:1: " + name + " has returned after").c_str(), 1));
  EXPECT_TRUE(log_.warned(""));
  hosts_[1].engine->close_listener(listener);
  close(send), close(receive);
}

INSTANTIATE_TEST_SUITE_P(Of, SickPrimary,
                         testing::Values(Command{Call::RegMr, "ibv_reg_mr"},
                                         Command{Call::CreateCq, "ibv_create_cq"},
                                         Command{Call::CreateQp, "ibv_create_qp"},
                                         Command{Call::ModifyToInit, "ibv_modify_qp"}),
                         [](const auto& command) {
                           return testkit::test_name_of(command.param.call);
                         });

// Bring-ups that hang take all threads that there are for the peer on their card, and no others.
TEST_F(SickStandby, HoldsUpNoLinkOverAnotherCardToTheSamePeer) {
  constexpr int kOverN0 = 0;
  constexpr std::size_t kMany = 6;
  open(kTwoCables, kMany + 1);
  device().slow_down(Call::ModifyToInit);
  std::array<HandleBytes, kMany> handles{};
  std::array<Listener*, kMany> listeners{};
  std::array<Pair, kMany> pairs{};
  const auto try_all = [&] {
    std::size_t done = 0;
    for (std::size_t i = 0; i < kMany; ++i) {
      Pair& pair = pairs[i];
      if (pair.send == nullptr)
        pair.send = hosts_[0].engine->connect(*hosts_[0].contexts[i], kOverN0, handles[i]).value();
      if (pair.receive == nullptr) pair.receive = hosts_[1].engine->accept(*listeners[i]).value();
      if (pair.send != nullptr && pair.receive != nullptr) ++done;
    }
    return done;
  };
  for (std::size_t i = 0; i < kMany; ++i)
    listeners[i] = hosts_[1].engine->listen(*hosts_[1].contexts[i], kOverN0, handles[i]).value();
  EXPECT_TRUE(wait_until([&] { return try_all() == 0 && device().waiting() == 4; }));
  const Pair well = connect(0, 1, kMany);
  testkit::exchange(well, {8, 1 << 16}, testkit::Leaves::Nothing);
  EXPECT_TRUE(device().is_waiting());
  EXPECT_EQ(device().waiting(), 4u);
  device().heal();
  EXPECT_TRUE(wait_until([&] { return try_all() == kMany; }));
  for (std::size_t i = 0; i < kMany; ++i) {
    hosts_[1].engine->close_listener(listeners[i]);
    close(pairs[i].send), close(pairs[i].receive);
  }
  close(well.send), close(well.receive);
}

TEST_F(SickStandby, ThatNeverRegistersHoldsUpNoEndOfALink) {
  open(kTwoCables);
  device().slow_down(Call::RegMr);
  const Pair pair = connect_while_it_hangs(0, 1);
  close(pair.send), close(pair.receive);
  EXPECT_TRUE(wait_until([&] {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const EngineHost<SickRail>& host) {
      return host.engine->stats().links == 0;
    });
  }));
  EXPECT_TRUE(device().is_waiting());
}

// A primary path flaps while the device of the standby path hangs in a call of the bring-up, at the
// connector or at the acceptor.
enum class Sick : std::uint8_t { Connects, Accepts };
class SickSpare : public SickStandby, public testing::WithParamInterface<std::tuple<Call, Sick>> {
 protected:
  void flap(std::size_t host, std::chrono::milliseconds time) {
    const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n1"};
    soft::FaultPlan& faults = hosts_[host].provider->under().faults();
    ASSERT_TRUE(faults.arm(down).ok());
    EXPECT_TRUE(wait_until([this] { return device().is_waiting(); }));
    std::this_thread::sleep_for(time);  // how long the port is away
    faults.lift(down);
  }
};

// Returns how long the port is away in each flap; SPARE_FLAPS asks for long ones too.
std::vector<std::chrono::milliseconds> flaps() {
  if (!process_environment().contains("SPARE_FLAPS")) return {std::chrono::milliseconds(0)};
  return {std::chrono::milliseconds(300), std::chrono::milliseconds(1000)};
}

TEST_P(SickSpare, HoldsUpNoTryOfThePrimaryPath) {
  const auto [call, sick] = GetParam();
  open(kTwoCables);
  const std::size_t from = sick == Sick::Connects ? 0 : 1;
  const Pair pair = connect(from, 1 - from);
  std::vector<std::byte> memory(1 << 16);
  Registration* const region =
      register_memory(*pair.send, memory.data(), memory.size(), MemoryType::Host).value();
  Registration* const target =
      register_memory(*pair.receive, memory.data(), memory.size(), MemoryType::Host).value();
  testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
  device().slow_down(call);
  for (const std::size_t host : {0u, 1u}) {
    for (const std::chrono::milliseconds time : flaps()) {
      ASSERT_NO_FATAL_FAILURE(flap(host, time));
      const auto begin = std::chrono::steady_clock::now();
      testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      std::printf("the %s's port away for %4lld ms: next messages after %.0f ms\n",
                  host == from ? "sender" : "receiver", static_cast<long long>(time.count()),
                  took.count());
      EXPECT_TRUE(device().is_waiting());
    }
  }
  device().heal();
  deregister_memory(*pair.send, region);
  deregister_memory(*pair.receive, target);
  close(pair.send), close(pair.receive);
}

// NCCL's memory comes to the spare rail when a path is opened there, and not before.
TEST_F(SickStandby, ThatHasCarriedHoldsUpNoRegistrationWhenItRestsAgain) {
  open(kTwoCables);
  const Pair pair = connect(0, 1);
  const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n1"};
  const auto cut = [&] {
    for (EngineHost<SickRail>& host : hosts_)
      ASSERT_TRUE(host.provider->under().faults().arm(down).ok());
  };
  const auto mend = [&] {
    for (EngineHost<SickRail>& host : hosts_) host.provider->under().faults().lift(down);
    EXPECT_TRUE(wait_until([this] { return spare_rests(); }));
  };
  const auto asked = [this] { return device().counts(Call::RegMr).all; };
  const auto carry = [&] { testkit::exchange(pair, {8, 1 << 16}, testkit::Leaves::Nothing); };
  std::vector<std::byte> memory(1 << 16);
  const auto put = [&](std::size_t at) {
    return register_memory(*pair.send, &memory[at], 4096, MemoryType::Host).value();
  };
  Registration* const known = put(0);
  carry(), cut(), carry(), mend(), carry();
  device().slow_down(Call::RegMr);
  const std::uint64_t before = asked();
  Registration* const fresh = put(8192);
  EXPECT_EQ(asked(), before);
  device().heal();
  cut(), carry();
  EXPECT_NE(fresh->keys(0).rkey, 0u);
  deregister_memory(*pair.send, known);
  mend();
  deregister_memory(*pair.send, fresh);
  close(pair.send), close(pair.receive);
}

class NamedSpare : public SickSpare {};
TEST_P(NamedSpare, IsSaidWithItsCommandWhenNoPathIsLeft) {
  const auto [call, sick] = GetParam();
  path_timeout_s_ = 3;  // the spare hangs before, also where the machine is busy
  open(kTwoCables);
  const std::size_t from = sick == Sick::Connects ? 0 : 1;
  const Pair pair = connect(from, 1 - from);
  std::vector<std::byte> memory(8);
  Registration* const source =
      register_memory(*pair.send, memory.data(), memory.size(), MemoryType::Host).value();
  Registration* const target =
      register_memory(*pair.receive, memory.data(), memory.size(), MemoryType::Host).value();
  testkit::exchange(pair, {8}, testkit::Leaves::Nothing);
  Request *receiving = nullptr, *sending = nullptr;
  receiving = irecv(*pair.receive, {.data = memory.data(), .bytes = 8, .region = target}).value();
  ASSERT_NE(receiving, nullptr);
  device().slow_down(call);
  const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = "n1"};
  ASSERT_TRUE(hosts_[0].provider->under().faults().arm(down).ok());
  EXPECT_TRUE(wait_until([this] { return device().is_waiting(); }));
  if (sick == Sick::Connects) {
    EXPECT_TRUE(wait_until([&] {
      sending = isend(*pair.send, {.data = memory.data(), .bytes = 8, .region = source}).value();
      return sending != nullptr;
    }));
  }
  Request& waits = sick == Sick::Connects ? *sending : *receiving;
  EXPECT_TRUE(wait_until([&] { return test(waits, nullptr).code() != Errc::WouldBlock; }));
  const std::string command = testkit::name_of(call);
  const std::string said =
      "n0:1: ibv_" + command.substr(0, command.find(' ')) + " has not returned";
  EXPECT_GE(log_.count(LogLevel::Warn, said), 1) << "the peer may have heard it, too";
  device().heal();
  deregister_memory(*pair.send, source);
  deregister_memory(*pair.receive, target);
  close(pair.send), close(pair.receive);
}

std::string of_call_at(const testing::TestParamInfo<std::tuple<Call, Sick>>& of) {
  const bool connects = std::get<1>(of.param) == Sick::Connects;
  return testkit::test_name_of(std::get<0>(of.param)) +
         (connects ? "_AtTheConnector" : "_AtTheAcceptor");
}
const auto kEither = testing::Values(Sick::Connects, Sick::Accepts);
INSTANTIATE_TEST_SUITE_P(InEach, SickSpare,
                         testing::Combine(testing::Values(Call::RegMr, Call::CreateCq,
                                                          Call::CreateQp, Call::ModifyToInit,
                                                          Call::ModifyToRtr, Call::ModifyToRts,
                                                          Call::QueryEce, Call::SetEce),
                                          kEither),
                         of_call_at);
INSTANTIATE_TEST_SUITE_P(
    InEach, NamedSpare,
    testing::Combine(testing::Values(Call::RegMr, Call::CreateQp, Call::ModifyToRts), kEither),
    of_call_at);

}  // namespace
}  // namespace mesh
