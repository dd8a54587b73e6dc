#pragma once
// The part of hwloc that we use, found at run time. Only src/topo sees hwloc's header, and nothing
// links its library, which stays loaded. Thread: any, at start-up. Bound: the table.

#include <mesh/status.h>

#include <hwloc.h>

namespace mesh::topo {

inline constexpr const char* kHwlocLibrary = "libhwloc.so.15";  // the ABI of hwloc 2

struct HwlocApi {
  decltype(&::hwloc_topology_init) topology_init = nullptr;
  decltype(&::hwloc_topology_load) topology_load = nullptr;
  decltype(&::hwloc_topology_set_io_types_filter) topology_set_io_types_filter = nullptr;
  decltype(&::hwloc_topology_set_xmlbuffer) topology_set_xmlbuffer = nullptr;
  decltype(&::hwloc_topology_destroy) topology_destroy = nullptr;
  decltype(&::hwloc_get_type_depth) get_type_depth = nullptr;
  decltype(&::hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth = nullptr;
  decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&::hwloc_bitmap_next) bitmap_next = nullptr;
};

// Returns NotFound if the library is missing or has another ABI; one INFO line said so.
Result<HwlocApi> load_hwloc_api(const char* library = kHwlocLibrary);

}  // namespace mesh::topo
