#pragma once
// Chooses where poller threads run: near their NIC, on the fast kind of core, one on each core, and
// not on a core that a poller of another process of this host has taken. Thread: any;
// pin_this_thread pins the caller. Bound: the CPUs.

#include <mesh/status.h>

#include "src/base/unique_fd.h"
#include "src/topo/host_topology.h"

#include <span>
#include <vector>

namespace mesh::topo {

// Returns the allowed CPUs in the order in which pollers of a NIC on that node should take them:
// those of the node before others, fast kinds before slow ones, one hardware thread of each core
// before the second, and high numbers first, because CPU 0 serves most interrupts.
std::vector<int> poller_cpus(const HostTopology& host, int numa_node);

// Holds a CPU for one poller among all processes of this user on this machine, whatever their
// network namespace, until it is destroyed. The claim is a locked file in user_directory(): it ends
// with its process, and no other user can take it. Different users do not see each other's claims,
// nor do containers that share no /dev/shm. Give such jobs CPUs of their own (NCCL_MESH_CPUS, or a
// cpuset).
struct CpuClaim {
  int cpu = -1;
  UniqueFd lock;
};

// Claims the first CPU in poller_cpus that is free. Returns Exhausted if all are claimed: the
// caller then had better not pin a thread to one CPU. Returns System, after a line that says why,
// if a lock fails for another reason.
Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node);

// Allows only the CPUs of the list. Returns NotFound, and changes nothing, if none of them was
// allowed.
Status restrict_cpus(HostTopology& host, std::span<const int> cpus);

// Pins the calling thread to the CPUs. A failure changes nothing: System, with an INFO line, if the
// kernel refuses, for example because the cpuset has shrunk; System without one if there is no
// memory; InvalidArgument for a CPU that is not in 0..kCpusMax - 1.
Status pin_this_thread(std::span<const int> cpus);

}  // namespace mesh::topo
