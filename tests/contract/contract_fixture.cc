#include "tests/contract/contract_fixture.h"

#include "src/base/clock.h"

namespace mesh::contract {
namespace {
constexpr std::uint64_t kPatienceNs = 50'000'000'000;
constexpr int kSettleRounds = 2000;
}  // namespace

void Contract::SetUp() {
  left_host_ = GetParam().open(Side::Left);
  right_host_ = GetParam().open(Side::Right);
  ASSERT_NE(left_host_.provider, nullptr);
  ASSERT_NE(right_host_.provider, nullptr);
}

void Contract::TearDown() {
  close_endpoint(left_);
  close_endpoint(right_);
}

void Contract::connect_pair(const PairOptions& options) {
  ASSERT_TRUE(open_endpoint(left_, left_host_, options));
  ASSERT_TRUE(open_endpoint(right_, right_host_, options));
  ASSERT_TRUE(connect_endpoints(left_, right_, options));
}

std::vector<ibv_wc>& Contract::seen(ibv_cq* cq) {
  if (cq == left_.send_cq) return seen_[0];
  if (cq == left_.receive_cq) return seen_[1];
  return cq == right_.send_cq ? seen_[2] : seen_[3];
}

void Contract::poll_both() {
  for (ibv_cq* cq : {left_.send_cq, left_.receive_cq, right_.send_cq, right_.receive_cq}) {
    if (cq == nullptr) continue;
    std::array<ibv_wc, 16> wc{};
    const int found = ibv_poll_cq(cq, static_cast<int>(wc.size()), wc.data());
    for (int i = 0; i < found; ++i) seen(cq).push_back(wc[static_cast<std::size_t>(i)]);
  }
}

std::vector<ibv_wc> Contract::wait(ibv_cq* cq, std::size_t count) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
  while (seen(cq).size() < count && clock.now_ns() < until_ns) poll_both();
  EXPECT_GE(seen(cq).size(), count) << "completions missing";
  return std::exchange(seen(cq), {});
}

ibv_wc Contract::wait_one(ibv_cq* cq) {
  const std::vector<ibv_wc> got = wait(cq, 1);
  EXPECT_EQ(got.size(), 1u);
  ibv_wc none{};
  none.status = IBV_WC_GENERAL_ERR;
  return got.size() == 1 ? got.front() : none;
}

std::vector<ibv_wc> Contract::settle(ibv_cq* cq) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + GetParam().traits.settle_ns;
  for (int round = 0; round < kSettleRounds || clock.now_ns() < until_ns; ++round) poll_both();
  return std::exchange(seen(cq), {});
}

}  // namespace mesh::contract
