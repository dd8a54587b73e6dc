#pragma once
// Where poller threads run: near their NIC, on the fast kind of core, one to a core, and not on a core that a poller of
// another process of this host has taken.
// Thread: any; pin_this_thread is about the caller.

#include <mesh/status.h>

#include "src/base/unique_fd.h"
#include "src/topo/host_topology.h"

#include <span>
#include <vector>

namespace mesh::topo {

// Allowed CPUs in the order in which pollers of a NIC on that node should take them: the node's before others; fast kinds
// before slow; one hardware thread of each core before the second; high numbers first, since CPU 0 serves most interrupts.
std::vector<int> poller_cpus(const HostTopology& host, int numa_node);

// Poller k of a NIC: the k-th of poller_cpus. NotFound: there are not so many.
Result<int> choose_cpu(const HostTopology& host, int numa_node, int k);

// A core taken for one poller among all processes of this host (network namespace), until destroyed. A name in the kernel
// is the claim, so a killed process leaves nothing behind.
struct CpuClaim {
  int cpu = -1;
  UniqueFd name;
};

// The first CPU in poller_cpus that nobody has claimed. Exhausted: all are; then better not pin to a single one.
Result<CpuClaim> claim_cpu(const HostTopology& host, int numa_node);

// Leaves only the CPUs of the list allowed. NotFound: none of them was; nothing is changed.
Status restrict_cpus(HostTopology& host, std::span<const int> cpus);

// System: the kernel refused (say, the cpuset shrank meanwhile); one INFO line said so and nothing changed.
Status pin_this_thread(std::span<const int> cpus);

}  // namespace mesh::topo
