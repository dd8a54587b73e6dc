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
// their devices. False: a rank was lost.
bool find_ground(const Options& options, const Team& team, Ground& ground);

// A letter for each fact that find_ground() tells of one rank, and the facts of all ranks' letters.
std::string kinds_of(const std::vector<std::string>& devices,
                     const std::string& class_directory = "/sys/class/infiniband");
void add_kinds(const std::vector<std::string>& of_ranks, Ground& ground);

// Whether an RDMA device (its name without the port) is the kernel's soft-RoCE. That driver alone
// shows, as `parent`, the net device it was laid over; a kernel without that file still has no bus
// device behind it, and then the usual name decides.
bool is_soft_roce(const std::string& device,
                  const std::string& class_directory = "/sys/class/infiniband");

}  // namespace mesh::perf
