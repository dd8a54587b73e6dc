#include "src/topo/placement.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace mesh::topo {

namespace {
// An abstract socket's name can be bound by one process at a time and goes with it.
Result<UniqueFd> take_name(int cpu) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Errc::System;
  fork_close_fd(fd.get());
  const std::string name = fmt::format("nccl-mesh poller cpu {}", cpu);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  return errno == EADDRINUSE ? Errc::Exhausted : Errc::System;
}
}  // namespace

std::vector<int> poller_cpus(const HostTopology& host, int numa_node) {
  struct Candidate {
    bool far;
    std::int64_t slowness;
    int sibling;
    int from_last;
    int cpu;
    bool operator<(const Candidate& other) const {
      return std::tie(far, slowness, sibling, from_last) < std::tie(other.far, other.slowness, other.sibling, other.from_last);
    }
  };
  std::map<int, int> threads_of_core;
  std::vector<Candidate> candidates;
  for (const Cpu& cpu : host.cpus) {
    if (!cpu.allowed) continue;
    const bool far = numa_node >= 0 && cpu.numa_node != numa_node;
    candidates.push_back({far, -cpu.max_khz, threads_of_core[cpu.core]++, -cpu.index, cpu.index});
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<int> cpus;
  cpus.reserve(candidates.size());
  for (const Candidate& candidate : candidates) cpus.push_back(candidate.cpu);
  return cpus;
}

Result<int> choose_cpu(const HostTopology& host, int numa_node, int k) {
  const std::vector<int> cpus = poller_cpus(host, numa_node);
  if (k < 0 || static_cast<std::size_t>(k) >= cpus.size()) return Errc::NotFound;
  return cpus[static_cast<std::size_t>(k)];
}

Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node) {
  for (const int cpu : poller_cpus(host, numa_node)) {
    Result<UniqueFd> name = take_name(cpu);
    if (name.ok()) return CpuClaim{cpu, std::move(*name)};
    if (name.code() != Errc::Exhausted) return name.status();
  }
  return Errc::Exhausted;
}

Status restrict_cpus(HostTopology& host, std::span<const int> cpus) {
  const auto stays = [&](const Cpu& cpu) { return cpu.allowed && std::find(cpus.begin(), cpus.end(), cpu.index) != cpus.end(); };
  if (std::none_of(host.cpus.begin(), host.cpus.end(), stays)) return Errc::NotFound;
  for (Cpu& cpu : host.cpus) cpu.allowed = stays(cpu);
  return {};
}

Status pin_this_thread(std::span<const int> cpus) {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kCpusMax), [](cpu_set_t* raw) { CPU_FREE(raw); });
  if (!set) return Errc::System;
  const std::size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kCpusMax) return Errc::InvalidArgument;
    CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  }
  if (::sched_setaffinity(0, bytes, set.get()) == 0) return {};
  LOG_INFO("a thread could not be pinned to CPU {} ({})", fmt::join(cpus, ","), std::strerror(errno));
  return Errc::System;
}

}  // namespace mesh::topo
