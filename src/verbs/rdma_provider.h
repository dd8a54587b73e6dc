#pragma once
// The provider over rdma-core. It forwards set-up calls to libibverbs, and reads what libibverbs
// does not know from sysfs and from the host's interface addresses. Thread: any (libibverbs locks).
// Bound: none.

#include <mesh/status.h>

#include "src/base/socket.h"
#include "src/verbs/kernel_route.h"
#include "src/verbs/provider.h"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mesh::verbs {

inline constexpr const char* kVerbsLibrary = "libibverbs.so.1";

// The functions of libibverbs that we call, as pointers. They are found by name at run time, so
// that our library loads where rdma-core is not installed. Tests fill in fakes. libibverbs stays
// loaded for ever, because its drivers leave state behind. Thread: any (immutable after loading).
// Bound: the table.
struct VerbsApi {
  int (*fork_init)() = nullptr;
  ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(ibv_device**) = nullptr;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  // The exported function, which does not know the newest fields.
  int (*query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = nullptr;
  int (*query_pkey)(ibv_context*, std::uint8_t, int, __be16*) = nullptr;
  int (*query_gid)(ibv_context*, std::uint8_t, int, ibv_gid*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;
  void (*ack_async_event)(ibv_async_event*) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*destroy_qp)(ibv_qp*) = nullptr;

  // Null in rdma-core before 28 (reg_mr_iova2), 32 (query_gid_table), 62 (query_port_speed, in
  // units of 100 Mb/s) and 31 (query_ece, set_ece).
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned int) = nullptr;
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t,
                             std::size_t) = nullptr;
  int (*query_port_speed)(ibv_context*, std::uint32_t, std::uint64_t*) = nullptr;
  int (*query_ece)(ibv_qp*, ibv_ece*) = nullptr;
  int (*set_ece)(ibv_qp*, ibv_ece*) = nullptr;
  // Null only in fakes: completion queues of the device then report nothing.
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  void (*ack_cq_events)(ibv_cq*, unsigned int) = nullptr;
  // Null before rdma-core 34. Parameters: protection domain, offset, bytes, address, descriptor,
  // access.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) = nullptr;
};

// Returns NotFound if the library is missing or too old; `why` says so, and one INFO line.
Result<VerbsApi> load_verbs_api(const char* library, std::string& why);

// Returns NotFound if libibverbs is missing or too old; `why`, if it is not null, says so, and one
// INFO line. If there is no device, devices() is empty, which is no error.
Result<std::unique_ptr<Provider>> open_rdma(std::string* why = nullptr);

// The seam for tests: a table of functions, a sysfs tree, the kernel's boot id, interface addresses
// and routes.
struct RdmaOptions {
  VerbsApi api;
  std::string sysfs_root = "/sys";
  // A UUID that the kernel draws at its start. A clone of a host has its /etc/machine-id, but not
  // this. Containers of a host have it in common.
  std::string boot_id_file = "/proc/sys/kernel/random/boot_id";
  // A port without carrier keeps its addresses.
  std::function<std::vector<InterfaceAddress>()> addresses = [] {
    return all_interfaces(Carrier::Any);
  };
  std::function<Route(const GidEntry& from, const ibv_gid& to)> route = kernel_route;
};
std::unique_ptr<Provider> make_rdma_provider(RdmaOptions options);

}  // namespace mesh::verbs
