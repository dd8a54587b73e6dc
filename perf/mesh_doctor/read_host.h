#pragma once
// Reads the facts of the host that this process runs on: the plugin's rails, and the files below
// the options' root. Thread: one owner; the readers of files may run on any thread. Bound: the
// files, PCI functions and RDMA devices of the host, and the plugin's devices.

#include "perf/mesh_doctor/doctor.h"
#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <string>
#include <vector>

namespace mesh::doctor {

HostFacts read_host(const Options& options);

// Reads the error counters once more, into counters_later.
void read_again(const Options& options, HostFacts& facts);

// Returns a text that the processes of this host have, and no other: its name may be another's too.
std::string host_identity();

// Reads the files alone, without the plugin.
void read_files(const Tree& tree, const Environment& environment, HostFacts& facts);

// Reads the ports of the kernel's RDMA devices, and the PCI functions of network cards.
std::vector<PortFacts> read_ports(const Tree& tree);
Counters read_counters(const Tree& tree, const PortFacts& port);
std::vector<PcieFacts> read_pcie(const Tree& tree, const std::vector<PortFacts>& ports);

// Returns the fastest link mode that the interface's driver supports, in Mb/s; -1 if it tells none.
int capable_mbps(const std::string& netdev);

// Reads what concerns RDMA beside the network cards: limits, memory, IOMMU, GPUs.
MachineFacts read_machine(const Tree& tree);

// Returns the environment with what nccl.conf adds to it, as NCCL does at its start.
Environment with_conf_files(const Tree& tree, Environment environment);

// Returns the plugin that a job would load, if that is nccl-mesh; or else the one beside this tool.
std::string plugin_of_job(const Tree& tree, const Environment& environment);

// Reads which NCCL and which network plugin a job from this environment would take, and what is set
// for them.
SoftwareFacts read_software(const Tree& tree, const Environment& environment);

// Fills the plugin's part of the facts: its name or why there is none, its rails and its notes.
void read_rails(const std::string& plugin_file, HostFacts& facts);

}  // namespace mesh::doctor
