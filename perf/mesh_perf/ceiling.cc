#include "perf/mesh_perf/ceiling.h"

#include "perf/driver/buffer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mesh::perf {
namespace {

// Returns the indices by rank; empty if some name is not in the file.
std::vector<int> places(const soft::FabricFile& file, const std::vector<std::string>& hosts) {
  std::vector<int> found;
  for (const std::string& host : hosts) {
    found.push_back(file.find_host(host));
    if (found.back() < 0) return {};
  }
  for (std::size_t i = 0; hosts.empty() && i < file.hosts.size(); ++i)
    found.push_back(static_cast<int>(i));
  return found;
}

constexpr std::size_t kSlots = 8;
constexpr std::size_t kRoundBytes = std::size_t{512} << 20;
constexpr std::size_t kFootprintMax = std::size_t{512} << 20;
constexpr int kRounds = 3;

}  // namespace

std::optional<soft::Goodput> link_ceiling(const std::string& fabric_file,
                                          const std::vector<std::string>& hosts, Kind kind) {
  const auto file = soft::load(fabric_file);
  if (!file.ok()) return std::nullopt;
  const std::vector<int> ranks = places(*file, hosts);
  // With more than two hosts an all-to-all shares links in a way that no single link bounds. A
  // chain leaves out one link of the ring, which depends on the root.
  const bool ring = kind != Kind::AllToAll && !has_root(kind);
  if (ranks.size() < 2 || (!ring && ranks.size() > 2)) return std::nullopt;
  std::optional<soft::Goodput> least;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::optional<soft::Goodput> rate =
        soft::goodput_between(*file, {ranks[rank], ranks[(rank + 1) % ranks.size()]});
    if (!rate.has_value()) return std::nullopt;
    if (!least || rate->gbytes_per_s < least->gbytes_per_s) least = rate;
  }
  return least;
}

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
