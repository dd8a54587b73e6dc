#include "perf/mesh_doctor/host_facts.h"

#include <nlohmann/json.hpp>

namespace mesh::doctor {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, text, gid_index)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RailFacts, index, name, pci, addresses, gid_type, mtu,
                                   speed_mbps, numa_node, port, pointers, guid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RefusalFacts, port, kind, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SilentCard, card, call, waited_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GidFacts, index, gid, type, netdev)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrafficClasses, limit_mbps, of_priority, priority_of_dscp)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PortFacts, name, device, port, link_layer, state, physical_state,
                                   rate_mbps, capable_mbps, netdev, netdev_mtu, pci, cable, card,
                                   other_half, gids, arp_ignore, verbs_file, classes, counters,
                                   counters_later)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PcieFacts, pci, id, device, width, width_max, gts, gts_max,
                                   iommu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryFacts, found_by, path, file, version, ours)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SettingFacts, name, value, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineFacts, product, processor, kernel, memlock_bytes,
                                   memlock_unlimited, may_lock, memory_kib, cma_total_kib,
                                   cma_free_kib, huge_pages, huge_pages_free, huge_page_kib, gpus,
                                   has_gb10, modules, acs_known, acs_bridges, interfaces,
                                   ip_forward, forward_policy)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SoftwareFacts, nccl, plugins, missing_plugins, verbs_providers,
                                   settings)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFacts, host, plugin, plugin_file, plugin_version,
                                   plugin_error, no_rdma, rails, refused, silent, notes, ports,
                                   pcie, software, machine)

std::string to_text(const HostFacts& facts) {
  return Json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<HostFacts> facts_from(const std::string& text) {
  try {
    return Json::parse(text).get<HostFacts>();
  } catch (const Json::exception&) {
    return Errc::Protocol;
  }
}

}  // namespace mesh::doctor
