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

// Allowed CPUs in the order in which pollers of a NIC on that node should take them: those of the
// node before others, fast kinds before slow ones, one hardware thread of each core before the
// second, and high numbers first, because CPU 0 serves most interrupts.
std::vector<int> poller_cpus(const HostTopology& host, int numa_node);

// Holds a CPU for one poller among all processes of this user on this machine, whatever their
// network namespace, until it is destroyed. The claim is a locked file in user_directory(): it ends
// with its process, and no other user can take it. Claims of different users do not meet, nor do
// those of containers that share no /dev/shm. Give such jobs CPUs of their own (NCCL_MESH_CPUS, or
// a cpuset).
struct CpuClaim {
  int cpu = -1;
  UniqueFd lock;
};

// Claims the first CPU in poller_cpus that is free. Exhausted: all are claimed, so it is better not
// to pin to a single one. System: nothing can be claimed, and a line said why.
Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node);

// Allows only the CPUs of the list. NotFound: none of them was allowed, and nothing is changed.
Status restrict_cpus(HostTopology& host, std::span<const int> cpus);

// System: the kernel refused, for example because the cpuset has shrunk. One INFO line said so, and
// nothing has changed.
Status pin_this_thread(std::span<const int> cpus);

}  // namespace mesh::topo
