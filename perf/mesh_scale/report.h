#pragma once
// The figures per peer of several sizes side by side, and those that are out of proportion. Thread:
// any. Bounds: none.

#include "perf/mesh_scale/member.h"

#include <string>
#include <vector>

namespace mesh::scale {

struct PerPeer {
  double queue_pairs = 0, descriptors = 0;
  double heap_kib = 0, resident_kib = 0;
  double connect_us = 0, connect_cpu_us = 0;
  double close_us = 0, close_cpu_us = 0;
  double first_large_us = 0, second_large_us = 0;  // to a peer, not for each
};
PerPeer per_peer(const Figures& figures);

inline constexpr std::size_t kBasePeers = 64;  // the size with which other sizes are compared
inline constexpr double kBar = 1.20;
inline constexpr double kHeapKibMax = 160;        // for each peer
inline constexpr double kConnectCpuUsMax = 400;   // for each peer
inline constexpr double kLargeLaterUsMax = 2000;  // the first large message than the second

inline constexpr double kHostBar = 1.10;  // memory of a host's processes: of as many hosts' ones

std::string table(const std::vector<Figures>& all);
std::string json(const std::vector<Figures>& all);

// Returns one line for each figure per peer that at some larger size exceeds the bar, which is
// relative to kBasePeers, or to the first size if that is missing, and for each that is above its
// limit from kBasePeers on. Times are judged if asked for.
enum class Judge : unsigned char { Counts, CountsAndTimes };
std::vector<std::string> out_of_proportion(const std::vector<Figures>& all, Judge what);

// The memory that the processes of one host hold together for their peers, and that of as many
// processes like `alone`, each on a host of its own.
struct HostMemory {
  std::uint64_t together_bytes = 0, apart_bytes = 0;
  double ratio() const noexcept;
};
HostMemory heap_of(const std::vector<Figures>& processes, const Figures& alone);
std::string host_lines(const std::vector<Figures>& processes, const Figures& alone);

}  // namespace mesh::scale
