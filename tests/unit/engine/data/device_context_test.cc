// Draining takes all completions of a completion queue, even if the queue is entirely full. A
// queue pair does not join a completion queue that fails while the queue pair is made.
#include "engine/data/device_context.h"

#include "engine/data/progress_loop.h"
#include "engine/data/progress_loop_datapath.h"
#include "src/verbs/port_view.h"
#include "tests/prelude.h"
#include "tests/unit/engine/data/nobody.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::engine {
namespace {

// A provider with one completion queue that holds `left` completions.
class FullQueue : public verbs::testkit::FakeProvider {
 public:
  FullQueue() {
    data_path.ops.poll_cq = [](ibv_cq* cq, int most, ibv_wc* completions) {
      auto& there = *static_cast<int*>(cq->cq_context);
      const int taken = std::min(most, there);
      there -= taken;
      ibv_wc nobodys{};  // from an earlier life of the first queue pair's index
      nobodys.wr_id = wr_id_base(0, 0x7fff);
      std::fill_n(completions, taken, nobodys);
      return taken;
    };
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    entries_made = entries;
    ibv_cq* const cq = FakeProvider::create_cq(context, entries);
    cq->cq_context = &left;
    return cq;
  }

  int left = 0, entries_made = 0;
};

TEST(DeviceContextTest, DrainTakesAllOfAQueueThatIsEntirelyFull) {
  FullQueue provider;
  verbs::Rail rail;
  rail.info.name = "n0:1";
  rail.cq_entries_max = 1039;  // not a multiple of the completions that one poll takes
  testkit::NoWaker waker;
  testkit::NoOwner owner;
  ProgressLoop loop(waker);
  loop.devices.push_back(std::make_unique<DeviceContext>(provider, rail, 0));
  ASSERT_TRUE(loop.devices[0]->open().ok());
  PeerLink link(loop, owner, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "far"},
                {.qps = 1});
  ASSERT_TRUE(link.paths().make(link.paths().add_primary(*loop.devices[0], {}, "path")).ok());
  ASSERT_EQ(provider.entries_made, 1039);
  provider.left = provider.entries_made;
  const ProgressLoop::Guard progress_lock(loop);
  PeerLink other(loop, owner, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "other"}, {});
  other.paths().drain_completions();
  EXPECT_EQ(provider.left, provider.entries_made) << "it has no queue pair there";
  link.paths().drain_completions();
  EXPECT_EQ(provider.left, 0);
  link.destroy_queue_pairs();
}

// A provider whose card may have left, or may refuse completion queues, with the same error.
class LeavingCard : public verbs::testkit::FakeProvider {
 public:
  enum class Card : std::uint8_t { There, Refuses, Left };

  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return card == Card::There ? FakeProvider::create_cq(context, entries) : null();
  }
  ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) override {
    return card == Card::There ? FakeProvider::reg_mr(domain, address, bytes, access) : null();
  }
  int query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) override {
    *attr = {};
    attr->state = IBV_PORT_ACTIVE;
    return card == Card::Left ? EIO : 0;
  }
  std::uint32_t port_speed_mbps(ibv_context*, std::uint8_t) override { return 0; }
  std::vector<verbs::GidEntry> gids(ibv_context*, std::uint8_t) override { return {}; }

  Card card = Card::There;

 private:
  static std::nullptr_t null() {
    errno = EIO;
    return nullptr;
  }
};

// The view of the port still shows what was there before: no event has come.
TEST(DeviceContextTest, ACallThatFailsAsksThePortWhetherTheCardIsThere) {
  using Card = LeavingCard::Card;
  const auto fails = [](DeviceContext& device, bool registers) {
    std::byte byte{};
    if (registers) return device.register_range(&byte, 1, 0).get() == nullptr;
    return device.make_queue(16).get() == nullptr;
  };
  for (const bool registers : {false, true}) {
    for (const Card card : {Card::Refuses, Card::Left}) {
      LeavingCard provider;
      std::array<verbs::Rail, 1> rails;
      verbs::keep_views(rails);
      DeviceContext device(provider, rails[0], 0);
      ASSERT_TRUE(device.open().ok());
      provider.card = card;
      EXPECT_TRUE(fails(device, registers));
      EXPECT_EQ(errno, EIO);
      EXPECT_EQ(device.gone(), card == Card::Left);
    }
  }
}

// Each completion queue is another one.
class ManyCqs : public verbs::testkit::FakeProvider {
 public:
  ibv_cq* create_cq(ibv_context*, int) override {
    ibv_cq& made = cqs.at(count++);
    made.context = &data_path;
    return &made;
  }

  std::array<ibv_cq, 4> cqs{};
  std::size_t count = 0;
};

// Does something once, when somebody has let go of the progress lock.
class ActsBetweenGuards : public testkit::NoWaker {
 public:
  void guard_ended() noexcept override {
    if (const auto act = std::exchange(next, nullptr)) act();
  }

  std::function<void()> next;
};

TEST(DeviceContextTest, QueuePairDoesNotJoinAQueueThatFailsMeanwhile) {
  ManyCqs provider;
  verbs::Rail rail;
  rail.info.name = "n0:1";
  rail.cq_entries_max = 1 << 20;
  ActsBetweenGuards waker;
  testkit::NoOwner owner;
  ProgressLoop loop(waker);
  loop.devices.push_back(std::make_unique<DeviceContext>(provider, rail, 0));
  DeviceContext& device = *loop.devices[0];
  ASSERT_TRUE(device.open().ok());
  PeerLink first(loop, owner, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "first"},
                 {.qps = 1});
  ASSERT_TRUE(first.paths().make(first.paths().add_primary(device, {}, "path")).ok());
  ASSERT_EQ(provider.count, 1u);
  {
    const ProgressLoop::Guard progress_lock(loop);
    first.destroy_queue_pairs();
  }
  PeerLink second(loop, owner, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "second"},
                  {.qps = 1});
  Path& path = second.paths().add_primary(device, {}, "path");
  waker.next = [&] {
    const ProgressLoop::Guard progress_lock(loop);
    device.on_queue_failed(provider.cqs.data(), loop);
  };
  EXPECT_FALSE(second.paths().make(path).ok());
  EXPECT_FALSE(waker.next) << "the queue has failed";
  EXPECT_EQ(device.queue_pair_count(), 0u);
  EXPECT_TRUE(second.paths().make(path).ok());
  EXPECT_EQ(provider.count, 2u) << "the next one gets a queue that works";
  EXPECT_EQ(device.queue_pair_count(), path.queue_pairs.size());
  const ProgressLoop::Guard progress_lock(loop);
  second.destroy_queue_pairs();
}

}  // namespace
}  // namespace mesh::engine
