// Whole messages over the null fabric, by size and by number of channels; both ends, one thread.
#include "perf/micro/link_pair.h"

#include <benchmark/benchmark.h>

#include <array>

namespace mesh::micro {
namespace {

constexpr std::size_t kEight = 8;

LinkPairOptions options_of(const benchmark::State& state) {
  return {.channels = static_cast<std::size_t>(state.range(1)),
          .bytes = static_cast<std::size_t>(state.range(0))};
}

// Turns the loops until both requests are done.
void finish(Request& send, Request& receive) {
  bool sent = false, received = false;
  while (!(sent && received)) {
    sent = sent || LinkPair::done(send);
    received = received || LinkPair::done(receive);
  }
}

// One message at a time; the channels take turns.
void one_message(benchmark::State& state) {
  LinkPair pair(options_of(state));
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::size_t channel = 0;
  for (auto _ : state) {
    Request* const receive = pair.receive(channel, bytes);
    Request* const send = pair.send(channel, bytes);
    finish(*send, *receive);
    channel = channel + 1 == pair.channels() ? 0 : channel + 1;
  }
  state.SetItemsProcessed(state.iterations());
}

// Eight messages at a time on one channel; the channels take turns. An iteration is eight messages.
void eight_messages(benchmark::State& state) {
  LinkPair pair(options_of(state));
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::array<Request*, kEight> receives{}, sends{};
  std::size_t channel = 0;
  for (auto _ : state) {
    for (Request*& receive : receives) receive = pair.receive(channel, bytes);
    for (Request*& send : sends) send = pair.send(channel, bytes);
    for (std::size_t i = 0; i < kEight; ++i) finish(*sends[i], *receives[i]);
    channel = channel + 1 == pair.channels() ? 0 : channel + 1;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kEight));
}

// A test of a receive that never gets a message, which is one empty turn of its loop.
void empty_test(benchmark::State& state) {
  LinkPair pair(options_of(state));
  Request* const receive = pair.receive(0, 8);
  for (auto _ : state) benchmark::DoNotOptimize(LinkPair::done(*receive));
  finish(*pair.send(0, 8), *receive);
}

// Measures empty_test() in a context that so many others send to, each over a link of its own.
void empty_test_of_peers(benchmark::State& state) {
  const auto peers = static_cast<std::size_t>(state.range(0));
  LinkPair pair({.channels = peers, .bytes = kEight, .peers = peers});
  Request* const receive = pair.receive(0, kEight);
  for (auto _ : state) benchmark::DoNotOptimize(LinkPair::done(*receive));
  finish(*pair.send(0, kEight), *receive);
}

void sizes_and_channels(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "channels"});
  for (const std::int64_t bytes : {8, 2048, 65536, 1 << 20}) benchmark->Args({bytes, 1});
  for (const std::int64_t channels : {8, 64, 512}) benchmark->Args({8, channels});
}

BENCHMARK(one_message)->Apply(sizes_and_channels);
BENCHMARK(eight_messages)->Apply(sizes_and_channels);
BENCHMARK(empty_test)->ArgNames({"bytes", "channels"})->Args({8, 1})->Args({8, 512});
BENCHMARK(empty_test_of_peers)->ArgName("peers")->Arg(1)->Arg(64)->Arg(400);

}  // namespace
}  // namespace mesh::micro
