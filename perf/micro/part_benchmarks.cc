// The pure parts of a message's way: how it is cut, its CTS entry, its work requests.
#include "engine/message/stripe.h"
#include "engine/message/wire.h"
#include "src/verbs/wr_chain.h"

#include <benchmark/benchmark.h>

#include <array>

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
  return {.address = 0x7f0012345000,
          .bytes = 1 << 20,
          .tag = 7,
          .generation = 3,
          .rkeys = {11, 12, 13, 14, 15, 16, 17, 18}};
}

using Row = std::array<std::uint64_t, engine::kCreditBytesMax / sizeof(std::uint64_t)>;

Row some_row(std::uint32_t paths) {
  Row row{};
  engine::encode_credit(some_credit(), paths, row.data());
  return row;
}

std::uint32_t paths_of(const benchmark::State& state) {
  return static_cast<std::uint32_t>(state.range(0));
}

void cts_entry_encode(benchmark::State& state) {
  engine::Credit credit = some_credit();
  Row row{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(credit);
    engine::encode_credit(credit, paths_of(state), row.data());
    benchmark::DoNotOptimize(row);
  }
}
BENCHMARK(cts_entry_encode)->ArgName("paths")->Arg(1)->Arg(2);

void cts_entry_read(benchmark::State& state) {
  Row row = some_row(paths_of(state));
  engine::Credit credit;
  for (auto _ : state) {
    benchmark::DoNotOptimize(row);
    if (!engine::read_credit(row.data(), paths_of(state), 3, &credit))
      state.SkipWithError("the row does not hold its credit");
    benchmark::DoNotOptimize(credit);
  }
}
BENCHMARK(cts_entry_read)->ArgName("paths")->Arg(1)->Arg(2);

// Reads an entry that has no new credit, as a waiting sender does.
void cts_entry_not_there(benchmark::State& state) {
  Row row = some_row(1);
  engine::NearCredit credit;
  for (auto _ : state) {
    benchmark::DoNotOptimize(row);
    if (engine::read_near(row.data(), 4, &credit))
      state.SkipWithError("a row of an older generation was believed");
  }
}
BENCHMARK(cts_entry_not_there);

void chain_stage_row(benchmark::State& state) {
  verbs::WrChain chain;
  for (auto _ : state) {
    if (chain.full()) chain.clear();
    benchmark::DoNotOptimize(
        chain.write_row(engine::kCreditHalfBytes, {.address = 0x1000, .rkey = 1}));
  }
}
BENCHMARK(chain_stage_row);

void chain_stage_data(benchmark::State& state) {
  verbs::WrChain chain;
  for (auto _ : state) {
    if (chain.full()) chain.clear();
    ibv_send_wr& wr = chain.write({.address = 0x2000, .bytes = 65536, .lkey = 1},
                                  {.address = 0x1000, .rkey = 1}, 220);
    verbs::WrChain::announce(wr, 0x1234);
    benchmark::DoNotOptimize(wr);
  }
}
BENCHMARK(chain_stage_data);

}  // namespace
}  // namespace mesh::micro
