#include "perf/mesh_doctor/finding.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>

namespace mesh::doctor {
namespace {

using enum Severity;

constexpr auto kKinds = std::to_array<FindingKind>({
    // Findings about one host.
    {"no-plugin", Broken, "nccl-mesh cannot be loaded, or refuses to start"},
    {"no-rail", Broken, "no RDMA port of the host can be used"},
    {"no-provider", Broken,
     "the kernel has an RDMA device, and libibverbs does not show it to programs"},
    {"card-silent", Broken, "an RDMA card does not answer a command"},
    {"port-not-used", Warning, "a port is active, and the plugin cannot use it"},
    {"half-gone", Warning, "one of the two PCIe halves of a socket is missing"},
    {"half-unused", Warning, "one of the two PCIe halves of a socket is no rail"},
    {"pcie-low", Warning, "a card's PCIe link is narrower or slower than card and slot support"},
    {"card-without-device", Warning, "a network card is on the bus and has no RDMA device"},
    {"mtu-small", Warning, "the interface's MTU keeps RDMA packets below 4096 bytes"},
    {"mtu-not-taken", Warning,
     "the RDMA device uses smaller packets than its interface's MTU allows"},
    {"port-slow", Warning, "a port runs below the speed that it supports"},
    {"gid-none", Broken, "an active port has no GID"},
    {"gid-old-type", Broken, "an active port has no GID of the type RoCE v2"},
    {"gid-pinned", Warning, "`NCCL_IB_GID_INDEX` names a GID of another type, or none"},
    {"same-subnet", Warning,
     "ports share a subnet, and the kernel answers ARP for one over another"},
    {"traffic-class-slow", Warning, "a port limits the traffic class that a job's packets take"},
    {"errors-move", Warning, "error counters of a port rose while the doctor ran"},
    {"memlock-small", Broken, "the process may not lock the memory that NCCL registers"},
    {"no-contiguous-memory", Warning,
     "the kernel keeps memory for itself that it does not count (`CmaFree` is above `CmaTotal`)"},
    {"huge-pages-idle", Warning, "half of the memory is reserved as huge pages that nobody uses"},
    {"no-gpu-memory", Warning, "the host has GPUs, and no rail can register their memory"},
    {"iommu-translates", Warning,
     "the IOMMU translates a card's accesses, so traffic to GPUs passes through the CPU"},
    {"acs-redirects", Warning, "PCI bridges redirect traffic between card and GPU through the CPU"},
    {"nccl-too-old", Broken, "NCCL has no interface that the plugin offers"},
    {"nccl-hangs", Broken, "this NCCL is known to hang on this processor (aarch64, below 2.29.3)"},
    {"two-nccl", Warning, "the loader and Python find different versions of NCCL"},
    {"plugin-missing", Broken, "`NCCL_NET_PLUGIN` names a library that the loader does not find"},
    {"plugin-not-chosen", Warning,
     "`NCCL_NET_PLUGIN` is not set, so NCCL uses its own transport without a word"},
    {"plugin-off", Broken, "`NCCL_NET_PLUGIN` is `none`, or it is empty and NCCL is 2.27 or later"},
    {"plugin-other-version", Warning,
     "NCCL would load another version of nccl-mesh than this tool's"},
    {"foreign-plugin", Broken, "NCCL would load another network plugin"},
    {"other-net", Broken, "`NCCL_NET` chooses another network, or is empty"},
    {"hca-names-none", Broken, "`NCCL_IB_HCA` selects no port of the host"},
    {"interface-names-none", Broken, "`NCCL_SOCKET_IFNAME` names no interface of the host"},
    {"setting-unknown", Warning, "a variable `NCCL_MESH_...` that does not exist"},
    {"setting-idle", Warning, "a setting of NCCL that has no effect with nccl-mesh"},
    {"conf-leftover", Warning, "`nccl.conf` chooses networks or ports for every job"},
    // Findings between hosts.
    {"host-missing", Broken, "a host did not connect, or is only in the expected map"},
    {"host-lost", Broken, "a host took part and stopped answering"},
    {"handshake-network", Broken, "a host does not reach another one for the handshake"},
    {"missing-cable", Broken, "an expected cable is missing"},
    {"extra-cable", Warning, "a cable is not in the expected map"},
    {"crossed-cables", Broken, "a port meets another port than the expected one"},
    {"wrong-subnet", Broken, "the ends of an expected cable are in different subnets"},
    {"ends-do-not-fit", Broken,
     "two rails share a subnet and cannot meet: RoCE versions or partitions differ, or both have "
     "one address"},
    {"lone-rail", Warning, "a rail meets no rail of the other hosts"},
    {"shared-subnet", Warning, "several cables between hosts are in one subnet"},
    {"cable-down", Broken, "a port of a cable is down"},
    {"half-missing", Warning, "one of a cable's two PCIe halves is missing or down"},
    {"mtu-differs", Warning, "the two ends of a cable have different MTUs"},
    {"mtu-black-hole", Broken, "small packets pass a cable and full ones are lost"},
    {"silent-cable", Broken, "two ports meet by their addresses, and no message passes"},
    {"forward-drop", Broken, "a host between two ports of different subnets forwards no packets"},
    {"not-measured", Warning, "the hosts of a cable could not measure it"},
    {"flapping-port", Broken, "a port went down while its cable was measured"},
    {"slow-cable", Warning, "a cable carries too little in both directions"},
    {"slow-half", Warning, "one PCIe half of a cable carries too little"},
    {"sick-direction", Warning, "one direction of a cable carries too little"},
    {"rank-order", Warning,
     "neighbours in the ring have no cable; another order gives each a cable"},
});

struct Echo {
  std::string_view between, cause;
};
constexpr auto kEchoes = std::to_array<Echo>({
    {"half-missing", "half-gone"},
    {"half-missing", "half-unused"},
    {"mtu-differs", "mtu-small"},
    {"mtu-differs", "mtu-not-taken"},
    {"handshake-network", "interface-names-none"},
});

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

void add_finding(std::vector<Finding>& found, std::string_view name, const std::string& host,
                 Remark remark) {
  found.push_back(finding(name, host, std::move(remark)));
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
