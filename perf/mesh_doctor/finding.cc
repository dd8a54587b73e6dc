#include "perf/mesh_doctor/finding.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mesh::doctor {
namespace {

using enum Severity;

constexpr std::array kKinds{
    // Findings about one host.
    FindingKind{"no-plugin", Broken, "nccl-mesh cannot be loaded, or refuses to start"},
    FindingKind{"no-rail", Broken, "no RDMA port of the host can be used"},
    FindingKind{"no-provider", Broken,
                "the kernel has an RDMA device, and libibverbs does not show it to programs"},
    FindingKind{"card-silent", Broken, "an RDMA card does not answer a command"},
    FindingKind{"port-not-used", Warning, "a port is active, and the plugin cannot use it"},
    FindingKind{"half-gone", Warning, "one of the two PCIe halves of a socket is missing"},
    FindingKind{"half-unused", Warning, "one of the two PCIe halves of a socket is no rail"},
    FindingKind{"pcie-low", Warning,
                "a card's PCIe link is narrower or slower than card and slot support"},
    FindingKind{"card-without-device", Warning,
                "a network card is on the bus and has no RDMA device"},
    FindingKind{"mtu-small", Warning, "the interface's MTU keeps RDMA packets below 4096 bytes"},
    FindingKind{"mtu-not-taken", Warning,
                "the RDMA device uses smaller packets than its interface's MTU allows"},
    FindingKind{"port-slow", Warning, "a port runs below the speed that it supports"},
    FindingKind{"gid-none", Broken, "an active port has no GID"},
    FindingKind{"gid-old-type", Broken, "an active port has no GID of the type RoCE v2"},
    FindingKind{"gid-pinned", Warning, "`NCCL_IB_GID_INDEX` names a GID of another type, or none"},
    FindingKind{"same-subnet", Warning,
                "ports share a subnet, and the kernel answers ARP for one over another"},
    FindingKind{"traffic-class-slow", Warning,
                "a port limits the traffic class that a job's packets take"},
    FindingKind{"errors-move", Warning, "error counters of a port rose while the doctor ran"},
    FindingKind{"memlock-small", Broken, "the process may not lock the memory that NCCL registers"},
    FindingKind{"no-contiguous-memory", Warning,
                "the kernel keeps memory for itself that it does not count (`CmaFree` is above "
                "`CmaTotal`)"},
    FindingKind{"huge-pages-idle", Warning,
                "half of the memory is reserved as huge pages that nobody uses"},
    FindingKind{"no-gpu-memory", Warning,
                "the host has GPUs, and no rail can register their memory"},
    FindingKind{
        "iommu-translates", Warning,
        "the IOMMU translates a card's accesses, so traffic to GPUs passes through the CPU"},
    FindingKind{"acs-redirects", Warning,
                "PCI bridges redirect traffic between card and GPU through the CPU"},
    FindingKind{"nccl-too-old", Broken, "NCCL has no interface that the plugin offers"},
    FindingKind{"nccl-hangs", Broken,
                "this NCCL is known to hang on this processor (aarch64, below 2.29.3)"},
    FindingKind{"two-nccl", Warning, "the loader and Python find different versions of NCCL"},
    FindingKind{"plugin-missing", Broken,
                "`NCCL_NET_PLUGIN` names a library that the loader does not find"},
    FindingKind{"plugin-not-chosen", Warning,
                "`NCCL_NET_PLUGIN` is not set, so NCCL uses its own transport without a word"},
    FindingKind{"plugin-off", Broken,
                "`NCCL_NET_PLUGIN` is `none`, or it is empty and NCCL is 2.27 or later"},
    FindingKind{"plugin-other-version", Warning,
                "NCCL would load another version of nccl-mesh than this tool's"},
    FindingKind{"foreign-plugin", Broken, "NCCL would load another network plugin"},
    FindingKind{"other-net", Broken, "`NCCL_NET` chooses another network, or is empty"},
    FindingKind{"hca-names-none", Broken, "`NCCL_IB_HCA` selects no port of the host"},
    FindingKind{"interface-names-none", Broken,
                "`NCCL_SOCKET_IFNAME` names no interface of the host"},
    FindingKind{"setting-unknown", Warning, "a variable `NCCL_MESH_...` that does not exist"},
    FindingKind{"setting-idle", Warning, "a setting of NCCL that has no effect with nccl-mesh"},
    FindingKind{"conf-leftover", Warning, "`nccl.conf` chooses networks or ports for every job"},
    // Findings between hosts.
    FindingKind{"host-missing", Broken, "a host did not connect, or is only in the expected map"},
    FindingKind{"host-lost", Broken, "a host took part and stopped answering"},
    FindingKind{"handshake-network", Broken, "a host does not reach another one for the handshake"},
    FindingKind{"missing-cable", Broken, "an expected cable is missing"},
    FindingKind{"extra-cable", Warning, "a cable is not in the expected map"},
    FindingKind{"crossed-cables", Broken, "a port meets another port than the expected one"},
    FindingKind{"wrong-subnet", Broken, "the ends of an expected cable are in different subnets"},
    FindingKind{"ends-do-not-fit", Broken,
                "two rails share a subnet and cannot meet: RoCE versions or partitions differ, or "
                "both have one address"},
    FindingKind{"lone-rail", Warning, "a rail meets no rail of the other hosts"},
    FindingKind{"shared-subnet", Warning, "several cables between hosts are in one subnet"},
    FindingKind{"cable-down", Broken, "a port of a cable is down"},
    FindingKind{"half-missing", Warning, "one of a cable's two PCIe halves is missing or down"},
    FindingKind{"mtu-differs", Warning, "the two ends of a cable have different MTUs"},
    FindingKind{"mtu-black-hole", Broken, "small packets pass a cable and full ones are lost"},
    FindingKind{"silent-cable", Broken, "two ports meet by their addresses, and no message passes"},
    FindingKind{"forward-drop", Broken,
                "a host between two ports of different subnets forwards no packets"},
    FindingKind{"not-measured", Warning, "the hosts of a cable could not measure it"},
    FindingKind{"flapping-port", Broken, "a port went down while its cable was measured"},
    FindingKind{"slow-cable", Warning, "a cable carries too little in both directions"},
    FindingKind{"slow-half", Warning, "one PCIe half of a cable carries too little"},
    FindingKind{"sick-direction", Warning, "one direction of a cable carries too little"},
    FindingKind{"rank-order", Warning,
                "neighbours in the ring have no cable; another order gives each a cable"},
};

struct Echo {
  std::string_view between, cause;
};
constexpr std::array kEchoes{
    Echo{"half-missing", "half-gone"},
    Echo{"half-missing", "half-unused"},
    Echo{"mtu-differs", "mtu-small"},
    Echo{"mtu-differs", "mtu-not-taken"},
    Echo{"handshake-network", "interface-names-none"},
};

bool concerns(const Finding& between, const std::string& host) {
  return between.host.starts_with(host + " and ") || between.host.ends_with(" and " + host);
}

}  // namespace

const char* severity_name(Severity severity) noexcept {
  return severity == Severity::Broken ? "broken" : "warning";
}

std::span<const FindingKind> finding_kinds() noexcept { return kKinds; }

Finding finding(std::string_view name, const std::string& host, Remark remark) {
  const auto* const kind = std::find_if(
      kKinds.begin(), kKinds.end(), [name](const FindingKind& each) { return each.name == name; });
  CHECK(kind != kKinds.end());
  return {.name = kind->name,
          .severity = kind->severity,
          .host = host,
          .about = std::move(remark.about),
          .evidence = std::move(remark.evidence),
          .remedy = std::move(remark.remedy)};
}

std::vector<Finding> without_echoes(std::vector<Finding> between, const std::vector<Finding>& own) {
  const auto is_echo = [&own](const Finding& each) {
    return std::any_of(own.begin(), own.end(), [&each](const Finding& cause) {
      const auto pairs = [&](const Echo& echo) {
        return echo.between == each.name && echo.cause == cause.name;
      };
      return concerns(each, cause.host) && std::any_of(kEchoes.begin(), kEchoes.end(), pairs);
    });
  };
  std::erase_if(between, is_echo);
  return between;
}

}  // namespace mesh::doctor
