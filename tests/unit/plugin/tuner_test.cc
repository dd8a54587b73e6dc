#include "plugin/tuner.h"

#include "tests/unit/plugin/one_shot_test.h"

namespace mesh::plugin {
namespace {

constexpr std::size_t kBound = 65536;
constexpr int kProtocols = 3;

// NCCL's table: tree, ring, CollNet direct and chain, NVLS, NVLS tree, PAT.
struct Table {
  Table() {
    costs.fill(-1);
    at(1, 0) = 38;
    at(NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE) = 14;
  }
  float& at(int algorithm, int protocol) {
    return costs[static_cast<std::size_t>(algorithm) * kProtocols +
                 static_cast<std::size_t>(protocol)];
  }
  float chain() { return at(NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE); }
  tuner::Costs view() { return {costs.data(), 7, kProtocols}; }

  std::array<float, 21> costs{};
};

class Tuner : public OneShotTest {
 protected:
  void SetUp() override {
    OneShotTest::SetUp();
    begin();
    ASSERT_EQ(tuner::init({.id = &kComm, .hosts = 3, .cuts_chunks = true}, &tuner_), ncclSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(tuner::finalize(tuner_), ncclSuccess);
    end();
    OneShotTest::TearDown();
  }
  static constexpr tuner::Message kFits{NCCL_FUNC_ALL_REDUCE, kBound};
  static constexpr tuner::Message kSmall{NCCL_FUNC_ALL_REDUCE, 4096};
  static constexpr tuner::Message kLarge{NCCL_FUNC_ALL_REDUCE, kBound + 1};

  void* tuner_ = nullptr;
};

TEST_F(Tuner, UpToTheBoundTheCollNetIsCheapest) {
  Table table;
  EXPECT_EQ(tuner::choose(tuner_, kFits, table.view()), ncclSuccess);
  EXPECT_EQ(table.chain(), 0);
  EXPECT_EQ(table.at(1, 0), 38) << "others stay";
}

TEST_F(Tuner, AboveTheBoundItIsNoChoice) {
  Table table;
  EXPECT_EQ(tuner::choose(tuner_, kLarge, table.view()), ncclSuccess);
  EXPECT_EQ(table.chain(), NCCL_ALGO_PROTO_IGNORE);
  EXPECT_EQ(table.at(1, 0), 38);
}

TEST_F(Tuner, WhereNcclsOwnIsFasterItIsNoChoice) {
  Table table;
  EXPECT_EQ(tuner::choose(tuner_, kSmall, table.view()), ncclSuccess);
  EXPECT_EQ(table.chain(), NCCL_ALGO_PROTO_IGNORE);
  EXPECT_EQ(table.at(1, 0), 38);
}

// NCCL_ALGO=allreduce:CollnetChain leaves nothing else.
TEST_F(Tuner, TheOnlyChoiceStays) {
  for (const tuner::Message& message : {kSmall, kLarge}) {
    Table table;
    table.at(1, 0) = -1;
    EXPECT_EQ(tuner::choose(tuner_, message, table.view()), ncclSuccess);
    EXPECT_EQ(table.chain(), 14);
  }
}

TEST_F(Tuner, WhatNcclDoesNotOfferIsNotOffered) {
  Table table;
  table.at(NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE) = -1;
  EXPECT_EQ(tuner::choose(tuner_, kFits, table.view()), ncclSuccess);
  EXPECT_EQ(table.chain(), -1);
}

TEST_F(Tuner, OtherOperationsAndOtherCommunicatorsAreLeftAlone) {
  const auto untouched = [](void* context, const tuner::Message& message) {
    Table table;
    const auto before = table.costs;
    EXPECT_EQ(tuner::choose(context, message, table.view()), ncclSuccess);
    std::size_t chunk = 32768;
    EXPECT_EQ(tuner::cut(context, message, {NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE, 1}, &chunk),
              ncclSuccess);
    return table.costs == before && (chunk == 32768 || message.bytes > kBound);
  };
  for (int function = 0; function < NCCL_FUNC_ALL_REDUCE; ++function)
    EXPECT_TRUE(untouched(tuner_, {function, 8}));
  constexpr std::uint64_t kOther = kComm + 1;  // on another net of NCCL's
  void* other = nullptr;
  ASSERT_EQ(tuner::init({.id = &kOther, .hosts = 3}, &other), ncclSuccess);
  EXPECT_TRUE(untouched(other, {NCCL_FUNC_ALL_REDUCE, 8}));
  EXPECT_TRUE(untouched(other, kLarge));
  EXPECT_TRUE(untouched(nullptr, kLarge)) << "there was no memory for a tuner";
  EXPECT_EQ(tuner::finalize(other), ncclSuccess);
}

// NCCL 2.19 to 2.23 have fewer algorithms.
TEST_F(Tuner, ATableWithoutCollNetIsNotRead) {
  Table table;
  table.at(0, 0) = 1;
  EXPECT_EQ(tuner::choose(tuner_, kLarge, {table.costs.data(), 3, kProtocols}), ncclSuccess);
  EXPECT_EQ(table.chain(), 14);
}

TEST_F(Tuner, ChunksOfTheCollNetAreCutToTheMessage) {
  std::size_t chunk = 32768;
  EXPECT_EQ(tuner::cut(tuner_, {NCCL_FUNC_ALL_REDUCE, 1000},
                       {NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE, 1}, &chunk),
            ncclSuccess);
  EXPECT_EQ(chunk, 1024u);
  chunk = 32768;
  EXPECT_EQ(tuner::cut(tuner_, {NCCL_FUNC_ALL_REDUCE, 1000}, {1, NCCL_PROTO_SIMPLE, 1}, &chunk),
            ncclSuccess);
  EXPECT_EQ(chunk, 32768u) << "a ring's";
}

}  // namespace
}  // namespace mesh::plugin
