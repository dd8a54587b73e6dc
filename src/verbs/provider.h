#pragma once
// The one seam to hardware for set-up calls. The data path does not pass here: ibv_post_send,
// ibv_post_recv and ibv_poll_cq are inline jumps through context->ops, which rdma-core and the
// software fabric both fill in. Thread: any; implementations lock. Errors as in libibverbs: nullptr
// with errno, or an errno value (0 is success). Objects must be destroyed by the provider that made
// them, children first.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::verbs {

enum class GidType : std::uint8_t { Ib, RoceV1, RoceV2 };

struct GidEntry {
  ibv_gid gid{};
  GidType type = GidType::RoceV2;
  int index = 0;
  int prefix_len = -1;  // of the net device's address, in bits of its family; -1: not visible
  std::string netdev;   // empty: not visible
};

struct DeviceEntry {
  std::string name;      // "mlx5_0"
  std::string pci_path;  // resolved sysfs path of the PCI function; empty: none
  std::uint64_t guid =
      0;  // equal for the halves of one cable, different for different cables; host byte order
  int numa_node = -1;
};

enum class DeviceEventKind : std::uint8_t {
  PortActive,
  PortError,
  GidChange,
  QpFatal,
  DeviceFatal,
  Other
};

// What a device says by itself.
struct DeviceEvent {
  DeviceEventKind kind = DeviceEventKind::Other;
  std::uint8_t port =
      0;  // PortActive, PortError, GidChange: of this device, as every context of it is told
  std::uint32_t qp_num = 0;  // QpFatal; told to the context that made the queue pair
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual const char* fabric() const noexcept = 0;  // "rdma" or "soft"
  virtual std::string host_name() const = 0;        // for log lines
  virtual std::vector<DeviceEntry> devices() = 0;

  virtual ibv_context* open_device(const std::string& name) = 0;
  virtual int close_device(ibv_context* context) = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attr) = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) = 0;
  virtual std::vector<GidEntry> gids(ibv_context* context,
                                     std::uint8_t port) = 0;  // zero GIDs left out

  // Readable while the context has an event; -1: its device never says anything. It belongs to the
  // context.
  virtual int event_fd(ibv_context* context) const noexcept = 0;
  // Takes the next one. False: none now. Never blocks.
  virtual bool next_event(ibv_context* context, DeviceEvent* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* pd) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) = 0;
  virtual int dereg_mr(
      ibv_mr* mr) = 0;  // synchronous: afterwards the NIC cannot touch the range through this mr

  virtual ibv_cq* create_cq(ibv_context* context, int entries) = 0;
  virtual int destroy_cq(ibv_cq* cq) = 0;
  virtual ibv_qp* create_qp(ibv_pd* pd,
                            ibv_qp_init_attr* attr) = 0;  // attr->cap holds what was granted
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) = 0;
  virtual int destroy_qp(ibv_qp* qp) = 0;
};

}  // namespace mesh::verbs
