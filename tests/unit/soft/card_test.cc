// A card that is gone from its slot, and another one that comes into it.
#include "src/soft/nic.h"
#include "tests/prelude.h"
#include "tests/unit/soft/manual_fabric.h"

namespace mesh::soft {
namespace {

using contract::Endpoint;

constexpr std::uint64_t kAwayNs = 1'000'000;
const Fault kReplaced{.kind = FaultKind::CardReplaced};

// Destroys what an endpoint on a card that has left has made: each call answers EIO, and nothing
// leaks, which the sanitizers would tell.
void give_up(Endpoint& endpoint) {
  verbs::Provider& provider = *endpoint.provider;
  EXPECT_EQ(provider.destroy_qp(endpoint.qp), EIO);
  EXPECT_EQ(provider.dereg_mr(endpoint.mr), EIO);
  EXPECT_EQ(provider.destroy_cq(endpoint.send_cq), EIO);
  EXPECT_EQ(provider.destroy_cq(endpoint.receive_cq), EIO);
  EXPECT_EQ(provider.dealloc_pd(endpoint.pd), EIO);
  EXPECT_EQ(provider.close_device(endpoint.context), 0);
  endpoint = Endpoint{};
}

class Cards : public testing::Test {
 protected:
  ~Cards() override {
    for (Endpoint& each : fabric_.left)
      if (each.context != nullptr) give_up(each);
  }

  void take_card() {
    ASSERT_TRUE(fabric_.a->faults().arm(kReplaced, fabric_.now_ns()).ok());
    fabric_.run(fabric_.now_ns() + kAwayNs);
  }
  void bring_new_card() {
    fabric_.a->faults().lift(kReplaced);
    fabric_.run(fabric_.now_ns() + kAwayNs);
  }

  ManualFabric fabric_{"", 2};
};

// As a socket dies with its net device.
TEST_F(Cards, DatagramsOfACardThatLeftAreOverAlsoWhenANewOneIsThere) {
  const auto open = [](soft::SoftProvider& host, const Endpoint& at) {
    return host.open_datagrams(at.context, at.gid, verbs::DatagramEnd::Port);
  };
  const auto old = open(*fabric_.a, fabric_.left[0]), other = open(*fabric_.b, fabric_.right[0]);
  EXPECT_TRUE(old->refresh());
  take_card();
  bring_new_card();
  EXPECT_FALSE(old->refresh());
  EXPECT_TRUE(other->refresh());
  const std::array<std::byte, 1> word{std::byte{1}};
  old->send(other->place(), word);
  EXPECT_FALSE(other->next().has_value());
  other->send(old->place(), word);
  EXPECT_FALSE(old->next().has_value());
}

TEST_F(Cards, EachCallOnTheContextOfACardThatLeftAnswersEioAlsoWhenANewOneIsThere) {
  Endpoint& old = fabric_.left[0];
  take_card();
  for (const bool back : {false, true}) {
    if (back) bring_new_card();
    ibv_device_attr device{};
    ibv_port_attr port{};
    ibv_qp_attr to_error{};
    to_error.qp_state = IBV_QPS_ERR;
    std::uint16_t pkey = 0;
    EXPECT_EQ(fabric_.a->query_device(old.context, &device), EIO);
    EXPECT_EQ(fabric_.a->query_port(old.context, 1, &port), EIO);
    EXPECT_EQ(fabric_.a->query_pkey(old.context, 1, 0, &pkey), EIO);
    EXPECT_TRUE(fabric_.a->gids(old.context, 1).empty());
    EXPECT_EQ(fabric_.a->open_datagrams(old.context, old.gid, verbs::DatagramEnd::Port), nullptr);
    EXPECT_EQ(fabric_.a->modify_qp(old.qp, &to_error, IBV_QP_STATE), EIO);
    EXPECT_EQ(fabric_.write(0, 1, 64), EIO);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(old.qp, &receive, &bad), EIO);
    EXPECT_EQ(bad, &receive);
    ibv_wc completion{};
    EXPECT_LT(ibv_poll_cq(old.send_cq, 1, &completion), 0);
    ibv_qp_init_attr init{};
    const auto refuses = [](const void* made) { return made == nullptr && errno == EIO; };
    EXPECT_TRUE(refuses(fabric_.a->alloc_pd(old.context)));
    EXPECT_TRUE(refuses(fabric_.a->create_cq(old.context, 8)));
    EXPECT_TRUE(refuses(fabric_.a->reg_mr(old.pd, old.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE)));
    EXPECT_TRUE(refuses(fabric_.a->reg_dmabuf_mr(old.pd, {}, IBV_ACCESS_LOCAL_WRITE)));
    EXPECT_TRUE(refuses(fabric_.a->create_qp(old.pd, &init)));
  }
}

TEST_F(Cards, TheSlotIsEmptyUntilTheNewCardIsThere) {
  const auto device = [this] { return fabric_.a->devices(); };
  ASSERT_EQ(device().size(), 1u);
  const std::string name = device().front().name;
  take_card();
  EXPECT_TRUE(device().empty());
  EXPECT_EQ(fabric_.a->open_device(name), nullptr);
  EXPECT_EQ(errno, ENODEV);
  bring_new_card();
  ASSERT_EQ(device().size(), 1u);
  EXPECT_EQ(device().front().name, name);
}

TEST_F(Cards, ADeviceThatLeavesSaysSoOnceAndNothingAfterwards) {
  take_card();
  bring_new_card();
  for (const Endpoint& old : fabric_.left) {
    verbs::DeviceEvent event;
    ASSERT_TRUE(fabric_.a->next_event(old.context, &event));
    EXPECT_EQ(event.kind, verbs::DeviceEventKind::DeviceFatal);
    EXPECT_FALSE(fabric_.a->next_event(old.context, &event)) << "it hears of the new card";
  }
}

TEST_F(Cards, WhatGoesToACardThatLeftRunsOutOfItsRetries) {
  Endpoint& peer = fabric_.right[0];
  const std::uint32_t key = fabric_.left[0].mr->rkey;
  take_card();
  bring_new_card();
  contract::SendRequest request = write_request(peer, fabric_.left[0], 1, 64);
  request.wr.wr.rdma.rkey = key;
  ASSERT_EQ(post(peer, request), 0);
  fabric_.run(fabric_.now_ns() + 1'000'000'000);
  ibv_wc completion{};
  ASSERT_EQ(ibv_poll_cq(peer.send_cq, 1, &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Cards, CompletionsThatTheCardHasBroughtCanStillBePolled) {
  ASSERT_EQ(fabric_.announce(0, 7, 64), 0);
  for (int turn = 0; turn < 100; ++turn) {
    fabric_.b->turn();
    fabric_.a->turn();
  }
  take_card();
  EXPECT_EQ(fabric_.sent[0].size(), 1u);
  ibv_wc completion{};
  EXPECT_LT(ibv_poll_cq(fabric_.left[0].send_cq, 1, &completion), 0);
}

TEST_F(Cards, AContextThatIsOpenedOnTheNewCardWorksAndHasKeysOfItsOwn) {
  take_card();
  bring_new_card();
  const std::uint32_t old_key = fabric_.left[0].mr->rkey, old_qp = fabric_.left[0].qp->qp_num;
  give_up(fabric_.left[0]);
  close_endpoint(fabric_.right[0]);
  Endpoint &left = fabric_.left[0], &right = fabric_.right[0];
  ASSERT_TRUE(open_pair(left, *fabric_.a, right, *fabric_.b));
  EXPECT_NE(left.mr->rkey, old_key);
  EXPECT_NE(left.qp->qp_num, old_qp);
  ASSERT_EQ(fabric_.announce(0, 7, 4096), 0);
  fabric_.run();
  ASSERT_EQ(fabric_.sent[0].size(), 1u);
  EXPECT_EQ(fabric_.sent[0][0].wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(fabric_.received[0].size(), 1u);
  close_endpoint(left);
}

TEST_F(Cards, ACardThatIsReplacedAgainLeavesForGoodEachTime) {
  for (int times = 0; times < 3; ++times) {
    take_card();
    bring_new_card();
    give_up(fabric_.left[1]);
    ASSERT_TRUE(open_endpoint(fabric_.left[1], *fabric_.a, contract::PairOptions{}));
    ibv_port_attr port{};
    EXPECT_EQ(fabric_.a->query_port(fabric_.left[1].context, 1, &port), 0);
    EXPECT_EQ(fabric_.a->query_port(fabric_.left[0].context, 1, &port), EIO);
  }
  close_endpoint(fabric_.left[1]);
}

}  // namespace
}  // namespace mesh::soft
