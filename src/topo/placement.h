#pragma once
// Where poller threads run: near their NIC, on the fast kind of core, one to a core, and not on a
// core that a poller of another process of this host has taken. Thread: any; pin_this_thread is
// about the caller.

#include <mesh/status.h>

#include "src/base/unique_fd.h"
#include "src/topo/host_topology.h"

#include <span>
#include <vector>

namespace mesh::topo {

// Allowed CPUs in the order in which pollers of a NIC on that node should take them: the node's
// before others; fast kinds before slow; one hardware thread of each core before the second; high
// numbers first, since CPU 0 serves most interrupts.
std::vector<int> poller_cpus(const HostTopology& host, int numa_node);

// A CPU taken for one poller among all processes that this user runs on this machine, in whatever
// network namespace, until destroyed. A locked file in user_directory() is the claim: it ends with
// its process, and no other user can take it. Claims of different users do not meet, nor do those
// of containers that share no /dev/shm: give such jobs CPUs of their own (NCCL_MESH_CPUS, or a
// cpuset).
struct CpuClaim {
  int cpu = -1;
  UniqueFd lock;
};

// The first CPU in poller_cpus that nobody has claimed. Exhausted: all are; then better not pin to
// a single one. System: nothing can be claimed; a line said why.
Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node);

// Leaves only the CPUs of the list allowed. NotFound: none of them was; nothing is changed.
Status restrict_cpus(HostTopology& host, std::span<const int> cpus);

// System: the kernel refused (say, the cpuset shrank meanwhile); one INFO line said so and nothing
// changed.
Status pin_this_thread(std::span<const int> cpus);

}  // namespace mesh::topo
