#pragma once
// The CPUs of this host, as far as placing threads needs them: their core, NUMA node and speed, and
// whether this process may use them. Thread: any; reading opens files, at start-up, and the result
// is a value. Bound: kCpusMax.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::topo {

struct Cpu {
  int index = 0;             // as the kernel counts
  int core = 0;              // the lowest index among the hardware threads of its core
  int numa_node = -1;        // -1: unknown
  std::int64_t max_khz = 0;  // 0: unknown
  bool allowed = false;      // by affinity mask and cpuset
};

struct HostTopology {
  std::vector<Cpu> cpus;  // by index
  int quota_cpus = 0;     // whole CPUs that the cgroup grants, at least 1; 0: no limit

  int usable_cores() const;  // distinct cores with an allowed CPU, no more than the quota
  // Returns the indices of the allowed CPUs on the node, or of all allowed CPUs if the node has
  // none or is unknown.
  std::vector<int> allowed_on(int numa_node) const;
};

struct TopologySources {
  std::string sysfs_root = "/sys";
  std::string hwloc_library = "libhwloc.so.15";
  std::vector<int> allowed = {};  // empty: the process's affinity mask
};
HostTopology read_host_topology(const TopologySources& sources = {});

// Reads a list as the kernel writes it, "0-3,8". The result is sorted, and malformed parts are left
// out.
inline constexpr int kCpusMax = 8192;
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace mesh::topo
