// A loop with many completion queues, as a context with many peers has. A test of one request polls
// only a few of them, and each gets its turn.
#include "engine/data/progress_loop.h"
#include "engine/data/progress_loop_datapath.h"
#include "tests/prelude.h"
#include "tests/unit/engine/data/nobody.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::engine {
namespace {

constexpr std::size_t kQueues = 9;  // one for each queue pair of the link

// Counts the polls of each completion queue. All queues stay empty.
class CountedQueues : public verbs::testkit::FakeProvider {
 public:
  CountedQueues() {
    data_path.ops.poll_cq = [](ibv_cq* cq, int, ibv_wc*) {
      ++*static_cast<int*>(cq->cq_context);
      return 0;
    };
  }
  ibv_cq* create_cq(ibv_context*, int) override {
    ibv_cq& made = queues_.at(made_);
    made.context = &data_path;
    made.cq_context = &polls[made_++];
    return &made;
  }
  int sum() const { return std::accumulate(polls.begin(), polls.end(), 0); }

  std::array<int, kQueues> polls{};

 private:
  std::array<ibv_cq, kQueues> queues_{};
  std::size_t made_ = 0;
};

class ManyQueues : public testing::Test {
 protected:
  ManyQueues() {
    rail_.info.name = "n0:1";
    const TransferPolicy policy{.qps = kQueues - 1};
    rail_.cq_entries_max = static_cast<int>(policy.sq_depth + policy.rq_depth);
    loop_.devices.push_back(std::make_unique<DeviceContext>(provider_, rail_, 0));
    EXPECT_TRUE(loop_.devices[0]->open().ok());
    link_ = std::make_unique<PeerLink>(
        loop_, owner_, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "far"}, policy);
    EXPECT_TRUE(
        link_->paths().make(link_->paths().add_primary(*loop_.devices[0], {}, "path")).ok());
    const ProgressLoop::Guard progress_lock(loop_);
    link_->paths().order();
    channel_ = link_->channels().add_receiver(0, 1, records_.data());
    channel_->set_credits({});
    provider_.polls.fill(0);
  }
  ~ManyQueues() override {
    const ProgressLoop::Guard progress_lock(loop_);
    link_->destroy_queue_pairs();
  }

  testkit::NoWaker waker_;
  testkit::NoOwner owner_;
  CountedQueues provider_;
  verbs::Rail rail_;
  ProgressLoop loop_{waker_};
  std::unique_ptr<PeerLink> link_;
  std::vector<Record> records_ = std::vector<Record>(TransferPolicy{}.slots);
  RecvChannel* channel_ = nullptr;
};

TEST_F(ManyQueues, ATestPollsWhatItAsksAboutAndAFewOfTheOthersInTurns) {
  constexpr int kTests = 20;
  for (int i = 0; i < kTests; ++i) ASSERT_TRUE(loop_.try_turn(channel_));
  EXPECT_EQ(provider_.sum(), 3 * kTests) << "three queues a test";
  EXPECT_GE(provider_.polls[0], kTests) << "the channel's own in every test";
  EXPECT_GE(*std::min_element(provider_.polls.begin(), provider_.polls.end()),
            2 * kTests / static_cast<int>(kQueues))
      << "no queue is forgotten";
}

TEST_F(ManyQueues, ATurnOfNobodysPollsAll) {
  loop_.try_turn();
  for (const int polls : provider_.polls) EXPECT_EQ(polls, 1);
}

TEST_F(ManyQueues, AChannelWhosePathIsGonePollsTheOthers) {
  {
    const ProgressLoop::Guard progress_lock(loop_);
    link_->quarantine(link_->paths()[0], "the cable was pulled");
    link_->paths()[0].stop();
    EXPECT_TRUE(link_->account_lost(link_->paths()[0], std::vector<std::uint64_t>(kQueues)));
    link_->paths().destroy(link_->paths()[0]);
  }
  provider_.polls.fill(0);
  ASSERT_TRUE(loop_.try_turn(channel_));
  EXPECT_EQ(provider_.sum(), 2);
}

}  // namespace
}  // namespace mesh::engine
