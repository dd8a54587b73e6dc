#pragma once
// The ground on which the figures of a run were taken. The table and the JSON must never let one
// kind pass for another. Thread: any (values).

#include "perf/collectives/collective.h"
#include "perf/mesh_perf/options.h"

#include <string>
#include <vector>

namespace mesh::perf {

struct Ground {
  int world = 0;
  std::string device;           // the first one of this rank
  std::string software_fabric;  // the name of its file; empty: RDMA devices
  bool soft_roce = false;       // some rail of some rank is a kernel software device
  bool other_rdma = false;      // some rail of some rank is another RDMA device
  bool emulated = false;        // in a lab of emulated machines (MESH_LAB)

  // "rdma", "rdma (soft-RoCE, emulated)", "rdma (some rails soft-RoCE)", "software fabric on this
  // host, not RDMA (pair.json)"
  std::string sentence() const;
};

// Finds the ground of all ranks together, because figures are only as real as the least real of
// their devices. Returns false if a rank was lost.
bool find_ground(const Options& options, const Team& team, Ground& ground);

// kinds_of() returns a letter for each fact about a rank; add_kinds() adds the facts of all ranks.
std::string kinds_of(const std::vector<std::string>& devices,
                     const std::string& class_directory = "/sys/class/infiniband");
void add_kinds(const std::vector<std::string>& of_ranks, Ground& ground);

// Returns true if an RDMA device (its name without the port) is the kernel's soft-RoCE. Only that
// driver shows, as `parent`, the net device on which it lies. With a kernel that has no such file,
// it is a device of the usual name that has no bus device behind it.
bool is_soft_roce(const std::string& device,
                  const std::string& class_directory = "/sys/class/infiniband");

}  // namespace mesh::perf
