// Threads wait for the device: the order of what they do.

#include "engine/data/device_work.h"

#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh::engine {
namespace {

// A move to ERR ends only when as many as `together` are under way.
class CountingDevice final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  int modify_qp(ibv_qp*, ibv_qp_attr*, int) override {
    stopping.fetch_add(1);
    EXPECT_TRUE(testkit::wait_until([this] { return stopping.load() >= together.load(); }));
    stopped.fetch_add(1);
    return 0;
  }
  int destroy_qp(ibv_qp* qp) override {
    EXPECT_EQ(stopped.load(), together.load());
    EXPECT_EQ(destroying.fetch_add(1), 0) << "one queue pair of a path at a time";
    const int error = PassingProvider::destroy_qp(qp);
    destroying.fetch_sub(1);
    destroyed.fetch_add(1);
    return error;
  }
  int dereg_mr(ibv_mr* mr) override {
    EXPECT_EQ(stopped.load(), together.load());
    deregistered.fetch_add(1);
    return PassingProvider::dereg_mr(mr);
  }

  std::atomic<int> together{0}, stopping{0}, stopped{0}, destroying{0}, destroyed{0},
      deregistered{0};
};

class DeviceWorkTest : public testing::Test {
 protected:
  static constexpr int kQueuePairs = 4;

  DeviceWorkTest() {
    for (verbs::QpHandle& qp : qps_) {
      ibv_qp_init_attr attr{};
      attr.send_cq = attr.recv_cq = cq_.get();
      attr.qp_type = IBV_QPT_RC;
      attr.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
      qp = verbs::QpHandle(device_, device_.create_qp(pd_.get(), &attr));
      EXPECT_TRUE(qp);
    }
  }

  CountingDevice device_{testkit::open_host(testkit::kCable, 0)};
  verbs::ContextHandle context_{device_, device_.open_device("n0")};
  verbs::PdHandle pd_{device_, device_.alloc_pd(context_.get())};
  verbs::CqHandle cq_{device_, device_.create_cq(context_.get(), 16)};
  std::array<verbs::QpHandle, kQueuePairs> qps_;
  std::atomic<int> answers_{0};
  DeviceWork work_{[this](const DeviceWork::Answer& answer) {
    EXPECT_EQ(answer.error, 0);
    answers_.fetch_add(1);
  }};
};

TEST_F(DeviceWorkTest, QueuePairsOfAPathAreStoppedTogetherAndThenDestroyedOneByOne) {
  work_.reserve(2 * kQueuePairs);
  device_.together.store(kQueuePairs);
  const int path = 0;
  for (verbs::QpHandle& qp : qps_) ASSERT_TRUE(work_.stop(qp.get(), device_, {.owner = &path}));
  for (verbs::QpHandle& qp : qps_) ASSERT_TRUE(work_.destroy(qp, {.owner = &path}));
  work_.wait_until_done();
  EXPECT_EQ(device_.destroyed.load(), kQueuePairs);
  EXPECT_EQ(answers_.load(), 2 * kQueuePairs);
}

TEST_F(DeviceWorkTest, WithoutThreadsEachTurnDoesOneTaskInTheirOrder) {
  work_.work_by_hand();
  const int path = 0, other = 0;
  ASSERT_TRUE(work_.destroy(qps_[2], {.owner = &other}));
  ASSERT_TRUE(work_.stop(qps_[0].get(), device_, {.owner = &path}));
  ASSERT_TRUE(work_.destroy(qps_[0], {.owner = &path}));
  EXPECT_EQ(answers_.load(), 0);
  EXPECT_TRUE(work_.has_work());
  EXPECT_TRUE(work_.turn());
  EXPECT_EQ(device_.destroyed.load(), 1);
  device_.together.store(1);
  EXPECT_TRUE(work_.turn());
  EXPECT_EQ(device_.stopped.load(), 1);
  EXPECT_EQ(device_.destroyed.load(), 1);
  work_.wait_until_done();
  EXPECT_EQ(device_.destroyed.load(), 2);
  EXPECT_EQ(answers_.load(), 3);
  EXPECT_FALSE(work_.has_work());
  EXPECT_FALSE(work_.turn());
}

TEST_F(DeviceWorkTest, MemoryIsDeregisteredWhenQueuePairsAreInErr) {
  device_.together.store(kQueuePairs);
  auto memory = std::make_shared<std::vector<std::byte>>(4096);
  const std::weak_ptr<std::vector<std::byte>> watch = memory;
  verbs::MrHandle region(
      device_, device_.reg_mr(pd_.get(), memory->data(), memory->size(), IBV_ACCESS_LOCAL_WRITE));
  ASSERT_TRUE(region);
  const int path = 0;
  ASSERT_TRUE(work_.stop(qps_[0].get(), device_, {.owner = &path}));
  std::shared_ptr<void> named = std::move(memory);
  ASSERT_TRUE(work_.deregister(region, named));
  EXPECT_EQ(named, nullptr);
  for (int i = 1; i < kQueuePairs; ++i) {
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(device_.deregistered.load(), 0);
    ASSERT_TRUE(work_.stop(qps_[static_cast<std::size_t>(i)].get(), device_, {.owner = &path}));
  }
  work_.wait_until_done();
  EXPECT_EQ(device_.deregistered.load(), 1);
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace mesh::engine
