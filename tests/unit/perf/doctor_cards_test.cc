// mesh_doctor beside a card that answers no command: it names the card and the call, and does not
// wait for it.
#include "perf/mesh_doctor/card_calls.h"

#include "perf/mesh_doctor/checks.h"
#include "src/base/clock.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/perf/planted_host.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::doctor {
namespace {

using verbs::testkit::device, verbs::testkit::ethernet_port, verbs::testkit::gid_of;

constexpr std::uint64_t kPatienceNs = kNsPerSecond / 2;

// Cards of which some hang in ibv_alloc_pd until the test heals them.
class SickCards : public verbs::testkit::FakeProvider {
 public:
  std::set<std::string> hang;

  void heal() { healed_.set_value(); }

  ibv_context* open_device(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    ibv_context* const context = FakeProvider::open_device(name);
    if (hang.contains(name)) hanging_.insert(context);
    return context;
  }
  int close_device(ibv_context* context) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::close_device(context);
  }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::query_device(context, attr);
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::query_port(context, port, attr);
  }
  ibv_pd* alloc_pd(ibv_context* context) override {
    const auto hangs = [&] {
      const std::lock_guard lock(mutex_);
      return hanging_.contains(context);
    };
    if (hangs()) healthy_.wait();
    return FakeProvider::alloc_pd(context);
  }
  int dealloc_pd(ibv_pd* domain) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::dealloc_pd(domain);
  }

  ibv_cq* create_cq(ibv_context* context, int entries) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::create_cq(context, entries);
  }
  int destroy_cq(ibv_cq* queue) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::destroy_cq(queue);
  }
  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attr) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::create_qp(domain, attr);
  }
  int destroy_qp(ibv_qp* queue_pair) override {
    const std::lock_guard lock(mutex_);
    return FakeProvider::destroy_qp(queue_pair);
  }

 private:
  std::mutex mutex_;
  std::set<const ibv_context*> hanging_;
  std::promise<void> healed_;
  std::shared_future<void> healthy_ = healed_.get_future().share();
};

class DoctorCards : public testing::Test {
 protected:
  DoctorCards() {
    cards_->fakes.push_back(device("mlx5_0", {ethernet_port({gid_of(3, "10.0.12.1")})}));
    cards_->fakes.push_back(device("mlx5_1", {ethernet_port({gid_of(3, "10.0.13.1")}),
                                              ethernet_port({gid_of(3, "10.0.14.1")})}));
    cards_->fakes.push_back(device("mlx5_2", {ethernet_port({gid_of(3, "10.0.15.1")})}));
  }
  // The threads of silent cards end, and with them the last use of the provider.
  ~DoctorCards() override {
    cards_->heal();
    EXPECT_TRUE(testkit::wait_until([this] { return cards_.use_count() == 1; }));
    EXPECT_EQ(cards_->open_now, 0);
  }
  CardAnswers ask(std::set<std::string> hang, const std::string& hca = "") {
    cards_->hang = std::move(hang);
    Settings settings;
    settings.hca = hca;
    return ask_cards(cards_, settings, kPatienceNs);
  }

  std::shared_ptr<SickCards> cards_ = std::make_shared<SickCards>();
};

TEST_F(DoctorCards, HealthyCardsAllAnswer) {
  const CardAnswers answers = ask({});
  EXPECT_TRUE(answers.silent.empty());
  EXPECT_EQ(answers.hca, "=mlx5_0:1,mlx5_1:1,mlx5_1:2,mlx5_2:1");
  EXPECT_EQ(cards_->asked.size(), 3u) << "each for a queue pair, too";
  EXPECT_EQ(cards_.use_count(), 1) << "the plugin opens one of its own now";
}

TEST_F(DoctorCards, OnesThatHangAreNamedWithTheirCallAndAreAskedSideBySide) {
  const std::uint64_t began_ns = Clock().now_ns();
  const CardAnswers answers = ask({"mlx5_0", "mlx5_2"});
  EXPECT_LT(Clock().now_ns() - began_ns, 2 * kPatienceNs);
  ASSERT_EQ(answers.silent.size(), 2u);
  EXPECT_EQ(answers.silent[0].card, "mlx5_0");
  EXPECT_EQ(answers.silent[0].call, "ibv_alloc_pd");
  EXPECT_EQ(answers.silent[0].waited_ms, 500);
  EXPECT_EQ(answers.silent[1].card, "mlx5_2");
  EXPECT_EQ(answers.hca, "=mlx5_1:1,mlx5_1:2");
}

TEST_F(DoctorCards, OneThatNcclIbHcaLeavesOutIsNotAsked) {
  const CardAnswers answers = ask({"mlx5_0"}, "mlx5_1:2:4,mlx5_2");
  EXPECT_TRUE(answers.silent.empty());
  EXPECT_EQ(answers.hca, "=mlx5_1:2:4,mlx5_2:1");
}

TEST_F(DoctorCards, WhereNoneAnswersNoneIsLeft) {
  const CardAnswers answers = ask({"mlx5_0", "mlx5_1", "mlx5_2"});
  EXPECT_EQ(answers.silent.size(), 3u);
  EXPECT_EQ(answers.hca, "");
}

TEST(DoctorCardFacts, ASilentCardIsTheOnlyFindingAboutItsPorts) {
  for (const bool others : {true, false}) {
    PlantedHost host;
    host.unseen = {"rocep1s0f0:1"};
    if (!others) host.unseen = {"rocep1s0f0:1", "rocep1s0f1:1", "roceP2p1s0f0:1", "roceP2p1s0f1:1"};
    HostFacts facts = host.facts();
    facts.silent = {{.card = "rocep1s0f0", .call = "ibv_query_port", .waited_ms = 10000}};
    if (!others) facts.plugin.clear();  // it was not started
    const std::vector<Finding> found = check_host(facts);
    ASSERT_EQ(names_of(found), std::vector<std::string>{"card-silent"}) << others;
    EXPECT_EQ(found[0].about, "rocep1s0f0");
    EXPECT_EQ(found[0].evidence, "rocep1s0f0 has not answered ibv_query_port in 10000 ms.");
    EXPECT_NE(found[0].remedy.find("NCCL_IB_HCA=^=rocep1s0f0"), std::string::npos);
  }
}

}  // namespace
}  // namespace mesh::doctor
