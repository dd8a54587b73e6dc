#pragma once
// The system's resources that this process holds and has used. Thread: any, while no other thread
// of the process works. Bounds: those of /proc.

#include <cstdint>

namespace mesh::scale {

struct Usage {
  std::uint64_t heap_bytes = 0;      // allocated and not freed: equal in every run
  std::uint64_t resident_bytes = 0;  // with what the software fabric's NICs hold
  std::uint64_t descriptors = 0, threads = 0;
  std::uint64_t wall_ns = 0, cpu_ns = 0;  // wall: a steady clock; cpu: all threads
};
Usage usage();

}  // namespace mesh::scale
