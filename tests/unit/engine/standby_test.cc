// Standby paths: opened when no primary path is up, left when a primary path is back.

#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/open_bed.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::bytes_by_cable, testkit::cables, testkit::cut_cable, testkit::kA,
    testkit::kB, testkit::mend_cable, testkit::Talk;

constexpr std::size_t kMessageBytes = 1 << 20;

class Standby : public testkit::OpenBed {
 protected:
  Standby() : OpenBed(kMessageBytes) {}

  void open(int count) {
    count_ = count;
    OpenBed::open(cables(count));
  }
  Talk talk(int device) {
    return {*bed_, bed_->connect(kA, kB, {.connects = device, .listens = device}), kMessageBytes};
  }
  // Returns the cables that carried more than noise (1% of a message) when `messages` were sent.
  std::vector<int> used(Talk& talk, int messages = 4) {
    const std::vector<std::uint64_t> before = bytes_by_cable(*bed_, count_);
    for (int i = 0; i < messages; ++i) talk.exchange(kMessageBytes);
    const std::vector<std::uint64_t> after = bytes_by_cable(*bed_, count_);
    std::vector<int> cables;
    for (std::size_t i = 0; i < after.size(); ++i)
      if (after[i] - before[i] > kMessageBytes / 100) cables.push_back(static_cast<int>(i));
    return cables;
  }
  // Turns until the primary path is back on both sides.
  bool settles(Talk& talk) {
    return bed_->until([&] {
      return talk.pair.send->link.paths().all_up() && talk.pair.receive->link.paths().all_up();
    });
  }

  int count_ = 0;
};

using Cables = std::vector<int>;

TEST_F(Standby, CarriesWhileTheCableThatNcclNamedIsCutAndRestsAfterwards) {
  for (const int count : {2, 4, 8}) {
    for (const int device : {0, count - 1}) {
      SCOPED_TRACE(fmt::format("{} cables, device {}", count, device));
      open(count);
      Talk talk = this->talk(device);
      EXPECT_EQ(used(talk), Cables{device});
      const std::uint64_t queue_pairs = bed_->stats(0).queue_pairs;
      cut_cable(*bed_, device);
      talk.exchange(kMessageBytes);
      const Cables instead = used(talk);
      ASSERT_EQ(instead.size(), 1u) << "one for one";
      EXPECT_EQ(instead[0], (device + 1) % count);
      talk.exchange(8);
      mend_cable(*bed_, device);
      ASSERT_TRUE(settles(talk)) << log_.joined();
      EXPECT_EQ(used(talk), Cables{device});
      EXPECT_EQ(bed_->stats(0).queue_pairs, queue_pairs) << "those of the standby path are gone";
      EXPECT_GT(log_.count(LogLevel::Detail, "carries on after"), 0) << log_.joined();
      end_all(talk);
    }
  }
}

TEST_F(Standby, NothingIsLostWithMessagesUnderWay) {
  open(3);
  Talk talk = this->talk(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Request*> requests;
    std::fill(talk.target.begin(), talk.target.end(), std::byte{0xa5});
    constexpr std::size_t kPart = kMessageBytes / 8;
    for (std::size_t i = 0; i < 8; ++i)
      requests.push_back(talk.receive({.at = i * kPart, .bytes = kPart}).value());
    for (std::size_t i = 0; i < 8; ++i)
      requests.push_back(talk.send({.at = i * kPart, .bytes = i % 3 == 0 ? 100 : kPart}).value());
    bed_->rounds(round * 3);
    (round % 2 == 0 ? cut_cable : mend_cable)(*bed_, 1);
    for (Request* const request : requests) ASSERT_TRUE(bed_->finish(request).ok());
    for (std::size_t i = 0; i < 8; ++i)
      ASSERT_TRUE(talk.holds(i * kPart, i * kPart, i % 3 == 0 ? 100 : kPart)) << round;
  }
  end_all(talk);
}

TEST_F(Standby, TheNextOneCarriesWhenAStandbyCableIsCutToo) {
  open(4);
  Talk talk = this->talk(0);
  for (const int cable : {0, 1, 2}) {
    cut_cable(*bed_, cable);
    talk.exchange(kMessageBytes);
    EXPECT_EQ(used(talk), Cables{cable + 1});
  }
  mend_cable(*bed_, 1);
  ASSERT_TRUE(bed_->until([&] { return used(talk, 1) == Cables{1}; }, 1000));
  mend_cable(*bed_, 0);
  ASSERT_TRUE(bed_->until([&] { return used(talk, 1) == Cables{0}; }, 1000));
  end_all(talk);
}

// The sender has read the next credit but has no send for it yet. The credit's keys belong to the
// cable that is cut then.
TEST_F(Standby, ACreditThatWasReadBeforeTheCutIsReadAgain) {
  open(2);
  Talk beside = this->talk(1);  // so that the keys of the two NICs differ
  Talk talk = this->talk(0);
  Request* const received = talk.receive({.at = 0, .bytes = kMessageBytes / 2, .tag = 1}).value();
  const Talk::Part of_another_tag{.at = kMessageBytes / 2, .bytes = kMessageBytes / 2, .tag = 2};
  Request* const waits = talk.send(of_another_tag).value();
  bed_->rounds(100);
  cut_cable(*bed_, 0);
  ASSERT_TRUE(bed_->until([&] {
    return talk.pair.send->link.paths().key_set() == 1 &&
           talk.pair.receive->link.paths().key_set() == 1;
  }));
  Request* const sent = talk.send({.at = 0, .bytes = kMessageBytes / 2, .tag = 1}).value();
  EXPECT_TRUE(bed_->finish_all({sent, received})) << log_.joined();
  EXPECT_TRUE(talk.holds(0, 0, kMessageBytes / 2));
  Request* const other = talk.receive(of_another_tag).value();
  EXPECT_TRUE(bed_->finish_all({waits, other}));
  beside.end();
  end_all(talk);
}

// The probes of the path get through, but every message on it is lost.
TEST_F(Standby, APrimaryPathThatFailsAgainAndAgainIsLeftAloneForLongerAndLonger) {
  open(2);
  Talk talk = this->talk(0);
  const engine::Path& primary = talk.pair.send->link.paths()[0];
  bed_->tick_ns = 1'000'000;
  int failures = 0;
  for (const std::uint64_t end_ns = bed_->now_ns() + 30'000'000'000; bed_->now_ns() < end_ns;) {
    bed_->round();
    if (primary.health.state != engine::PathState::Up) continue;
    const soft::Fault fault{.kind = soft::FaultKind::QpError, .nic = "n0"};
    ASSERT_TRUE(bed_->hosts[0].provider->faults().arm(fault).ok());
    talk.exchange(kMessageBytes);
    ++failures;
  }
  // Pauses grow from 50 ms, 100 ms and so on up to 10 s.
  EXPECT_GE(failures, 5) << log_.joined();
  EXPECT_LE(failures, 15) << log_.joined();
  end_all(talk);
}

TEST_F(Standby, ALinkComesUpWhoseOwnCableIsDownAtTheStart) {
  open(3);
  cut_cable(*bed_, 1);
  Talk talk = this->talk(1);
  talk.exchange(kMessageBytes);
  EXPECT_EQ(used(talk), Cables{2});
  mend_cable(*bed_, 1);
  ASSERT_TRUE(settles(talk)) << log_.joined();
  EXPECT_EQ(used(talk), Cables{1});
  end_all(talk);
}

// Memory registered while a standby path carries is also registered on the primary path, and the
// other way round.
TEST_F(Standby, MemoryComesAndGoesMeanwhile) {
  open(2);
  Talk first = talk(0);
  first.exchange(kMessageBytes);
  cut_cable(*bed_, 0);
  Talk second = talk(0);
  second.exchange(kMessageBytes);
  first.exchange(kMessageBytes);
  EXPECT_EQ(used(second), Cables{1});
  Talk third = talk(0);
  first.end();
  mend_cable(*bed_, 0);
  ASSERT_TRUE(settles(second));
  EXPECT_EQ(used(second), Cables{0});
  EXPECT_EQ(used(third), Cables{0});
  cut_cable(*bed_, 0);
  third.exchange(kMessageBytes);
  EXPECT_EQ(used(third), Cables{1});
  second.end();
  end_all(third);
}

// The standby path's probe is lost, and the connector's control thread stands still from then on.
TEST_F(Standby, AnAcceptorThatTimesOutNamesTheProbeThatItWaitsFor) {
  fabric_ = cables(2);
  bed_ = std::make_unique<Bed>(
      testkit::BedOptions{.fabric = fabric_.c_str(), .path_timeout_s = 3, .rails = "auto"});
  bed_->tick_ns = 100'000;
  Talk talk = this->talk(0);
  soft::Fault fault{.kind = soft::FaultKind::PeerLost, .nic = "n1"};
  fault.peer_host = "b";
  ASSERT_TRUE(bed_->hosts[0].provider->faults().arm(fault).ok());
  Request* const received = talk.receive({.bytes = kMessageBytes}).value();
  cut_cable(*bed_, 0);
  const engine::Path& standby = talk.pair.receive->link.paths()[1];
  ASSERT_TRUE(bed_->until([&] {
    return standby.health.state == engine::PathState::Down && !standby.queue_pairs.empty();
  }));
  bed_->rounds(1000);
  bed_->hosts[0].control_stands = true;
  EXPECT_EQ(bed_->finish(received).code(), Errc::Timeout);
  EXPECT_TRUE(log_.warned("the peer's probe has not come through"));
}

// Both halves of one cable carry, and both halves of another one stand by.
TEST_F(Standby, HalvesStandInForHalves) {
  constexpr const char* kTwoCablesOfTwoHalves = R"({"name": "halves",
    "hosts": [{"name": "a", "nics": [
                {"name": "n0", "address": "10.0.1.1/24", "guid": "1"},
                {"name": "n1", "address": "10.0.2.1/24", "guid": "1"},
                {"name": "n2", "address": "10.0.3.1/24", "guid": "2"},
                {"name": "n3", "address": "10.0.4.1/24", "guid": "2"}]},
              {"name": "b", "nics": [
                {"name": "n0", "address": "10.0.1.2/24", "guid": "3"},
                {"name": "n1", "address": "10.0.2.2/24", "guid": "3"},
                {"name": "n2", "address": "10.0.3.2/24", "guid": "4"},
                {"name": "n3", "address": "10.0.4.2/24", "guid": "4"}]}],
    "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]},
              {"ends": ["a/n2", "b/n2"]}, {"ends": ["a/n3", "b/n3"]}]})";
  count_ = 4;
  bed_ =
      std::make_unique<Bed>(testkit::BedOptions{.fabric = kTwoCablesOfTwoHalves, .rails = "auto"});
  bed_->tick_ns = 10'000;
  Talk talk = this->talk(2);
  EXPECT_EQ(used(talk), (Cables{2, 3}));
  const std::vector<std::uint64_t> before = bytes_by_cable(*bed_, count_);
  for (int i = 0; i < 16; ++i) talk.exchange(kMessageBytes);
  const std::vector<std::uint64_t> after = bytes_by_cable(*bed_, count_);
  const double first = static_cast<double>(after[2] - before[2]);
  const double share = first / (first + static_cast<double>(after[3] - before[3]));
  std::printf("halves of a cable: %.1f %% and %.1f %% of the bytes\n", 100 * share,
              100 * (1 - share));
  EXPECT_NEAR(share, 0.5, 0.02);
  cut_cable(*bed_, 2);
  talk.exchange(kMessageBytes);
  EXPECT_EQ(used(talk), Cables{3}) << "half of a primary cable is better than a whole other one";
  cut_cable(*bed_, 3);
  talk.exchange(kMessageBytes);
  ASSERT_TRUE(bed_->until([&] { return used(talk, 2) == Cables{0, 1}; }, 1000));
  mend_cable(*bed_, 3);
  ASSERT_TRUE(bed_->until([&] { return used(talk, 2) == Cables{3}; }, 1000));
  mend_cable(*bed_, 2);
  ASSERT_TRUE(bed_->until([&] { return used(talk, 2) == (Cables{2, 3}); }, 1000));
  end_all(talk);
}

// Each link has the queue pairs and the bytes in flight that its own cable calls for.
TEST_F(Standby, ACableBesideOneOfTwoHalvesKeepsItsQueuePairs) {
  constexpr const char* kHalvesAndACable = R"({"name": "mixed",
    "hosts": [{"name": "a", "nics": [
                {"name": "n0", "address": "10.0.1.1/24", "guid": "1"},
                {"name": "n1", "address": "10.0.2.1/24", "guid": "1"},
                {"name": "n2", "address": "10.0.3.1/24", "guid": "2"}]},
              {"name": "b", "nics": [
                {"name": "n0", "address": "10.0.1.2/24", "guid": "3"},
                {"name": "n1", "address": "10.0.2.2/24", "guid": "3"},
                {"name": "n2", "address": "10.0.3.2/24", "guid": "4"}]}],
    "links": [{"ends": ["a/n0", "b/n0"], "gbps": 10}, {"ends": ["a/n1", "b/n1"], "gbps": 10},
              {"ends": ["a/n2", "b/n2"], "gbps": 10}]})";
  count_ = 3;
  TransferPolicy policy;
  policy.inflight_us = 4000;
  bed_ = std::make_unique<Bed>(
      testkit::BedOptions{.fabric = kHalvesAndACable, .policy = policy, .rails = "auto"});
  bed_->tick_ns = 10'000;
  Talk halves = this->talk(0), cable = this->talk(2);
  const auto& of_halves = halves.pair.send->link;
  const auto& of_cable = cable.pair.send->link;
  EXPECT_EQ(of_halves.policy().qps, 2u);
  EXPECT_EQ(halves.pair.receive->link.policy().qps, 2u);
  EXPECT_EQ(of_cable.policy().qps, 4u);
  constexpr std::uint64_t kCarried = std::uint64_t{10'000} * 4000 / 8;
  EXPECT_EQ(of_cable.paths()[0].inflight_bytes_max, kCarried);
  EXPECT_EQ(of_halves.paths()[0].inflight_bytes_max, kCarried / 2);
  EXPECT_EQ(of_halves.paths()[1].inflight_bytes_max, kCarried / 2);
  cut_cable(*bed_, 2);
  cable.exchange(kMessageBytes);
  mend_cable(*bed_, 2);
  ASSERT_TRUE(settles(cable)) << log_.joined();
  cable.exchange(kMessageBytes);
  cable.end();
  end_all(halves);
}

// A rail fails to register the memory that a standby path needs.

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
    pair_ = testkit::connect(hosts_[0].member(), hosts_[1].member());
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
