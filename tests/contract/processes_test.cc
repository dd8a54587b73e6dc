// The contract between two processes, with both ways of copying.

#include "src/base/clock.h"
#include "tests/contract/contract_fixture.h"
#include "tests/contract/other_process.h"

#include <arpa/inet.h>

#include <cstring>
#include <memory>
#include <thread>

namespace mesh::contract {

namespace {

constexpr const char* kPair = R"({"name": "pair",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";

class TwoProcesses : public ::testing::TestWithParam<soft::CopyMode> {
 protected:
  void SetUp() override {
    soft::SoftOptions options;
    options.fabric = *soft::parse(kPair);
    options.copy = GetParam();
    options.host = "b";
    other_ = std::make_unique<OtherProcess>(options, pair_);  // forks: before we have a thread
    options.host = "a";
    Result<std::unique_ptr<soft::SoftProvider>> provider = soft::SoftProvider::open(std::move(options));
    ASSERT_TRUE(provider.ok());
    provider_ = std::move(*provider);
    ASSERT_TRUE(open_endpoint(ours_, *provider_, pair_));
    ASSERT_TRUE(other_->connect(name()));
    ASSERT_TRUE(connect_endpoint(ours_, other_->name().gid, other_->name().qp_num, pair_));
    for (std::size_t i = 0; i < ours_.memory.size(); ++i) ours_.memory[i] = expected_byte(1, i);
  }
  void TearDown() override { close_endpoint(ours_); }

  EndpointName name() const { return {ours_.gid.gid, ours_.qp->qp_num, ours_.mr->rkey, ours_.address()}; }
  SendRequest to_other(std::uint64_t wr_id, std::uint32_t bytes) const {
    SendRequest request = write_request(ours_, ours_, wr_id, bytes);
    request.wr.wr.rdma.remote_addr = other_->name().address;
    request.wr.wr.rdma.rkey = other_->name().rkey;
    return request;
  }
  bool poll_one(ibv_cq* cq, ibv_wc* wc, std::uint64_t patience_ns = 5'000'000'000) {
    const Clock clock;
    const std::uint64_t until_ns = clock.now_ns() + patience_ns;
    int found = 0;
    while (found == 0 && clock.now_ns() < until_ns) found = ibv_poll_cq(cq, 1, wc);
    return found == 1;
  }

  PairOptions pair_;
  std::unique_ptr<OtherProcess> other_;
  std::unique_ptr<soft::SoftProvider> provider_;
  Endpoint ours_;
};

TEST_P(TwoProcesses, BytesAndAnnouncementsArrive) {
  ASSERT_TRUE(other_->post_receives(10));
  for (const std::uint32_t bytes : {1u, 8u, 64u, 65u, 4096u, 65537u, 1u << 20, 3u << 20}) {
    SendRequest request = to_other(bytes, bytes);
    request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.wr.imm_data = htonl(bytes + 1);
    ASSERT_EQ(post(ours_, request), 0);
    ibv_wc wc{};
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    const ibv_wc announced = other_->next_receive();
    EXPECT_EQ(announced.byte_len, bytes);
    EXPECT_EQ(ntohl(announced.imm_data), bytes + 1);
    EXPECT_TRUE(other_->holds(1, bytes)) << bytes;
  }
}

TEST_P(TwoProcesses, BothDirectionsWork) {
  ASSERT_TRUE(other_->fill(9));
  ASSERT_EQ(post_receive(ours_, 1), 0);
  std::thread turner([&] {
    ibv_wc wc{};
    EXPECT_TRUE(poll_one(ours_.receive_cq, &wc));
    EXPECT_EQ(wc.byte_len, 300'000u);
    EXPECT_EQ(ntohl(wc.imm_data), 5u);
  });
  EXPECT_TRUE(other_->write(name(), 300'000, 5));
  turner.join();
  for (std::size_t i = 0; i < 300'000; ++i) ASSERT_EQ(ours_.memory[i], expected_byte(9, i));
  EXPECT_EQ(ours_.memory[300'000], expected_byte(1, 300'000));
}

TEST_P(TwoProcesses, ReadFetchesFromTheOtherProcess) {
  ASSERT_TRUE(other_->fill(4));
  SendRequest request = to_other(1, 1'000'003);
  request.wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post(ours_, request), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  for (std::size_t i = 0; i < 1'000'003; ++i) ASSERT_EQ(ours_.memory[i], expected_byte(4, i));
}

TEST_P(TwoProcesses, DeregisteredMemoryIsOutOfReach) {
  ASSERT_TRUE(other_->deregister());
  ASSERT_EQ(post(ours_, to_other(1, 4096)), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(TwoProcesses, KilledPeerEndsInRetryExceeded) {
  ASSERT_EQ(post(ours_, to_other(1, 64)), 0);
  ibv_wc wc{};
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  other_->kill();
  ASSERT_EQ(post(ours_, to_other(2, 1 << 20)), 0);
  ASSERT_EQ(post(ours_, to_other(3, 8)), 0);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(TwoProcesses, StoppedPeerIsWaitedFor) {
  other_->stop();
  ASSERT_EQ(post(ours_, to_other(1, 2 << 20)), 0);
  ibv_wc wc{};
  // Fifty times what a dead peer would get.
  EXPECT_FALSE(poll_one(ours_.send_cq, &wc, 100'000'000));
  other_->resume();
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(other_->holds(1, 2 << 20));
}

TEST_P(TwoProcesses, AgentTurnsForAProcessThatDoesNot) {
  ASSERT_TRUE(other_->nap());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(post(ours_, to_other(i, 100'000)), 0);
    ibv_wc wc{};
    ASSERT_TRUE(poll_one(ours_.send_cq, &wc)) << "message " << i;
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  ibv_wc wc{};
  EXPECT_FALSE(poll_one(ours_.send_cq, &wc, 250'000'000));  // meanwhile it falls asleep; only a doorbell wakes it
  ASSERT_EQ(post(ours_, to_other(99, 100'000)), 0);
  ASSERT_TRUE(poll_one(ours_.send_cq, &wc));
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

std::string mode_name(const ::testing::TestParamInfo<soft::CopyMode>& info) {
  return info.param == soft::CopyMode::Cells ? "Cells" : "Cma";
}

INSTANTIATE_TEST_SUITE_P(Copy, TwoProcesses, ::testing::Values(soft::CopyMode::Cma, soft::CopyMode::Cells), mode_name);

class Claims : public ::testing::Test {
 protected:
  static Result<std::unique_ptr<soft::SoftProvider>> open(const soft::FabricFile& fabric, const std::string& host) {
    soft::SoftOptions options;
    options.fabric = fabric;
    options.host = host;
    return soft::SoftProvider::open(std::move(options));
  }
};

TEST_F(Claims, AHostBelongsToOneProcessAtATime) {
  const soft::FabricFile fabric = *soft::parse(kPair);
  soft::SoftOptions options;
  options.fabric = fabric;
  options.host = "a";
  {
    OtherProcess other(options, {});
    ASSERT_NE(other.name().qp_num, 0u);
    EXPECT_EQ(open(fabric, "a").code(), Errc::Exhausted);
    Result<std::unique_ptr<soft::SoftProvider>> next = open(fabric, "");
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->host_name(), "b");
    EXPECT_EQ(open(fabric, "").code(), Errc::Exhausted) << "both are taken now";
  }
  EXPECT_TRUE(open(fabric, "a").ok()) << "free again";
  EXPECT_EQ(open(fabric, "zz").code(), Errc::NotFound);
}

}  // namespace

}  // namespace mesh::contract
