#include "src/topo/host_topology.h"

#include "src/base/log.h"
#include "src/base/small_file.h"
#include "src/topo/hwloc_api.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>

#include <sched.h>
#include <unistd.h>

namespace mesh::topo {

namespace {

// Reads the main thread's mask, because NCCL narrows the calling thread's during an init.
std::vector<int> affinity_of_process() {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kCpusMax),
                                                             [](cpu_set_t* raw) { CPU_FREE(raw); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  std::vector<int> cpus;
  if (!set || ::sched_getaffinity(::getpid(), bytes, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

Cpu* find_cpu(HostTopology& host, int index) {
  const auto found = std::lower_bound(host.cpus.begin(), host.cpus.end(), index,
                                      [](const Cpu& cpu, int i) { return cpu.index < i; });
  return found != host.cpus.end() && found->index == index ? &*found : nullptr;
}

class Hwloc {
 public:
  static std::optional<Hwloc> load(const std::string& library) {
    const Result<HwlocApi> api = load_hwloc_api(library.c_str());
    hwloc_topology_t topology = nullptr;
    if (!api.ok() || api->topology_init(&topology) != 0) return std::nullopt;
    Hwloc hwloc(*api, topology);
    if (api->topology_load(topology) != 0) {
      LOG_INFO("{} reads no topology here: cores and NUMA nodes are read from sysfs instead",
               library);
      return std::nullopt;
    }
    return hwloc;
  }

  // Calls visit(os_index, cpu index) for every CPU of every object of the type.
  template <typename Visit>
  void for_each_cpu_of(hwloc_obj_type_t type, Visit visit) const {
    const int depth = api_.get_type_depth(topology_.get(), type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return;
    const unsigned count = api_.get_nbobjs_by_depth(topology_.get(), depth);
    for (unsigned i = 0; i < count; ++i) {
      const hwloc_obj_t object = api_.get_obj_by_depth(topology_.get(), depth, i);
      if (object == nullptr || object->cpuset == nullptr) continue;
      for (int cpu = api_.bitmap_next(object->cpuset, -1); cpu >= 0;
           cpu = api_.bitmap_next(object->cpuset, cpu))
        visit(*object, cpu);
    }
  }
  int first_cpu(const hwloc_obj& object) const { return api_.bitmap_next(object.cpuset, -1); }

 private:
  Hwloc(const HwlocApi& api, hwloc_topology_t topology)
      : api_(api), topology_(topology, api.topology_destroy) {}

  HwlocApi api_;
  std::unique_ptr<hwloc_topology, decltype(&::hwloc_topology_destroy)> topology_;
};

void fill_from_hwloc(HostTopology& host, const Hwloc& hwloc) {
  hwloc.for_each_cpu_of(HWLOC_OBJ_CORE, [&](const hwloc_obj& core, int index) {
    if (Cpu* cpu = find_cpu(host, index)) cpu->core = hwloc.first_cpu(core);
  });
  hwloc.for_each_cpu_of(HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& node, int index) {
    if (Cpu* cpu = find_cpu(host, index)) cpu->numa_node = static_cast<int>(node.os_index);
  });
}

void fill_from_sysfs(HostTopology& host, const std::string& root) {
  for (Cpu& cpu : host.cpus) {
    const std::string topology =
        root + "/devices/system/cpu/cpu" + std::to_string(cpu.index) + "/topology/";
    const std::vector<int> siblings =
        parse_cpu_list(read_first_line(topology + "thread_siblings_list").value_or(""));
    if (!siblings.empty()) cpu.core = siblings.front();
  }
  for (const int node :
       parse_cpu_list(read_first_line(root + "/devices/system/node/online").value_or(""))) {
    const std::string path = root + "/devices/system/node/node" + std::to_string(node) + "/cpulist";
    for (const int index : parse_cpu_list(read_first_line(path).value_or(""))) {
      if (Cpu* cpu = find_cpu(host, index)) cpu->numa_node = node;
    }
  }
}

// Returns the CPUs of the quota that a container sees in cgroup v2: "200000 100000" is two. Returns
// 0 if there is no limit ("max 100000") or no such file.
int read_quota(const std::string& root) {
  const std::string text = read_first_line(root + "/fs/cgroup/cpu.max").value_or("");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, quota);
  if (error != std::errc{} || end == last ||
      std::from_chars(end + 1, last, period).ec != std::errc{} || period <= 0)
    return 0;
  return static_cast<int>(std::clamp<std::int64_t>(quota / period, 1, kCpusMax));
}

}  // namespace

int HostTopology::usable_cores() const {
  std::set<int> cores;
  for (const Cpu& cpu : cpus) {
    if (cpu.allowed) cores.insert(cpu.core);
  }
  const int count = static_cast<int>(cores.size());
  return quota_cpus > 0 ? std::min(count, quota_cpus) : count;
}

std::vector<int> HostTopology::allowed_on(int numa_node) const {
  std::vector<int> near;
  std::vector<int> all;
  for (const Cpu& cpu : cpus) {
    if (!cpu.allowed) continue;
    all.push_back(cpu.index);
    if (numa_node >= 0 && cpu.numa_node == numa_node) near.push_back(cpu.index);
  }
  return near.empty() ? all : near;
}

HostTopology read_host_topology(const TopologySources& sources) {
  HostTopology host;
  const std::vector<int> allowed =
      sources.allowed.empty() ? affinity_of_process() : sources.allowed;
  std::vector<int> online = parse_cpu_list(
      read_first_line(sources.sysfs_root + "/devices/system/cpu/online").value_or(""));
  if (online.empty()) online = allowed;
  for (const int index : online) {
    Cpu cpu{.index = index, .core = index};
    cpu.allowed = std::binary_search(allowed.begin(), allowed.end(), index);
    const std::string folder =
        sources.sysfs_root + "/devices/system/cpu/cpu" + std::to_string(index);
    cpu.max_khz = read_number(folder + "/cpufreq/cpuinfo_max_freq").value_or(0);
    host.cpus.push_back(cpu);
  }
  if (const std::optional<Hwloc> hwloc = Hwloc::load(sources.hwloc_library)) {
    fill_from_hwloc(host, *hwloc);
  } else {
    fill_from_sysfs(host, sources.sysfs_root);
  }
  host.quota_cpus = read_quota(sources.sysfs_root);
  return host;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const char* const last = item.data() + item.size();
    int from = 0;
    const auto [dash, error] = std::from_chars(item.data(), last, from);
    int to = from;
    if (error != std::errc{} || from < 0) continue;
    if (dash != last && (*dash != '-' || std::from_chars(dash + 1, last, to).ec != std::errc{}))
      continue;
    for (int cpu = from; cpu <= std::min(to, kCpusMax - 1); ++cpu) cpus.insert(cpu);
  }
  return {cpus.begin(), cpus.end()};
}

}  // namespace mesh::topo
