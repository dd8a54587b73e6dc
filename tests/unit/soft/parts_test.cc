// Each of the fabric's small parts alone.

#include "src/soft/completion_queue.h"
#include "src/soft/copy.h"
#include "src/soft/index_set.h"
#include "src/soft/memory_table.h"
#include "src/soft/queue_pair.h"
#include "src/soft/ring.h"
#include "src/soft/wire_model.h"
#include "tests/prelude.h"

namespace mesh::soft {
namespace {

TEST(MemoryTable, AllowsExactlyWhatWasRegistered) {
  MemoryTable table;
  const int pd = 0, other_pd = 0;
  const std::uint32_t key =
      table.add({1000, 100, &pd, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(key, 0u);
  EXPECT_TRUE(table.allows({key, 1000, 100, &pd, IBV_ACCESS_REMOTE_WRITE}));
  EXPECT_TRUE(table.allows({key, 1099, 1, &pd, 0}));
  EXPECT_FALSE(table.allows({key, 999, 2, &pd, 0}));
  EXPECT_FALSE(table.allows({key, 1099, 2, &pd, 0}));
  EXPECT_FALSE(table.allows({key, UINT64_MAX - 5, 10, &pd, 0})) << "the end wraps";
  EXPECT_FALSE(table.allows({key, 1000, UINT64_MAX, &pd, 0}));
  EXPECT_FALSE(table.allows({key, 1000, 1, &pd, IBV_ACCESS_REMOTE_READ}));
  EXPECT_FALSE(table.allows({key, 1000, 1, &other_pd, 0}));
  EXPECT_FALSE(table.allows({key + 1, 1000, 1, &pd, 0}));
  EXPECT_FALSE(table.allows({0, 1000, 1, &pd, 0}));
}

TEST(MemoryTable, AKeyIsNotReusedAtOnce) {
  MemoryTable table;
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t key = table.add({1, 1, nullptr, 0});
    EXPECT_TRUE(keys.insert(key).second);
    table.remove(key);
    EXPECT_FALSE(table.allows({key, 1, 1, nullptr, 0}));
  }
  EXPECT_EQ(table.size(), 0u);
}

TEST(MemoryTable, IsFullAtItsBound) {
  MemoryTable table;
  std::uint32_t made = 0;
  while (table.add({1, 1, nullptr, 0}) != 0) ++made;
  EXPECT_EQ(made, kRegionsMax - 1);
}

TEST(DmaStore, CopiesEveryLengthAndAlignment) {
  alignas(64) std::array<std::byte, 256> from, to;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t bytes = 0; bytes < 150; ++bytes) {
      to.fill(std::byte{0});
      dma_store(to.data() + offset, from.data() + 3, bytes);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= offset && i < offset + bytes;
        ASSERT_EQ(to[i], inside ? from[3 + i - offset] : std::byte{0})
            << offset << " " << bytes << " " << i;
      }
    }
  }
}

// If the last word of a row is new, the whole row must be new: credits rely on that.
constexpr std::size_t kRowWords = kAtomicBytes / sizeof(std::uint64_t);
using Row = std::array<std::uint64_t, kRowWords>;

void store_rows(Row& row, std::uint64_t count) {
  Row next;
  for (std::uint64_t value = 1; value <= count; ++value) {
    next.fill(value);
    dma_store(reinterpret_cast<std::byte*>(row.data()),
              reinterpret_cast<const std::byte*>(next.data()), kAtomicBytes);
  }
}

TEST(DmaStore, WordsOfARowAppearInOrder) {
  alignas(64) Row row{};
  constexpr std::uint64_t kRows = 50'000;
  std::thread writer([&] { store_rows(row, kRows); });
  for (std::uint64_t last = 0; last < kRows;) {
    last = std::atomic_ref(row.back()).load(std::memory_order_acquire);
    for (std::size_t word = 0; word < kRowWords - 1; ++word)
      ASSERT_GE(std::atomic_ref(row[word]).load(std::memory_order_relaxed), last);
  }
  writer.join();
}

TEST(Gather, TakesAnyPieceOfAnyElements) {
  std::vector<std::byte> source(1000), to(1000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 3);
  const auto at = [&](std::size_t i) {
    return reinterpret_cast<std::uintptr_t>(source.data() + i);
  };
  const std::array<RingSge, 4> sges = {
      {{at(0), 100, 0}, {at(500), 0, 0}, {at(200), 7, 0}, {at(600), 300, 0}}};
  std::vector<std::byte> whole;
  for (const RingSge& sge : sges) {
    const auto* from = reinterpret_cast<const std::byte*>(sge.address);
    whole.insert(whole.end(), from, from + sge.bytes);
  }
  for (std::size_t offset = 0; offset < whole.size(); offset += 13) {
    for (std::size_t bytes = 1; bytes <= whole.size() - offset; bytes += 11) {
      ASSERT_TRUE(gather(to.data(), {sges.data(), 4, offset, bytes}, 0));
      ASSERT_TRUE(std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(bytes),
                             whole.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
  }
}

TEST(Stream, WrapsAround) {
  std::vector<std::byte> stream(kStreamBytes), in(1000), out(1000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i);
  const std::uint64_t position = 5 * std::uint64_t{kStreamBytes} - 300;
  for (std::size_t i = 0; i < in.size(); ++i) stream[(position + i) % kStreamBytes] = in[i];
  stream_get(out.data(), stream.data(), position, out.size());
  EXPECT_EQ(in, out);
  EXPECT_EQ(stream[0], in[300]);
}

TEST(WireModel, ATurnEndsWithAWholePacket) {
  Transmitter cable, bus;
  const WireModel wire(nullptr, {}, {.quantum_bytes = 10'000}, {cable, bus});
  const std::uint64_t packet = 4096 + 82, turn = 3 * packet;
  const std::uint64_t total = WireModel::wire_bytes(24'576, 4096, true);  // six packets
  EXPECT_EQ(wire.turn_bytes(0, total, 4096), turn + 16);
  EXPECT_EQ(wire.turn_bytes(turn + 16, total, 4096), turn + 4) << "the immediate goes along";
  EXPECT_EQ(wire.turn_bytes(0, 500, 4096), 500u);
  EXPECT_EQ(wire.turn_bytes(turn + 16, total + packet, 4096), turn) << "a packet is left";
}

TEST(WireModel, CountsHeadersAsRoceDoes) {
  EXPECT_EQ(WireModel::wire_bytes(0, 4096, false), 82u + 16u);
  EXPECT_EQ(WireModel::wire_bytes(4096, 4096, true), 4096u + 82 + 16 + 4);
  EXPECT_EQ(WireModel::wire_bytes(4097, 4096, false), 4097u + 2 * 82 + 16);
  LinkSpec link;
  link.gbps = 100;
  Transmitter cable, bus;
  WireModel wire(&link, {}, {}, {cable, bus});
  EXPECT_EQ(wire.send(0, 12'500), 1000 * kTicksPerNs) << "100 Gb/s are 12.5 bytes per ns";
}

TEST(CompletionQueue, OverflowKillsIt) {
  CompletionQueue queue(nullptr, nullptr, 2, nullptr);
  QueuePair qp;
  CompletionEntry entry;
  entry.qp = &qp;
  std::array<ibv_wc, 4> wc{};
  queue.push(entry);
  queue.push(entry);
  EXPECT_EQ(queue.pop(1, wc.data()), 1);
  queue.push(entry);
  queue.push(entry);
  EXPECT_EQ(queue.pop(4, wc.data()), -1);
}

TEST(Ring, MapsOnlyWhatIsARing) {
  std::shared_ptr<Ring> ring = *Ring::create(16, Sharing::Host);
  ring->request(3).bytes = 99;
  UniqueFd fd = ring->memory().take_fd();
  EXPECT_EQ(Ring::map(UniqueFd(::dup(fd.get())), 32).code(), Errc::Protocol) << "too short";
  EXPECT_EQ(Ring::map(UniqueFd(::dup(fd.get())), 8).code(), Errc::Protocol) << "another size";
  EXPECT_EQ(Ring::map(UniqueFd(::dup(fd.get())), 17).code(), Errc::Protocol);
  Result<std::shared_ptr<Ring>> other = Ring::map(std::move(fd), 16);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->request(3).bytes, 99u);
}

}  // namespace
}  // namespace mesh::soft
