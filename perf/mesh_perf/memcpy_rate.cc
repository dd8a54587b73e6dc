#include "perf/mesh_perf/memcpy_rate.h"

#include "perf/driver/buffer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mesh::perf {
namespace {

constexpr std::size_t kSlots = 8;
constexpr std::size_t kRoundBytes = std::size_t{512} << 20;
constexpr std::size_t kFootprintMax = std::size_t{512} << 20;
constexpr int kRounds = 3;

}  // namespace

double measure_memcpy(std::size_t block_bytes) {
  using SteadyClock = std::chrono::steady_clock;
  const std::size_t block = std::max<std::size_t>(block_bytes, 1);
  const std::size_t slots = std::clamp<std::size_t>(kFootprintMax / block, 1, kSlots);
  driver::Buffer from(block * slots), to(block * slots);
  if (from.data() == nullptr || to.data() == nullptr) return 0;
  const std::size_t copies = std::max<std::size_t>(slots, kRoundBytes / block);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = SteadyClock::now();
    for (std::size_t i = 0; i < copies; ++i) {
      std::memcpy(to.data() + i % slots * block, from.data() + i % slots * block, block);
      __asm__ volatile(""
                       :
                       : "r"(to.data())
                       : "memory");  // the compiler must keep the copy, which is not read
    }
    const double seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
    best = std::max(best, static_cast<double>(copies * block) / seconds / 1e9);
  }
  return best;
}

}  // namespace mesh::perf
