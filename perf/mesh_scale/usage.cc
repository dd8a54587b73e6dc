#include "perf/mesh_scale/usage.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mesh::scale {

namespace {
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::uint64_t entries_of(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator list(folder, error);
  return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(list), end(list)));
}

std::uint64_t resident_bytes() {
  std::uint64_t all = 0, resident = 0;  // in pages
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}
}  // namespace

Usage usage() {
  const struct mallinfo2 heap = ::mallinfo2();
  return {.heap_bytes = heap.uordblks + heap.hblkhd,
          .resident_bytes = resident_bytes(),
          .descriptors = entries_of("/proc/self/fd"),
          .threads = entries_of("/proc/self/task"),
          .wall_ns = read_clock(CLOCK_MONOTONIC),
          .cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

}  // namespace mesh::scale
