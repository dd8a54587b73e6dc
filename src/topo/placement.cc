#include "src/topo/placement.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/user_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace mesh::topo {

namespace {
// Locks the CPU's file. The files stay, one for each CPU that was ever claimed: a removed file
// could be locked by one process and made anew by the next. A cleaner of old files must not cause
// two holders either.
Result<UniqueFd> take_lock(const std::string& path) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return Errc::System;
    fork_close_fd(fd.get());
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
      return errno == EWOULDBLOCK ? Errc::Exhausted : Errc::System;
    struct stat locked {
    }, there{};
    if (::fstat(fd.get(), &locked) != 0 || ::lstat(path.c_str(), &there) != 0) continue;
    if (locked.st_dev == there.st_dev && locked.st_ino == there.st_ino) return fd;
  }
  return Errc::System;
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
      return std::tie(far, slowness, sibling, from_last) <
             std::tie(other.far, other.slowness, other.sibling, other.from_last);
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

Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node) {
  const Result<std::string> directory = user_directory(user_places());
  if (!directory.ok()) return directory.status();
  for (const int cpu : poller_cpus(host, numa_node)) {
    const std::string path = fmt::format("{}/poller-cpu-{}", *directory, cpu);
    Result<UniqueFd> lock = take_lock(path);
    if (lock.ok()) return CpuClaim{cpu, std::move(*lock)};
    if (lock.code() == Errc::Exhausted) continue;
    LOG_WARN("CPU {} cannot be claimed for a poller, since {} cannot be locked: {}", cpu, path,
             std::strerror(errno));
    return Errc::System;
  }
  return Errc::Exhausted;
}

Status restrict_cpus(HostTopology& host, std::span<const int> cpus) {
  const auto stays = [&](const Cpu& cpu) {
    return cpu.allowed && std::find(cpus.begin(), cpus.end(), cpu.index) != cpus.end();
  };
  if (std::none_of(host.cpus.begin(), host.cpus.end(), stays)) return Errc::NotFound;
  for (Cpu& cpu : host.cpus) cpu.allowed = stays(cpu);
  return {};
}

Status pin_this_thread(std::span<const int> cpus) {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kCpusMax),
                                                             [](cpu_set_t* raw) { CPU_FREE(raw); });
  if (!set) return Errc::System;
  const std::size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kCpusMax) return Errc::InvalidArgument;
    CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  }
  if (::sched_setaffinity(0, bytes, set.get()) == 0) return {};
  LOG_INFO("a thread could not be pinned to CPU {} ({})", fmt::join(cpus, ","),
           std::strerror(errno));
  return Errc::System;
}

}  // namespace mesh::topo
