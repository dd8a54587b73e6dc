// Set-up calls that every provider must refuse, so that an application notices its mistakes.

#include "tests/contract/contract_fixture.h"

namespace mesh::contract {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceiveMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSendMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

class ContractSetUp : public Contract {
 protected:
  void open_both() {
    ASSERT_TRUE(open_endpoint(left_, left_host_, pair_options()));
    ASSERT_TRUE(open_endpoint(right_, right_host_, pair_options()));
  }
  ibv_ah_attr address_of_right() const {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = right_.gid.gid;
    attr.grh.sgid_index = static_cast<std::uint8_t>(left_.gid.index);
    attr.grh.hop_limit = 64;
    return attr;
  }
  ibv_qp_attr attributes(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess;
    attr.path_mtu = left_.mtu;
    attr.dest_qp_num = right_.qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr = address_of_right();
    attr.timeout = pair_options().timeout;
    attr.retry_cnt = pair_options().retry_count;
    attr.rnr_retry = 7;
    return attr;
  }
  ibv_qp* another_qp(const ibv_qp_cap& cap) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = left_.send_cq;
    init.recv_cq = left_.receive_cq;
    init.cap = cap;
    return left_.provider->create_qp(left_.pd, &init);
  }
  int modify(ibv_qp_attr attr, int mask) {
    return left_.provider->modify_qp(left_.qp, &attr, mask);
  }

  // Checks that the step to `state` needs each attribute of `mask` and refuses each of `foreign`,
  // then makes the step.
  void step(ibv_qp_state state, int mask, int foreign) {
    for (int bit = 1; bit < IBV_QP_RATE_LIMIT; bit <<= 1) {
      if (bit != IBV_QP_STATE && (mask & bit) != 0) {
        EXPECT_EQ(modify(attributes(state), mask & ~bit), EINVAL)
            << "state " << state << " without " << bit;
      }
      if ((foreign & bit) != 0) {
        EXPECT_EQ(modify(attributes(state), mask | bit), EINVAL)
            << "state " << state << " with " << bit;
      }
    }
    ASSERT_EQ(modify(attributes(state), mask), 0) << "state " << state;
  }
  // A value that the step to `state` must refuse by itself. The errno differs between providers.
  struct Spoiled {
    const char* what;
    void (*spoil)(ibv_qp_attr& attr);
  };
  void refuses(ibv_qp_state state, int mask, std::initializer_list<Spoiled> values) {
    for (const Spoiled& value : values) {
      ibv_qp_attr attr = attributes(state);
      value.spoil(attr);
      ASSERT_NE(modify(attr, mask), 0) << value.what;
    }
  }
};

TEST_P(ContractSetUp, EveryStepWantsItsAttributesAndNoOthers) {
  open_both();
  step(IBV_QPS_INIT, kInitMask, IBV_QP_TIMEOUT | IBV_QP_DEST_QPN | IBV_QP_QKEY);
  step(IBV_QPS_RTR, kReceiveMask, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | IBV_QP_PORT | IBV_QP_QKEY);
  step(IBV_QPS_RTS, kSendMask, IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_QKEY);
}

TEST_P(ContractSetUp, StepsAreTakenInOrder) {
  open_both();
  EXPECT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), EINVAL) << "from RESET";
  EXPECT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), EINVAL) << "from RESET";
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0);
  EXPECT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), EINVAL) << "from INIT";
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0) << "again";
  ASSERT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), 0);
  EXPECT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), EINVAL) << "from RTR";
  EXPECT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), EINVAL) << "from RTR";
  ASSERT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), 0);
  EXPECT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), EINVAL) << "from RTS";
  ASSERT_EQ(to_error(left_), 0);
  ASSERT_EQ(to_error(left_), 0) << "again";
  EXPECT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), EINVAL) << "from ERR";
  EXPECT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), EINVAL) << "from ERR";
  ASSERT_EQ(modify(attributes(IBV_QPS_RESET), IBV_QP_STATE), 0);
  EXPECT_EQ(to_error(left_), EINVAL) << "from RESET";
}

TEST_P(ContractSetUp, ValuesOutOfRangeAreRefused) {
  open_both();
  refuses(IBV_QPS_INIT, kInitMask,
          {{"port 0", [](ibv_qp_attr& attr) { attr.port_num = 0; }},
           {"port 2", [](ibv_qp_attr& attr) { attr.port_num = 2; }}});
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0);
  refuses(IBV_QPS_RTR, kReceiveMask,
          {{"GID index 255", [](ibv_qp_attr& attr) { attr.ah_attr.grh.sgid_index = 255; }},
           {"a GID index not in use", [](ibv_qp_attr& attr) { attr.ah_attr.grh.sgid_index = 14; }},
           {"no global route", [](ibv_qp_attr& attr) { attr.ah_attr.is_global = 0; }},
           {"the path's port 2", [](ibv_qp_attr& attr) { attr.ah_attr.port_num = 2; }},
           {"an MTU above the port's",
            [](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(attr.path_mtu + 1); }}});
  ASSERT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), 0);
  refuses(IBV_QPS_RTS, kSendMask,
          {{"timeout 32", [](ibv_qp_attr& attr) { attr.timeout = 32; }},
           {"255 reads by us", [](ibv_qp_attr& attr) { attr.max_rd_atomic = 255; }}});
  ASSERT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), 0);
}

TEST_P(ContractSetUp, CountsOutOfRangeAreRefused) {
  open_both();
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0);
  if (traits().checks_counts) {
    refuses(IBV_QPS_RTR, kReceiveMask,
            {{"255 reads from us", [](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = 255; }},
             {"RNR timer 32", [](ibv_qp_attr& attr) { attr.min_rnr_timer = 32; }}});
  }
  ASSERT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), 0);
  if (traits().checks_counts) {
    refuses(IBV_QPS_RTS, kSendMask,
            {{"retry count 8", [](ibv_qp_attr& attr) { attr.retry_cnt = 8; }},
             {"RNR retry count 8", [](ibv_qp_attr& attr) { attr.rnr_retry = 8; }}});
  }
  ASSERT_EQ(modify(attributes(IBV_QPS_RTS), kSendMask), 0);
}

TEST_P(ContractSetUp, QueuesBeyondTheDeviceAreRefused) {
  open_both();
  ibv_device_attr device{};
  ASSERT_EQ(left_.provider->query_device(left_.context, &device), 0);
  EXPECT_EQ(left_.provider->create_cq(left_.context, 0), nullptr);
  EXPECT_EQ(left_.provider->create_cq(left_.context, device.max_cqe + 1), nullptr);
  const auto wr_max = static_cast<std::uint32_t>(device.max_qp_wr),
             sge_max = static_cast<std::uint32_t>(device.max_sge);
  for (const ibv_qp_cap& cap :
       {ibv_qp_cap{wr_max + 1, 16, 4, 4, 64}, ibv_qp_cap{16, wr_max + 1, 4, 4, 64},
        ibv_qp_cap{16, 16, sge_max + 1, 4, 64}, ibv_qp_cap{16, 16, 4, sge_max + 1, 64},
        ibv_qp_cap{16, 16, 4, 4, 100'000}}) {
    EXPECT_EQ(another_qp(cap), nullptr);
  }
}

TEST_P(ContractSetUp, WhatIsInUseStays) {
  open_both();
  EXPECT_EQ(left_.provider->destroy_cq(left_.send_cq), EBUSY);
  EXPECT_EQ(left_.provider->dealloc_pd(left_.pd), EBUSY) << "a queue pair and a region";
  ibv_pd* const pd = left_.provider->alloc_pd(left_.context);
  ibv_mr* const mr = left_.provider->reg_mr(pd, left_.memory.data(), 1, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(left_.provider->dealloc_pd(pd), EBUSY) << "a region";
  EXPECT_EQ(left_.provider->dereg_mr(mr), 0);
  EXPECT_EQ(left_.provider->dealloc_pd(pd), 0);
}

TEST_P(ContractSetUp, RegionsNeedMemoryThatIsThere) {
  open_both();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped =
      ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(mapped);
  ASSERT_EQ(::munmap(bytes + page, page), 0);
  ASSERT_EQ(::mprotect(bytes + 2 * page, page, PROT_READ), 0);
  const auto granted = [&](void* address, std::size_t size, int access) {
    ibv_mr* const mr = left_.provider->reg_mr(left_.pd, address, size, access);
    EXPECT_TRUE(mr == nullptr || left_.provider->dereg_mr(mr) == 0);
    return mr != nullptr;
  };
  EXPECT_TRUE(granted(bytes, page, kAllAccess));
  EXPECT_TRUE(granted(bytes + page - 1, 1, kAllAccess));
  EXPECT_FALSE(granted(bytes + page - 1, 2, kAllAccess)) << "its second byte is not there";
  EXPECT_FALSE(granted(bytes + page, page, kAllAccess)) << "nothing of it is there";
  EXPECT_FALSE(granted(bytes, 3 * page, kAllAccess)) << "a hole in the middle";
  EXPECT_TRUE(granted(bytes + 2 * page, page, 0)) << "read-only, and nobody will write";
  EXPECT_EQ(granted(bytes + 2 * page, page, kAllAccess), !traits().sees_protection) << "read-only";
  EXPECT_FALSE(granted(bytes, page, IBV_ACCESS_REMOTE_WRITE)) << "remote writes need local ones";
  EXPECT_FALSE(granted(nullptr, page, kAllAccess));
  EXPECT_FALSE(granted(bytes, 0, kAllAccess));
  EXPECT_EQ(::munmap(bytes, 3 * page), 0);
}

TEST_P(ContractSetUp, PostingChecksWhatItIsGiven) {
  connect_pair();
  std::array<ibv_sge, 5> sges{};
  sges.fill({left_.address(), 8, left_.mr->lkey});
  SendRequest request = write_request(left_, right_, 1, 8);
  request.wr.sg_list = sges.data();
  request.wr.num_sge = 5;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(left_.qp, &request.wr, &bad), EINVAL) << "four elements were granted";
  EXPECT_EQ(bad, &request.wr);
  ibv_recv_wr receive{};
  receive.sg_list = sges.data();
  receive.num_sge = 5;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(left_.qp, &receive, &bad_receive), EINVAL)
      << "four elements were granted";
  EXPECT_EQ(bad_receive, &receive);
  std::uint32_t posted = 0;
  int error = 0;
  for (; posted < 1000 && error == 0; ++posted) error = post_receive(left_, posted);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_GT(posted, left_.cap.max_recv_wr);
  if (traits().exact_room) {
    EXPECT_EQ(posted, left_.cap.max_recv_wr + 1);
  }
}

// The test does not check whether a send that was refused for the state has an effect: soft-RoCE
// executes it later nevertheless.
TEST_P(ContractSetUp, SendsNeedRtsAndReceivesInit) {
  open_both();
  EXPECT_EQ(post(left_, write_request(left_, right_, 1, 8)), EINVAL) << "in RESET";
  EXPECT_EQ(post_receive(left_, 1), EINVAL) << "in RESET";
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0);
  EXPECT_EQ(post(left_, write_request(left_, right_, 2, 8)), EINVAL) << "in INIT";
  EXPECT_EQ(post_receive(left_, 2), 0) << "in INIT";
  ASSERT_EQ(modify(attributes(IBV_QPS_RTR), kReceiveMask), 0);
  EXPECT_EQ(post(left_, write_request(left_, right_, 3, 8)), EINVAL) << "in RTR";
  EXPECT_EQ(post_receive(left_, 3), 0) << "in RTR";
}

TEST_P(ContractSetUp, APeerThatConnectsLateIsWaitedFor) {
  open_both();
  PairOptions options = pair_options();
  options.timeout = 18;  // 1.07 s a try, eight tries: a test that stalls does not exhaust them
  options.retry_count = 7;
  ASSERT_TRUE(connect_endpoint(left_, right_.gid.gid, right_.qp->qp_num, options));
  ASSERT_EQ(post(left_, write_request(left_, right_, 1, 4096)), 0);
  EXPECT_TRUE(settle(left_.send_cq).empty());
  ASSERT_TRUE(connect_endpoint(right_, left_.gid.gid, left_.qp->qp_num, options));
  EXPECT_EQ(wait_one(left_.send_cq).status, IBV_WC_SUCCESS);
}

// No host has this address: the step to RTR fails at once, or when address resolution times out.
// InfiniBand does not resolve addresses.
TEST_P(ContractSetUp, APeerThatIsNotThereIsRefused) {
  open_both();
  ASSERT_EQ(modify(attributes(IBV_QPS_INIT), kInitMask), 0);
  ibv_qp_attr attr = attributes(IBV_QPS_RTR);
  attr.ah_attr.grh.dgid.raw[15] ^= 0x55;
  EXPECT_EQ(modify(attr, kReceiveMask), GetParam().traits.resolves_addresses ? ETIMEDOUT : 0);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Providers, ContractSetUp, ::testing::ValuesIn(provider_kinds()),
                         kind_name);

}  // namespace mesh::contract
