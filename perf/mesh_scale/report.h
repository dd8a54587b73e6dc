#pragma once
// The figures of several sizes side by side, each for one peer, and what is out of proportion.
// Thread: any. Bounds: none.

#include "perf/mesh_scale/member.h"

#include <string>
#include <vector>

namespace mesh::scale {

struct PerPeer {
  double queue_pairs = 0, descriptors = 0;
  double heap_kib = 0, resident_kib = 0;
  double connect_us = 0, connect_cpu_us = 0;
  double close_us = 0, close_cpu_us = 0;
};
PerPeer per_peer(const Figures& figures);

inline constexpr std::size_t kBasePeers = 64;  // others are compared with them
inline constexpr double kBar = 1.20;

std::string table(const std::vector<Figures>& all);
std::string json(const std::vector<Figures>& all);

// One line for each figure that is more than the bar allows for one peer at some larger size than
// kBasePeers, or than the first size if that is not there. Times are judged if asked for.
enum class Judge : unsigned char { Counts, CountsAndTimes };
std::vector<std::string> out_of_proportion(const std::vector<Figures>& all, Judge what);

}  // namespace mesh::scale
