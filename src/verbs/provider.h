#pragma once
// The one seam to hardware for set-up calls. The data path does not pass here: ibv_post_send,
// ibv_post_recv and ibv_poll_cq are inline jumps through context->ops, which rdma-core and the
// software fabric both fill in. Errors are those of libibverbs: nullptr with errno, or an errno
// value (0 is success). The provider that made an object must destroy it, children first. Where the
// device is gone, destroying answers EIO, and the object is given up. Thread: any; implementations
// lock. Bound: the device's.

#include "src/verbs/cable_datagrams.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::verbs {

enum class GidType : std::uint8_t { Ib, RoceV1, RoceV2 };

struct GidEntry {
  ibv_gid gid{};
  GidType type = GidType::RoceV2;
  int index = 0;
  int prefix_len = -1;  // bits of the net device's prefix, in its family; -1: not visible
  std::string netdev;   // empty: not visible
};

inline constexpr std::uint32_t kNoSlotLimit = UINT32_MAX;  // Mb/s: its ports are what limits it

struct DeviceEntry {
  std::string name;      // "mlx5_0"
  std::string pci_path;  // resolved sysfs path of the PCI function; empty: none
  // Equal for the halves of one cable, different for different cables. In host byte order.
  std::uint64_t guid = 0;
  int numa_node = -1;
  // The PCIe link that limits the device, and what it carries each way; devices with one name share
  // it. Empty and 0: not known.
  std::string slot{};
  std::uint32_t slot_mbps = 0;
  // The physical PCI function that a virtual one (SR-IOV) is a part of. Empty: it is itself one.
  std::string physical_path{};
  bool iwarp = false;  // its ports speak iWARP, whatever their link layer is
};

enum class DeviceEventKind : std::uint8_t {
  PortActive,
  PortError,
  GidChange,
  LidChange,
  SpeedChange,
  QpFatal,
  CqError,
  DeviceFatal,
  Other
};

// An event that a device reports by itself.
struct DeviceEvent {
  DeviceEventKind kind = DeviceEventKind::Other;
  // SpeedChange: of no port in particular; 0.
  // PortActive, PortError, GidChange, LidChange: a port of this device. Every context of the device
  // gets it.
  std::uint8_t port = 0;
  // QpFatal: the queue pair. Only the context that made it gets the event.
  std::uint32_t qp_num = 0;
  // CqError: the completion queue, to be compared only. Only the context that made it gets the
  // event.
  const ibv_cq* cq = nullptr;
};

// How this host would send from an address of a port of its own to another host's address.
enum class RouteKind : std::uint8_t {
  ByPort,     // by the net device of that address
  Elsewhere,  // by another net device
  None,       // not at all
  Unknown,    // that net device is not visible here
};
struct Route {
  RouteKind kind = RouteKind::Unknown;
  std::string netdev;  // Elsewhere: the other net device
};

// Device memory as the descriptor of a DMA buffer shows it. Offset and address lie equally far into
// their pages, as the kernel demands.
struct DmaBufferRange {
  int fd = -1;
  std::uint64_t offset = 0;   // of the first byte, in the buffer
  std::uint64_t bytes = 0;    // from there on
  std::uint64_t address = 0;  // by which work requests name the first byte
};

// Sets errno and returns null, as calls that make an object refuse.
inline std::nullptr_t null_with_errno(int error) noexcept {
  errno = error;
  return nullptr;
}

class Provider {
 public:
  virtual ~Provider() = default;

  virtual const char* fabric() const noexcept = 0;  // "rdma" or "soft"
  virtual std::string host_name() const = 0;        // for log lines
  // Returns a number that all processes of this host have, and no other host, not even one that
  // was cloned with its name and addresses. 0: nothing tells it.
  virtual std::uint64_t host_id() const = 0;
  // Returns true if a device acknowledges what peers write while its process stands still, as a NIC
  // does.
  virtual bool acknowledges_alone() const noexcept = 0;
  virtual std::vector<DeviceEntry> devices() = 0;

  virtual ibv_context* open_device(const std::string& name) = 0;
  virtual int close_device(ibv_context* context) = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attr) = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) = 0;
  // Returns the port's GIDs, without entries of zero.
  virtual std::vector<GidEntry> gids(ibv_context* context, std::uint8_t port) = 0;

  // Reads an entry of an InfiniBand port's table of partition keys.
  virtual int query_pkey(ibv_context* context, std::uint8_t port, int index,
                         std::uint16_t* pkey) = 0;
  // Returns the speed of a port if the provider knows it better than the port's attributes do (a
  // bond), otherwise 0.
  virtual std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) = 0;
  // Returns the route from a GID of ours to a peer's, on Ethernet: a look into tables, which
  // guarantees nothing.
  virtual Route route(const GidEntry& from, const ibv_gid& to) = 0;
  // Opens datagrams on the net device that has the address of a GID now, whatever its carrier and
  // its addresses. Returns null if there is no such net device here. It asks the kernel's network
  // and no device, so it may be called with locks held. The context outlives the result.
  virtual std::unique_ptr<CableDatagrams> open_datagrams(ibv_context* context, const GidEntry& gid,
                                                         DatagramEnd end) = 0;

  // Returns a descriptor that is readable while the context has an event, or -1 if the device never
  // reports events.
  virtual int event_fd(ibv_context* context) const noexcept = 0;
  // Takes the next event. Returns false if there is none now. Never blocks.
  virtual bool next_event(ibv_context* context, DeviceEvent* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* pd) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) = 0;
  // Registers a DMA buffer. The error is EOPNOTSUPP if the device takes no DMA buffers, whatever
  // the range says. The descriptor may be closed afterwards.
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBufferRange& range, int access) = 0;
  // Returns true if reg_mr takes addresses of device memory: the GPU's driver then tells the kernel
  // where it lies (peer memory).
  virtual bool has_peer_memory(ibv_context* context) = 0;
  // Deregisters. When it returns, the NIC cannot touch the range through this region any more.
  virtual int dereg_mr(ibv_mr* mr) = 0;

  // Makes a channel that completion queues report to. Its descriptor does not block, and is
  // readable while the channel has events. The error is EOPNOTSUPP if the device has no events of
  // completions.
  virtual ibv_comp_channel* create_channel(ibv_context* context) = 0;
  // Destroys the channel, after its completion queues.
  virtual int destroy_channel(ibv_comp_channel* channel) = 0;
  // Takes the next event. Returns false if there is none now. Never blocks. A queue reports once
  // for each ibv_req_notify_cq, when the next completion comes. A completion that is in the queue
  // already makes no event. So the caller arms the queue, polls it once more, and only then waits.
  // The completion of an event may be polled already, or may come a moment later.
  virtual bool next_completion_event(ibv_comp_channel* channel) = 0;

  virtual ibv_cq* create_cq(ibv_context* context, int entries) = 0;
  // Makes a completion queue that reports to the channel when ibv_req_notify_cq has armed it.
  virtual ibv_cq* create_reporting_cq(ibv_comp_channel* channel, int entries) = 0;
  virtual int destroy_cq(ibv_cq* cq) = 0;
  // Makes a queue pair. Afterwards attr->cap has what was granted.
  virtual ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) = 0;
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) = 0;
  virtual int destroy_qp(ibv_qp* qp) = 0;

  // Enhanced connection establishment: options of the device's maker for one queue pair. query_ece
  // reads the options that the device offers or, once the queue pair is connected with some, those
  // that it uses. set_ece is for a queue pair between INIT and RTR. Both return EOPNOTSUPP if the
  // device has no such options.
  virtual int query_ece(ibv_qp* qp, ibv_ece* ece) = 0;
  virtual int set_ece(ibv_qp* qp, ibv_ece* ece) = 0;
};

// The answers of a device without the optional features, for providers that have none of them. The
// calls above have no defaults, so that a provider that passes calls on cannot forget one.
class PlainProvider : public Provider {
 public:
  std::uint64_t host_id() const override { return 0; }
  bool acknowledges_alone() const noexcept override { return true; }
  int query_pkey(ibv_context*, std::uint8_t, int index, std::uint16_t* pkey) override {
    *pkey = 0xffff;  // there are no partitions
    return index == 0 ? 0 : EINVAL;
  }
  std::uint32_t port_speed_mbps(ibv_context*, std::uint8_t) override { return 0; }
  Route route(const GidEntry&, const ibv_gid&) override { return {}; }
  std::unique_ptr<CableDatagrams> open_datagrams(ibv_context*, const GidEntry&,
                                                 DatagramEnd) override {
    return nullptr;
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd*, const DmaBufferRange&, int) override {
    return null_with_errno(EOPNOTSUPP);
  }
  bool has_peer_memory(ibv_context*) override { return false; }
  ibv_comp_channel* create_channel(ibv_context*) override { return null_with_errno(EOPNOTSUPP); }
  int destroy_channel(ibv_comp_channel*) override { return EOPNOTSUPP; }
  bool next_completion_event(ibv_comp_channel*) override { return false; }
  ibv_cq* create_reporting_cq(ibv_comp_channel*, int) override {
    return null_with_errno(EOPNOTSUPP);
  }
  int query_ece(ibv_qp*, ibv_ece*) override { return EOPNOTSUPP; }
  int set_ece(ibv_qp*, ibv_ece*) override { return EOPNOTSUPP; }
};

}  // namespace mesh::verbs
