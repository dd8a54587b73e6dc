#include "src/topo/hwloc_api.h"

#include "src/base/log.h"

#include <dlfcn.h>

namespace mesh::topo {

namespace {
template <typename Function>
bool bind(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}
}  // namespace

Result<HwlocApi> load_hwloc_api(const char* library) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    LOG_INFO("{} does not load: cores and NUMA nodes are read from sysfs instead", library);
    return Errc::NotFound;
  }
  HwlocApi api;
  const bool whole =
      bind(opened, api.topology_init, "hwloc_topology_init") &&
      bind(opened, api.topology_load, "hwloc_topology_load") &&
      bind(opened, api.topology_set_io_types_filter, "hwloc_topology_set_io_types_filter") &&
      bind(opened, api.topology_set_xmlbuffer, "hwloc_topology_set_xmlbuffer") &&
      bind(opened, api.topology_destroy, "hwloc_topology_destroy") &&
      bind(opened, api.get_type_depth, "hwloc_get_type_depth") &&
      bind(opened, api.get_nbobjs_by_depth, "hwloc_get_nbobjs_by_depth") &&
      bind(opened, api.get_obj_by_depth, "hwloc_get_obj_by_depth") &&
      bind(opened, api.bitmap_next, "hwloc_bitmap_next");
  decltype(&::hwloc_get_api_version) version = nullptr;
  // The layout of objects is part of the ABI and changes with the major number.
  if (!whole || !bind(opened, version, "hwloc_get_api_version") ||
      version() >> 16 != HWLOC_API_VERSION >> 16) {
    LOG_INFO(
        "{} is of another version than hwloc {}: cores and NUMA nodes are read from sysfs instead",
        library, HWLOC_API_VERSION >> 16);
    return Errc::NotFound;
  }
  return api;
}

}  // namespace mesh::topo
