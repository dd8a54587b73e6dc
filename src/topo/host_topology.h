#pragma once
// The cores of this host as far as placing threads needs them: whose core, which NUMA node, how
// fast, and whether this process may use them. Thread: reading at start-up (opens files); the
// result is a value.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::topo {

struct Cpu {
  int index = 0;             // as the kernel counts
  int core = 0;              // the lowest index among the hardware threads of its core
  int numa_node = -1;        // -1: not told
  std::int64_t max_khz = 0;  // 0: not told
  bool allowed = false;      // by affinity mask and cpuset
};

struct HostTopology {
  std::vector<Cpu> cpus;  // by index
  int quota_cpus = 0;     // whole CPUs the cgroup grants, at least 1; 0: no limit

  int usable_cores() const;  // distinct cores with an allowed CPU, no more than the quota
  std::vector<int> allowed_on(
      int numa_node) const;  // CPU indices; all allowed ones when the node has none or is not told
};

struct TopologySources {
  std::string sysfs_root = "/sys";
  std::string hwloc_library = "libhwloc.so.15";
  std::vector<int> allowed = {};  // empty: the process's affinity mask
};
HostTopology read_host_topology(const TopologySources& sources = {});

// "0-3,8" as the kernel writes it, sorted, without what is malformed. Bound: indices below
// kCpusMax.
inline constexpr int kCpusMax = 8192;
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace mesh::topo
