#include "src/topo/ways.h"

#include "src/base/log.h"
#include "src/topo/hwloc_api.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

namespace mesh::topo {

namespace {
constexpr double kBitsPerByte = 8;
constexpr int kDisplayClass = 0x03;  // PCI base class: VGA, 3D and other display controllers
// Displays of management controllers: ASPEED and Matrox.
constexpr unsigned kNoGpuVendors[] = {0x1a03, 0x102b};

using PciFunction = hwloc_obj_attr_u::hwloc_pcidev_attr_s;
using Topology = std::unique_ptr<hwloc_topology, decltype(&::hwloc_topology_destroy)>;

std::string pci_name(const PciFunction& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

bool is_gpu(const PciFunction& pci) {
  if (pci.class_id >> 8 != kDisplayClass) return false;
  for (const unsigned vendor : kNoGpuVendors) {
    if (pci.vendor_id == vendor) return false;
  }
  return true;
}

bool is_host_bridge(const hwloc_obj& object) {
  return object.type == HWLOC_OBJ_BRIDGE &&
         object.attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

// Returns the rate of the link above a device or a bridge. A downstream port reports that of the
// link below it.
double link_gbps(const hwloc_obj& object) {
  const PciFunction& pci =
      object.type == HWLOC_OBJ_PCI_DEVICE ? object.attr->pcidev : object.attr->bridge.upstream.pci;
  return static_cast<double>(pci.linkspeed) * kBitsPerByte;
}

class Reader {
 public:
  Reader(const HwlocApi& api, hwloc_topology_t topology) : api_(api), topology_(topology) {}

  HostParts read() {
    add_all(HWLOC_OBJ_PACKAGE);
    add_all(HWLOC_OBJ_NUMANODE);
    add_all(HWLOC_OBJ_BRIDGE);
    add_all(HWLOC_OBJ_PCI_DEVICE);
    join_packages();
    for (const hwloc_obj_t object : objects_) join(*object);
    return std::move(host_);
  }

 private:
  void add_all(hwloc_obj_type_t type) {
    const int depth = api_.get_type_depth(topology_, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return;
    const unsigned count = api_.get_nbobjs_by_depth(topology_, depth);
    for (unsigned i = 0; i < count && host_.parts.size() < kPartsMax; ++i) {
      const hwloc_obj_t object = api_.get_obj_by_depth(topology_, depth, i);
      if (object == nullptr || object->attr == nullptr) continue;
      index_[object] = host_.parts.size();
      objects_.push_back(object);
      host_.parts.push_back(part_of(*object));
    }
  }

  static Part part_of(const hwloc_obj& object) {
    switch (object.type) {
      case HWLOC_OBJ_PACKAGE:
        return {.kind = PartKind::Package, .name = fmt::format("CPU package {}", object.os_index)};
      case HWLOC_OBJ_NUMANODE:
        return {.kind = PartKind::Memory, .name = fmt::format("memory node {}", object.os_index)};
      case HWLOC_OBJ_BRIDGE:
        if (is_host_bridge(object))
          return {.kind = PartKind::HostBridge,
                  .name = fmt::format("host bridge {}", object.logical_index)};
        return {.kind = PartKind::Bridge, .name = pci_name(object.attr->bridge.upstream.pci)};
      default: break;
    }
    return device_of(object);
  }

  static Part device_of(const hwloc_obj& object) {
    Part part{.kind = PartKind::Device, .name = pci_name(object.attr->pcidev)};
    part.gpu = is_gpu(object.attr->pcidev);
    for (const hwloc_obj* child = object.io_first_child; child != nullptr;
         child = child->next_sibling) {
      if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
      const hwloc_obj_osdev_type_t type = child->attr->osdev.type;
      if (type != HWLOC_OBJ_OSDEV_GPU && type != HWLOC_OBJ_OSDEV_COPROC) continue;
      if (part.gpu && part.os_name.empty()) part.os_name = child->name;
    }
    return part;
  }

  void join(const hwloc_obj& object) {
    if (object.type == HWLOC_OBJ_PACKAGE) return;
    if (object.type == HWLOC_OBJ_NUMANODE) return join_memory(object);
    if (is_host_bridge(object)) return join_host_bridge(object);
    const auto above = index_.find(object.parent);
    if (above == index_.end()) return;
    // A bridge directly below the host bridge is the host's own port.
    const bool below_host_bridge = is_host_bridge(*object.parent);
    const bool is_port = below_host_bridge && object.type == HWLOC_OBJ_BRIDGE;
    join_two(above->second, index_.at(&object), is_port ? kWide : link_gbps(object));
  }

  // Joins a node to its package, which may have several, or to packages without a node of their
  // own.
  void join_memory(const hwloc_obj& memory) {
    for (const hwloc_obj_t package : objects_) {
      if (package->type == HWLOC_OBJ_PACKAGE && meet(memory.cpuset, package->cpuset))
        join_two(index_.at(&memory), index_.at(package), kWide);
    }
  }

  // Joins a host bridge to the nodes at which hwloc has put it: one, those of a package, or all
  // nodes if hwloc does not know.
  void join_host_bridge(const hwloc_obj& bridge) {
    const hwloc_obj* place = bridge.parent;
    while (place != nullptr && place->nodeset == nullptr) place = place->parent;
    if (place == nullptr) return;
    for (const hwloc_obj_t memory : objects_) {
      if (memory->type == HWLOC_OBJ_NUMANODE && meet(memory->nodeset, place->nodeset))
        join_two(index_.at(memory), index_.at(&bridge), kWide);
    }
  }

  // hwloc does not tell how wide the links between sockets are.
  void join_packages() {
    for (std::size_t a = 0; a < objects_.size(); ++a) {
      for (std::size_t b = a + 1; b < objects_.size(); ++b) {
        if (objects_[a]->type == HWLOC_OBJ_PACKAGE && objects_[b]->type == HWLOC_OBJ_PACKAGE)
          join_two(a, b, 0);
      }
    }
  }

  void join_two(std::size_t a, std::size_t b, double gbps) {
    host_.joints.push_back({.a = a, .b = b, .gbps = gbps});
  }

  bool meet(hwloc_const_bitmap_t a, hwloc_const_bitmap_t b) const {
    if (a == nullptr || b == nullptr) return false;
    std::set<int> first;
    for (int i = api_.bitmap_next(a, -1); i >= 0; i = api_.bitmap_next(a, i)) first.insert(i);
    for (int i = api_.bitmap_next(b, -1); i >= 0; i = api_.bitmap_next(b, i)) {
      if (first.contains(i)) return true;
    }
    return false;
  }

  const HwlocApi& api_;
  hwloc_topology_t topology_;
  HostParts host_;
  std::vector<hwloc_obj_t> objects_;  // by part
  std::map<const hwloc_obj*, std::size_t> index_;
};
}  // namespace

Result<HostParts> read_host_parts(const PartsSource& source) {
  const Result<HwlocApi> api = load_hwloc_api(source.hwloc_library.c_str());
  if (!api.ok()) return api.status();
  hwloc_topology_t raw = nullptr;
  if (api->topology_init(&raw) != 0) return Errc::NotFound;
  const Topology topology(raw, api->topology_destroy);
  const int bytes = static_cast<int>(source.xml.size()) + 1;  // with the closing zero
  const bool ready =
      api->topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
      (source.xml.empty() || api->topology_set_xmlbuffer(raw, source.xml.c_str(), bytes) == 0) &&
      api->topology_load(raw) == 0;
  if (!ready) {
    LOG_INFO("{} reads no topology here: the ways within this host are not known",
             source.hwloc_library);
    return Errc::NotFound;
  }
  return Reader(*api, raw).read();
}

}  // namespace mesh::topo
