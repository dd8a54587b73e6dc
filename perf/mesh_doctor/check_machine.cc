#include "perf/mesh_doctor/checks.h"

#include "plugin/nccl/types.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::doctor {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// A connection's buffer is 4 MiB for one of NCCL's three protocols, and less for the two others. So
// two channels to two peers, both ways, are between 32 and 96 MiB.
constexpr std::int64_t kLockedMin = 64 * kMiB;

void check_memlock(const HostFacts& facts, Findings& found) {
  const MachineFacts& machine = facts.machine;
  const bool limited = machine.memlock_bytes >= 0 && machine.memlock_bytes < kLockedMin;
  if (!limited || machine.may_lock) return;
  add_finding(found, "memlock-small", facts.host,
              {.about = "RLIMIT_MEMLOCK",
               .evidence = fmt::format("This process may lock {} KiB of memory, and has no right "
                                       "to lock more (CAP_IPC_LOCK). NCCL registers many MiB.",
                                       machine.memlock_bytes / 1024),
               .remedy = "Remove the limit: ulimit -l unlimited in a shell, memlock in "
                         "/etc/security/limits.d, LimitMEMLOCK=infinity for a service (sshd, "
                         "slurmd), or --ulimit memlock=-1 for a container."});
}

// Kexec handover (KHO) takes its memory at boot, marks it as CMA and counts it as free but not in
// the total. A registration moves its pages out of such memory, which fails when the rest is full.
// The kernel's count of free pages may be some MiB off, because each CPU keeps a part of it.
void check_contiguous(const HostFacts& facts, Findings& found) {
  constexpr std::int64_t kCountErrorKib = 64 * 1024;
  const MachineFacts& machine = facts.machine;
  if (machine.cma_free_kib < 0 || machine.cma_total_kib < 0) return;
  const std::int64_t uncounted = machine.cma_free_kib - machine.cma_total_kib;
  if (uncounted <= kCountErrorKib) return;
  add_finding(
      found, "no-contiguous-memory", facts.host,
      {.about = "/proc/meminfo",
       .evidence = fmt::format("CmaFree ({} kB) is above CmaTotal ({} kB){}. The kernel keeps {} "
                               "MiB for kexec handover (KHO), and when programs have filled the "
                               "rest, it refuses to register buffers of any size (ENOMEM).",
                               machine.cma_free_kib, machine.cma_total_kib,
                               machine.kernel.empty() ? "" : " on kernel " + machine.kernel,
                               uncounted / 1024),
       .remedy =
           "Set kho=off on the kernel's command line, or install a kernel 6.17, and reboot."});
}

void check_huge_pages(const HostFacts& facts, Findings& found) {
  const MachineFacts& machine = facts.machine;
  const std::int64_t idle = machine.huge_pages_free * machine.huge_page_kib;
  if (machine.huge_pages <= 0 || idle <= 0 || machine.memory_kib <= 0) return;
  if (idle * 2 < machine.memory_kib) return;
  add_finding(
      found, "huge-pages-idle", facts.host,
      {.about = "HugePages_Free",
       .evidence = fmt::format("{} of {} MiB of memory are reserved as huge pages that nobody "
                               "uses; buffers cannot use them.",
                               idle / 1024, machine.memory_kib / 1024),
       .remedy = "Run sysctl vm.nr_hugepages=0, unless a program on this host needs huge pages."});
}

bool only_host_memory(const HostFacts& facts) {
  return !facts.rails.empty() &&
         std::none_of(facts.rails.begin(), facts.rails.end(), [](const RailFacts& rail) {
           return (rail.pointers & (NCCL_PTR_CUDA | NCCL_PTR_DMABUF)) != 0;
         });
}

// A DGX Spark's GPU has no memory of its own that a card could reach.
void check_peer_memory(const HostFacts& facts, Findings& found) {
  if (is_spark(facts.machine)) return;
  if (facts.machine.gpus.empty() || !only_host_memory(facts)) return;
  const std::vector<std::string>& modules = facts.machine.modules;
  add_finding(found, "no-gpu-memory", facts.host,
              {.about = facts.machine.gpus.front(),
               .evidence = fmt::format(
                   "The host has {} NVIDIA GPUs, and no rail can register their memory: there are "
                   "neither DMA buffers nor a peer-memory module. Loaded modules: {}.",
                   facts.machine.gpus.size(),
                   modules.empty() ? "none" : fmt::format("{}", fmt::join(modules, " "))),
               .remedy = "Run modprobe nvidia_peermem, or use NVIDIA's open kernel modules on a "
                         "kernel with DMA buffers for RDMA (5.12 and later)."});
}

void check_iommu(const HostFacts& facts, Findings& found) {
  if (facts.machine.gpus.empty() || facts.machine.processor != "x86_64") return;
  const auto card = std::find_if(facts.pcie.begin(), facts.pcie.end(), [](const PcieFacts& each) {
    return each.iommu.starts_with("DMA");
  });
  if (card != facts.pcie.end()) {
    add_finding(
        found, "iommu-translates", facts.host,
        {.about = card->pci,
         .evidence = fmt::format("The IOMMU translates this card's accesses (its group has the "
                                 "type {}), so traffic to a GPU passes through the CPU.",
                                 card->iommu),
         .remedy =
             "Add iommu=pt to the kernel's command line, or turn the IOMMU off, and reboot."});
  }
  if (facts.machine.acs_bridges.empty()) return;
  add_finding(
      found, "acs-redirects", facts.host,
      {.about = facts.machine.acs_bridges.front(),
       .evidence = fmt::format("PCIe access control (ACS) redirects traffic between devices "
                               "through the CPU on {} bridges, of which this is the first.",
                               facts.machine.acs_bridges.size()),
       .remedy = "Turn ACS off in the firmware set-up, or run setpci -s BRIDGE ECAP_ACS+6.w=0 for "
                 "each bridge at every boot."});
}

}  // namespace

bool is_spark(const MachineFacts& machine) {
  return machine.has_gb10 || machine.product.find("Spark") != std::string::npos ||
         machine.product.find("GB10") != std::string::npos;
}

void check_machine(const HostFacts& facts, Findings& found) {
  check_memlock(facts, found);
  check_contiguous(facts, found);
  check_huge_pages(facts, found);
  check_peer_memory(facts, found);
  check_iommu(facts, found);
}

}  // namespace mesh::doctor
