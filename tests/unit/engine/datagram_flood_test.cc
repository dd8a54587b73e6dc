// A neighbour sends ten thousand forged questions and answers a second over the cables. The
// handshake of an honest peer takes at most a second longer, and the process grows by at most 8
// MiB. Prints the measurements; run it alone for good figures.

#include "engine/link/cable_message.h"
#include "engine/link/relay/neighbour_message.h"
#include "src/base/random.h"
#include "src/soft/datagrams.h"
#include "src/soft/fabric_file.h"
#include "src/verbs/discovery.h"
#include "tests/unit/engine/flood.h"

#include <malloc.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace mesh {
namespace {

using testkit::FloodTest, testkit::kDelayMaxMs, testkit::kGrowthMaxKb, testkit::resident_kb;

// Both ports of each host are in one subnet, so that handshakes ask over the cables, too.
constexpr const char* kOneSubnet = R"({"name": "flood", "hosts": [
    {"name": "a", "nics": [{"name": "n0", "address": "10.0.1.1/24"},
                           {"name": "n1", "address": "10.0.1.2/24"}]},
    {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.3/24"},
                           {"name": "n1", "address": "10.0.1.4/24"}]}],
    "links": [{"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]}]})";

// The datagrams that wait for a reader, at most.
constexpr std::int64_t kHeapGrowthMaxKb = 512;

std::int64_t heap_in_use_kb() {
  const struct mallinfo2 heap = ::mallinfo2();
  return static_cast<std::int64_t>((heap.uordblks + heap.hblkhd) / 1024);
}

// Another process on host a: over both cables it sends questions and answers of another job, and
// those about cables to each port that host b may have open.
class DatagramFlood {
 public:
  static constexpr int kASecond = 10'000;

  explicit DatagramFlood(verbs::Provider& provider)
      : rails_(std::move(*verbs::discover(provider, {}))) {
    for (const verbs::Rail& rail : rails_)
      ends_.push_back(
          provider.open_datagrams(rail.context.get(), rail.gids.front(), verbs::DatagramEnd::Port));
    sender_ = std::thread([this] { send(); });
  }
  ~DatagramFlood() {
    over_ = true;
    sender_.join();
  }
  std::uint64_t sent() const { return sent_; }

 private:
  static constexpr std::uint16_t kPortsMax = 4;

  void send() {
    using namespace std::chrono_literals;
    const soft::FabricFile fabric = soft::parse(kOneSubnet).value();
    const engine::JobKey key = engine::key_of_text("a guess");
    const auto begin = std::chrono::steady_clock::now();
    while (!over_) {
      const std::chrono::duration<double> age = std::chrono::steady_clock::now() - begin;
      while (static_cast<double>(sent_) < age.count() * kASecond) {
        const int rail = static_cast<int>(sent_ % ends_.size());
        one(key, rail, soft::device_address(fabric, {.host = 1, .nic = 1 - rail}));
        ++sent_;
      }
      std::this_thread::sleep_for(1ms);
    }
  }
  void one(const engine::JobKey& key, int rail, const std::array<std::uint8_t, 16>& far) {
    verbs::CableDatagrams& end = *ends_[static_cast<std::size_t>(rail)];
    const engine::NeighbourAnswer answer{
        .ticket = {1}, .port = 1, .name = "nobody", .addresses = {SocketAddress::any(AF_INET)}};
    const auto port = static_cast<std::uint16_t>(1 + sent_ / 6 % kPortsMax);
    switch (sent_ / ends_.size() % 3) {
      case 0:
        return end.send(
            verbs::kCableGroup,
            bytes_of(engine::NeighbourQuestion{.nonce = random_id()}, key, end.place()));
      case 1: return end.send({.address = far, .port = port}, bytes_of(answer, key, random_id()));
      default:
        return end.send(
            {.address = far, .port = port},
            engine::bytes_of({.kind = engine::CableMessage::Kind::Answer, .nonce = random_id()}));
    }
  }

  std::vector<verbs::Rail> rails_;
  std::vector<std::unique_ptr<verbs::CableDatagrams>> ends_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> sent_{0};
  std::thread sender_;
};

class DatagramFloodTest : public FloodTest {
 protected:
  DatagramFloodTest() : FloodTest(kOneSubnet) {}

  struct Times {
    double median_ms = 0, longest_ms = 0;
  };
  Times handshakes(int count) {
    std::vector<double> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) all.push_back(handshake_ms());
    std::sort(all.begin(), all.end());
    return {.median_ms = all[all.size() / 2], .longest_ms = all.back()};
  }
};

TEST_F(DatagramFloodTest, NeitherDelaysAHandshakeNorFillsTheMemory) {
  constexpr int kRounds = 5, kHandshakes = 60;
  handshakes(kRounds * kHandshakes);
  std::printf("%-28s %12s %12s %14s %12s\n", "10000 datagrams a second", "sent", "median, ms",
              "longest, ms", "growth, KiB");
  const auto row = [this](const char* name, const DatagramFlood* flood) {
    const std::int64_t before_kb = resident_kb();
    const Times times = handshakes(kHandshakes);
    const std::int64_t growth_kb = resident_kb() - before_kb;
    const std::uint64_t sent = flood == nullptr ? 0 : flood->sent();
    std::printf("%-28s %12llu %12.2f %14.2f %12lld\n", name, static_cast<unsigned long long>(sent),
                times.median_ms, times.longest_ms, static_cast<long long>(growth_kb));
    EXPECT_LE(growth_kb, kGrowthMaxKb);
    return times;
  };
  for (int round = 0; round < kRounds; ++round) {
    const Times quiet = row("(none)", nullptr);
    const DatagramFlood flood(*hosts_[0].provider);
    const Times flooded = row("forged", &flood);
    EXPECT_LE(flooded.longest_ms, quiet.longest_ms + kDelayMaxMs);
  }
  const NeighbourCounts counts = hosts_[1].engine->snapshot().neighbours;
  std::printf("host b answered %llu, took %llu; ignored: foreign %llu, above a bound %llu\n",
              static_cast<unsigned long long>(counts.answered),
              static_cast<unsigned long long>(counts.taken),
              static_cast<unsigned long long>(counts.foreign),
              static_cast<unsigned long long>(counts.excess));
  EXPECT_EQ(counts.answered + counts.taken, 0u);
  EXPECT_GT(counts.foreign + counts.excess, 0u);
}

TEST_F(DatagramFloodTest, AloneTakesNoMemory) {
  constexpr std::uint64_t kSent = 50'000;
  handshakes(1);
  const DatagramFlood flood(*hosts_[0].provider);
  const auto wait = [&flood](std::uint64_t sent) {
    while (flood.sent() < sent) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait(kSent / 10);
  const std::int64_t heap_kb = heap_in_use_kb(), before_kb = resident_kb();
  wait(kSent);
  const std::int64_t heap_growth_kb = heap_in_use_kb() - heap_kb;
  std::printf("%llu datagrams: heap in use %+lld KiB, resident %+lld KiB\n",
              static_cast<unsigned long long>(kSent), static_cast<long long>(heap_growth_kb),
              static_cast<long long>(resident_kb() - before_kb));
  EXPECT_LE(heap_growth_kb, kHeapGrowthMaxKb);
}

}  // namespace
}  // namespace mesh
