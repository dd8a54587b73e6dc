#pragma once
// The contract suite's fixture: a connected pair, and short forms for posting to it and polling it.
// Thread: the test's.

#include "tests/contract/endpoint_pair.h"

#include "tests/prelude.h"

namespace mesh::contract {

inline std::string kind_name(const ::testing::TestParamInfo<ProviderKind>& info) {
  return info.param.name;
}

class Contract : public ::testing::TestWithParam<ProviderKind> {
 protected:
  void SetUp() override;
  void TearDown() override;
  void connect_pair(const PairOptions& options);
  void connect_pair() { connect_pair(pair_options()); }
  static PairOptions pair_options() { return GetParam().pair_options(); }
  static const Traits& traits() { return GetParam().traits; }

  // Polls both sides until `cq` has given `count` completions or a time bound has passed. The size
  // of the result tells which.
  std::vector<ibv_wc> wait(ibv_cq* cq, std::size_t count);
  ibv_wc wait_one(ibv_cq* cq);  // its status is an error if none or several have come
  // Polls both sides for a while and returns the completions that `cq` gave.
  std::vector<ibv_wc> settle(ibv_cq* cq);
  void poll_both();  // puts the completions into seen_
  std::vector<ibv_wc>& seen(ibv_cq* cq);

  Host left_host_, right_host_;
  Endpoint left_, right_;
  std::vector<ibv_wc> seen_[4];
};

}  // namespace mesh::contract
