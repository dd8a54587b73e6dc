// A set of indices, and the bells through which threads add indices to it.

#include "src/soft/index_set.h"
#include "src/soft/ring.h"
#include "src/soft/segment.h"
#include "tests/prelude.h"

namespace mesh::soft {
namespace {

TEST(IndexSet, FindsWhatWasInserted) {
  IndexSet set;
  std::set<std::uint32_t> model;
  std::minstd_rand random(7);
  for (int step = 0; step < 2000; ++step) {
    const auto index = static_cast<std::uint32_t>(random() % kQpsMax);
    if (random() % 3 == 0) {
      set.erase(index);
      model.erase(index);
    } else {
      set.insert(index);
      model.insert(index);
    }
    const auto from = static_cast<std::uint32_t>(random() % (kQpsMax + 1));
    const auto next = model.lower_bound(from);
    ASSERT_EQ(set.next(from), next == model.end() ? kQpsMax : *next);
    ASSERT_EQ(set.empty(), model.empty());
  }
}

TEST(Bells, NoneIsLostBetweenThreads) {
  Segment memory = std::move(*Segment::create(sizeof(Bells), Sharing::Process));
  auto& bells = *reinterpret_cast<Bells*>(memory.data());
  constexpr std::uint32_t kRounds = 20'000;
  std::array<std::atomic<std::uint32_t>, 3> counts{};
  std::vector<std::thread> ringers;
  for (std::uint32_t ringer = 0; ringer < 3; ++ringer) {
    ringers.emplace_back([&, ringer] {
      for (std::uint32_t i = 0; i < kRounds; ++i) {
        counts[ringer].fetch_add(1, std::memory_order_release);
        bells.ring(ringer * 40);  // two of the ringers share a word
      }
    });
  }
  // A thread that takes a bell must see everything that was counted before the bell was rung, so
  // nothing stays unseen at the end.
  std::array<std::uint32_t, 3> seen{};
  while (std::accumulate(seen.begin(), seen.end(), 0u) < 3 * kRounds) {
    IndexSet set;
    bells.take(set);
    for (std::uint32_t i = set.next(0); i < kQpsMax; i = set.next(i + 1))
      seen[i / 40] = counts[i / 40].load(std::memory_order_acquire);
  }
  for (std::thread& ringer : ringers) ringer.join();
  EXPECT_EQ(seen[2], kRounds);
}

// Each ringer finds its own bell as soon as it has rung, even if another ringer is just ringing in
// the word that they share.
TEST(Bells, WhoHasRungIsAmongAllAtOnce) {
  Segment memory = std::move(*Segment::create(sizeof(Bells), Sharing::Process));
  auto& bells = *reinterpret_cast<Bells*>(memory.data());
  constexpr std::uint32_t kRingers = 4, kRounds = 200'000;
  std::mutex mutex;
  IndexSet rung;
  std::uint32_t missed = 0;
  std::vector<std::thread> ringers;
  for (std::uint32_t ringer = 0; ringer < kRingers; ++ringer) {
    ringers.emplace_back([&, ringer] {
      for (std::uint32_t i = 0; i < kRounds; ++i) {
        bells.ring(ringer);
        const std::lock_guard lock(mutex);
        bells.take_all(rung);
        if (!rung.has(ringer)) ++missed;
        rung.erase(ringer);
      }
    });
  }
  for (std::thread& ringer : ringers) ringer.join();
  EXPECT_EQ(missed, 0u);
}

}  // namespace
}  // namespace mesh::soft
