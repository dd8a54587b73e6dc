#pragma once
// What this process holds of the system, and what it has used. Thread: any, while no other thread
// of the process works. Bounds: those of /proc.

#include <cstdint>

namespace mesh::scale {

struct Usage {
  std::uint64_t heap_bytes = 0;      // allocated and not freed: the same in every run
  std::uint64_t resident_bytes = 0;  // with what the software fabric's NICs hold
  std::uint64_t descriptors = 0, threads = 0;
  std::uint64_t wall_ns = 0, cpu_ns = 0;  // of a steady clock; of all threads
};
Usage usage();

}  // namespace mesh::scale
