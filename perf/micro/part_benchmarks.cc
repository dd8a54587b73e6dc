// The pure parts of a message's way: how it is cut, its credit row, its work requests.
#include "engine/stripe.h"
#include "engine/wire.h"
#include "src/verbs/wr_chain.h"

#include <benchmark/benchmark.h>

namespace mesh::micro {

namespace {

void stripe_plan(benchmark::State& state) {
  const TransferPolicy policy;
  auto bytes = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    benchmark::DoNotOptimize(engine::plan_stripes(bytes, policy, policy.qps));
  }
}
BENCHMARK(stripe_plan)->ArgName("bytes")->Arg(8)->Arg(65536)->Arg(1 << 20)->Arg(1 << 30);

engine::Credit some_credit() {
  return {.address = 0x7f0012345000, .bytes = 1 << 20, .tag = 7, .generation = 3, .rkeys = {11, 12, 13, 14, 15, 16, 17, 18}};
}

void credit_row_encode(benchmark::State& state) {
  engine::Credit credit = some_credit();
  for (auto _ : state) {
    benchmark::DoNotOptimize(credit);
    benchmark::DoNotOptimize(engine::encode_credit(credit));
  }
}
BENCHMARK(credit_row_encode);

void credit_row_read(benchmark::State& state) {
  engine::CreditRow row = engine::encode_credit(some_credit());
  engine::Credit credit;
  for (auto _ : state) {
    benchmark::DoNotOptimize(row);
    if (!engine::read_credit(row, 3, &credit)) state.SkipWithError("the row does not hold its credit");
    benchmark::DoNotOptimize(credit);
  }
}
BENCHMARK(credit_row_read);

// As match() finds it most of the time: nothing new.
void credit_row_not_there(benchmark::State& state) {
  engine::CreditRow row = engine::encode_credit(some_credit());
  engine::Credit credit;
  for (auto _ : state) {
    benchmark::DoNotOptimize(row);
    if (engine::read_credit(row, 4, &credit)) state.SkipWithError("a row of an older generation was believed");
  }
}
BENCHMARK(credit_row_not_there);

void chain_stage_row(benchmark::State& state) {
  verbs::WrChain chain;
  engine::CreditRow row = engine::encode_credit(some_credit());
  for (auto _ : state) {
    if (chain.full()) chain.clear();
    benchmark::DoNotOptimize(chain.write_row(&row, sizeof row, {.address = 0x1000, .rkey = 1}));
  }
}
BENCHMARK(chain_stage_row);

void chain_stage_data(benchmark::State& state) {
  verbs::WrChain chain;
  for (auto _ : state) {
    if (chain.full()) chain.clear();
    verbs::WrChain::announce(chain.write({.address = 0x2000, .bytes = 65536, .lkey = 1}, {.address = 0x1000, .rkey = 1}, 220),
                             0x1234);
    benchmark::DoNotOptimize(chain.last());
  }
}
BENCHMARK(chain_stage_data);

}  // namespace

}  // namespace mesh::micro
