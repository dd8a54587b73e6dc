#include "src/verbs/rdma_provider.h"

#include "src/base/log.h"
#include "src/base/small_file.h"
#include "src/verbs/kernel_datagrams.h"
#include "src/verbs/rdma_sysfs.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

namespace mesh::verbs {

namespace {
// Binds each name to the version whose signature we compiled against, because the default version
// may differ some day.
class Binder {
 public:
  explicit Binder(void* library) : library_(library) {}

  template <typename Function>
  void need(Function*& function, const char* name) {
    want(function, name, "IBVERBS_1.1");
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <typename Function>
  void want(Function*& function, const char* name, const char* version) {
    function = reinterpret_cast<Function*>(::dlvsym(library_, name, version));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void bind_devices(Binder& binder, VerbsApi& api) {
  binder.need(api.fork_init, "ibv_fork_init");
  binder.need(api.get_device_list, "ibv_get_device_list");
  binder.need(api.free_device_list, "ibv_free_device_list");
  binder.need(api.get_device_name, "ibv_get_device_name");
  binder.need(api.open_device, "ibv_open_device");
  binder.need(api.close_device, "ibv_close_device");
  binder.need(api.query_device, "ibv_query_device");
  binder.need(api.query_port, "ibv_query_port");
  binder.need(api.query_gid, "ibv_query_gid");
  binder.need(api.query_pkey, "ibv_query_pkey");
  binder.need(api.get_async_event, "ibv_get_async_event");
  binder.need(api.ack_async_event, "ibv_ack_async_event");
  binder.want(api.query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11");
  binder.want(api.query_port_speed, "ibv_query_port_speed", "IBVERBS_1.16");
}

void bind_objects(Binder& binder, VerbsApi& api) {
  binder.need(api.alloc_pd, "ibv_alloc_pd");
  binder.need(api.dealloc_pd, "ibv_dealloc_pd");
  binder.need(api.reg_mr, "ibv_reg_mr");
  binder.need(api.dereg_mr, "ibv_dereg_mr");
  binder.need(api.create_cq, "ibv_create_cq");
  binder.need(api.destroy_cq, "ibv_destroy_cq");
  binder.want(api.create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
  binder.want(api.destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
  binder.want(api.get_cq_event, "ibv_get_cq_event", "IBVERBS_1.1");
  binder.want(api.ack_cq_events, "ibv_ack_cq_events", "IBVERBS_1.1");
  binder.need(api.create_qp, "ibv_create_qp");
  binder.need(api.modify_qp, "ibv_modify_qp");
  binder.need(api.destroy_qp, "ibv_destroy_qp");
  binder.want(api.reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  binder.want(api.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
  binder.want(api.query_ece, "ibv_query_ece", "IBVERBS_1.10");
  binder.want(api.set_ece, "ibv_set_ece", "IBVERBS_1.10");
}
}  // namespace

Result<VerbsApi> load_verbs_api(const char* library, std::string& why) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const reason = ::dlerror();
    why = fmt::format("{} does not load ({}); install rdma-core", library,
                      reason != nullptr ? reason : "no reason given");
    LOG_INFO("no RDMA: {}", why);
    return Errc::NotFound;
  }
  VerbsApi api;
  Binder binder(opened);
  bind_devices(binder, api);
  bind_objects(binder, api);
  if (binder.missing() != nullptr) {
    why = fmt::format("{} has no function {}; a newer rdma-core is needed", library,
                      binder.missing());
    LOG_INFO("no RDMA: {}", why);
    return Errc::NotFound;
  }
  return api;
}

namespace {

// Some calls return an errno value, others -1 with errno set. Ours always return the value.
int as_errno(int result) noexcept { return result == -1 ? (errno != 0 ? errno : EIO) : result; }

// The device's own extended call fills fields that the exported function does not know, such as the
// newest speeds. This does what ibv_query_port in verbs.h does inline, without its reference to the
// library's symbol.
verbs_context* with_query_port(ibv_context* context) noexcept {
  if (context->abi_compat != __VERBS_ABI_IS_EXTENDED) return nullptr;
  auto* extended = reinterpret_cast<verbs_context*>(reinterpret_cast<std::uint8_t*>(context) -
                                                    offsetof(verbs_context, context));
  const std::size_t size_with_call = sizeof(verbs_context) - offsetof(verbs_context, query_port);
  return extended->sz >= size_with_call && extended->query_port != nullptr ? extended : nullptr;
}

bool zero(const ibv_gid& gid) noexcept {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                     [](std::uint8_t byte) { return byte == 0; });
}

GidType from_verbs(std::uint32_t type) noexcept {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidType::RoceV2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidType::RoceV1 : GidType::Ib;
}

// Makes reads non-blocking: otherwise taking an event would block for ever when there is none.
bool stop_blocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// IBV_EVENT_DEVICE_SPEED_CHANGE of rdma-core 62, which older headers lack.
constexpr int kDeviceSpeedChange = IBV_EVENT_WQ_FATAL + 1;

// Must run before the event is acknowledged: only until then its queue pair is sure to exist.
DeviceEvent translate(const ibv_async_event& raw) noexcept {
  if (static_cast<int>(raw.event_type) == kDeviceSpeedChange)
    return {.kind = DeviceEventKind::SpeedChange};
  const auto port = static_cast<std::uint8_t>(raw.element.port_num);
  switch (raw.event_type) {
    case IBV_EVENT_PORT_ACTIVE: return {.kind = DeviceEventKind::PortActive, .port = port};
    case IBV_EVENT_PORT_ERR: return {.kind = DeviceEventKind::PortError, .port = port};
    case IBV_EVENT_LID_CHANGE: return {.kind = DeviceEventKind::LidChange, .port = port};
    case IBV_EVENT_GID_CHANGE: return {.kind = DeviceEventKind::GidChange, .port = port};
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return {.kind = DeviceEventKind::QpFatal, .qp_num = raw.element.qp->qp_num};
    case IBV_EVENT_CQ_ERR: return {.kind = DeviceEventKind::CqError, .cq = raw.element.cq};
    case IBV_EVENT_DEVICE_FATAL: return {.kind = DeviceEventKind::DeviceFatal};
    default: return {};  // a kind that we do not use, or that is newer than our headers
  }
}

// Returns the first 64 bits of a UUID in text, or 0 if it is none.
std::uint64_t id_of_boot(std::string_view uuid) {
  std::string digits(uuid.substr(0, std::min<std::size_t>(uuid.size(), 18)));
  std::erase(digits, '-');
  std::uint64_t id = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, id, 16);
  return error == std::errc{} && stop == end && digits.size() == 16 ? id : 0;
}

// Returns what make() makes. Some drivers answer null and leave errno as it was; it must not tell
// the error of an earlier call.
template <typename Make>
auto made(const Make& make) {
  errno = 0;
  auto* const object = make();
  if (object == nullptr && errno == 0) errno = EIO;
  return object;
}

class RdmaProvider final : public Provider {
 public:
  explicit RdmaProvider(RdmaOptions options)
      : options_(std::move(options)),
        sysfs_(options_.sysfs_root),
        host_id_(id_of_boot(read_first_line(options_.boot_id_file).value_or(""))) {
    static std::once_flag once;
    std::call_once(once, [this] {
      if (const int error = options_.api.fork_init(); error != 0)
        LOG_INFO(
            "ibv_fork_init refused ({}): memory registered here must not be used by forked "
            "children",
            std::strerror(as_errno(error)));
    });
  }

  const char* fabric() const noexcept override { return "rdma"; }

  bool acknowledges_alone() const noexcept override { return true; }
  std::string host_name() const override {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
  }
  std::uint64_t host_id() const override { return host_id_; }

  std::vector<DeviceEntry> devices() override {
    std::vector<DeviceEntry> entries;
    for_each_device([&](ibv_device* device) {
      entries.push_back(sysfs_.device(options_.api.get_device_name(device)));
      return true;
    });
    return entries;
  }

  ibv_context* open_device(const std::string& name) override {
    ibv_context* context = nullptr;
    errno = ENODEV;
    for_each_device([&](ibv_device* device) {
      if (name != options_.api.get_device_name(device)) return true;
      context = made([&] { return options_.api.open_device(device); });
      return false;
    });
    if (context == nullptr || context->async_fd < 0 || stop_blocking(context->async_fd))
      return context;
    const int error = errno;
    options_.api.close_device(context);
    errno = error;
    return nullptr;
  }

  int close_device(ibv_context* context) override {
    return as_errno(options_.api.close_device(context));
  }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    return as_errno(options_.api.query_device(context, attr));
  }

  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    *attr = {};
    if (verbs_context* extended = with_query_port(context); extended != nullptr)
      return as_errno(extended->query_port(context, port, attr, sizeof *attr));
    return as_errno(
        options_.api.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attr)));
  }

  std::vector<GidEntry> gids(ibv_context* context, std::uint8_t port) override {
    ibv_port_attr attr{};
    if (query_port(context, port, &attr) != 0) return {};
    const bool ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    std::optional<std::vector<GidEntry>> entries = gid_table(context, port);
    if (!entries) entries = gids_one_by_one(context, port, attr.gid_tbl_len);
    const std::string device = options_.api.get_device_name(context->device);
    const std::vector<InterfaceAddress> addresses =
        ethernet ? options_.addresses() : std::vector<InterfaceAddress>{};
    for (GidEntry& entry : *entries) {
      if (!ethernet) entry.type = GidType::Ib;
      if (const std::string netdev = sysfs_.gid_netdev({device, port, entry.index});
          !netdev.empty())
        entry.netdev = netdev;
      const InterfaceAddress* const has_it = interface_of(entry, addresses);
      entry.prefix_len = has_it == nullptr ? -1 : has_it->prefix_len;
      if (entry.prefix_len < 0) entry.netdev.clear();  // of another name space
    }
    return *std::move(entries);
  }

  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) override {
    __be16 wire = 0;
    const int error = as_errno(options_.api.query_pkey(context, port, index, &wire));
    *pkey = be16toh(wire);
    return error;
  }

  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override {
    constexpr std::uint64_t kUnitMbps = 100;
    std::uint64_t units = 0;
    if (options_.api.query_port_speed != nullptr &&
        options_.api.query_port_speed(context, port, &units) == 0)
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(units * kUnitMbps, UINT32_MAX));
    return sysfs_.bond_speed_mbps(options_.api.get_device_name(context->device), port);
  }

  Route route(const GidEntry& from, const ibv_gid& to) override { return options_.route(from, to); }
  std::unique_ptr<CableDatagrams> open_datagrams(ibv_context*, const GidEntry& gid,
                                                 DatagramEnd end) override {
    const std::vector<InterfaceAddress> addresses = options_.addresses();
    const InterfaceAddress* const has_it = interface_of(gid, addresses);
    return open_kernel_datagrams(has_it == nullptr ? gid.netdev : has_it->name, end);
  }

  int event_fd(ibv_context* context) const noexcept override { return context->async_fd; }
  bool next_event(ibv_context* context, DeviceEvent* event) override {
    ibv_async_event raw{};
    if (context->async_fd < 0 || options_.api.get_async_event(context, &raw) != 0) return false;
    *event = translate(raw);
    options_.api.ack_async_event(&raw);
    return true;
  }

  ibv_pd* alloc_pd(ibv_context* context) override {
    return made([&] { return options_.api.alloc_pd(context); });
  }
  int dealloc_pd(ibv_pd* pd) override { return as_errno(options_.api.dealloc_pd(pd)); }

  // Flags of the optional range need the newer call, which drops those that the kernel does not
  // know.
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    constexpr int kOptional = static_cast<int>(IBV_ACCESS_OPTIONAL_RANGE);
    return made([&] {
      if ((access & kOptional) != 0 && options_.api.reg_mr_iova2 != nullptr)
        return options_.api.reg_mr_iova2(pd, address, bytes,
                                         reinterpret_cast<std::uint64_t>(address),
                                         static_cast<unsigned>(access));
      return options_.api.reg_mr(pd, address, bytes, access & ~kOptional);
    });
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBufferRange& range, int access) override {
    if (options_.api.reg_dmabuf_mr == nullptr) return null_with_errno(EOPNOTSUPP);
    return made([&] {
      return options_.api.reg_dmabuf_mr(pd, range.offset, range.bytes, range.address, range.fd,
                                        access);
    });
  }
  bool has_peer_memory(ibv_context*) override { return sysfs_.has_peer_memory(); }
  int dereg_mr(ibv_mr* mr) override { return as_errno(options_.api.dereg_mr(mr)); }

  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return made([&] { return options_.api.create_cq(context, entries, nullptr, nullptr, 0); });
  }
  int destroy_cq(ibv_cq* cq) override { return as_errno(options_.api.destroy_cq(cq)); }

  ibv_comp_channel* create_channel(ibv_context* context) override {
    const VerbsApi& api = options_.api;
    if (api.create_comp_channel == nullptr || api.destroy_comp_channel == nullptr ||
        api.get_cq_event == nullptr || api.ack_cq_events == nullptr)
      return null_with_errno(EOPNOTSUPP);
    ibv_comp_channel* const channel = made([&] { return api.create_comp_channel(context); });
    if (channel == nullptr || stop_blocking(channel->fd)) return channel;
    const int error = errno;
    api.destroy_comp_channel(channel);
    errno = error;
    return nullptr;
  }
  int destroy_channel(ibv_comp_channel* channel) override {
    return as_errno(options_.api.destroy_comp_channel(channel));
  }
  // Acknowledges the event at once: destroying a completion queue waits for that.
  bool next_completion_event(ibv_comp_channel* channel) override {
    ibv_cq* cq = nullptr;
    void* unused = nullptr;
    if (options_.api.get_cq_event(channel, &cq, &unused) != 0) return false;
    options_.api.ack_cq_events(cq, 1);
    return true;
  }
  ibv_cq* create_reporting_cq(ibv_comp_channel* channel, int entries) override {
    return made(
        [&] { return options_.api.create_cq(channel->context, entries, nullptr, channel, 0); });
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return made([&] { return options_.api.create_qp(pd, attr); });
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    return as_errno(options_.api.modify_qp(qp, attr, mask));
  }
  int destroy_qp(ibv_qp* qp) override { return as_errno(options_.api.destroy_qp(qp)); }
  int query_ece(ibv_qp* qp, ibv_ece* ece) override {
    return options_.api.query_ece == nullptr ? EOPNOTSUPP
                                             : as_errno(options_.api.query_ece(qp, ece));
  }
  int set_ece(ibv_qp* qp, ibv_ece* ece) override {
    return options_.api.set_ece == nullptr ? EOPNOTSUPP : as_errno(options_.api.set_ece(qp, ece));
  }

 private:
  // Calls visit(device) until it returns false. An opened device outlives the list, because verbs
  // keeps a reference.
  template <typename Visit>
  void for_each_device(Visit visit) {
    int count = 0;
    ibv_device** const list = options_.api.get_device_list(&count);
    if (list == nullptr) return;
    for (int i = 0; i < count && visit(list[i]); ++i) continue;
    const int error = errno;
    options_.api.free_device_list(list);
    errno = error;
  }

  // Reads the device's whole table in one call. No value: rdma-core or the kernel lacks that call.
  std::optional<std::vector<GidEntry>> gid_table(ibv_context* context, std::uint8_t port) {
    ibv_device_attr device{};
    if (options_.api.query_gid_table == nullptr || query_device(context, &device) != 0)
      return std::nullopt;
    std::size_t room = 0;
    for (std::uint8_t each = 1; each <= device.phys_port_cnt; ++each) {
      ibv_port_attr attr{};
      if (query_port(context, each, &attr) == 0)
        room += static_cast<std::size_t>(std::max(attr.gid_tbl_len, 0));
    }
    if (room == 0) return std::nullopt;
    std::vector<ibv_gid_entry> table(room);
    const ssize_t count =
        options_.api.query_gid_table(context, table.data(), table.size(), 0, sizeof(ibv_gid_entry));
    if (count < 0) return std::nullopt;
    table.resize(std::min(static_cast<std::size_t>(count), room));
    std::vector<GidEntry> entries;
    for (const ibv_gid_entry& row : table) {
      if (row.port_num != port || zero(row.gid)) continue;
      std::array<char, IF_NAMESIZE> name{};
      if (row.ndev_ifindex != 0) ::if_indextoname(row.ndev_ifindex, name.data());
      entries.push_back(
          {row.gid, from_verbs(row.gid_type), static_cast<int>(row.gid_index), -1, name.data()});
    }
    return entries;
  }

  std::vector<GidEntry> gids_one_by_one(ibv_context* context, std::uint8_t port, int count) {
    const std::string device = options_.api.get_device_name(context->device);
    std::vector<GidEntry> entries;
    for (int index = 0; index < count; ++index) {
      GidEntry entry;
      entry.index = index;
      if (options_.api.query_gid(context, port, index, &entry.gid) != 0 || zero(entry.gid))
        continue;
      // A kernel without the file is older than RoCE v2.
      entry.type = sysfs_.gid_type({device, port, index}).value_or(GidType::RoceV1);
      entries.push_back(entry);
    }
    return entries;
  }

  // Returns the interface that has the address of the GID, or null. Prefers the GID's own one,
  // because an address may be on two interfaces.
  static const InterfaceAddress* interface_of(const GidEntry& entry,
                                              const std::vector<InterfaceAddress>& addresses) {
    std::array<std::uint8_t, 16> raw{};
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), raw.begin());
    const SocketAddress wanted = SocketAddress::from_gid(raw);
    const InterfaceAddress* first = nullptr;
    for (const InterfaceAddress& candidate : addresses) {
      if (!candidate.address.same_host(wanted)) continue;
      if (candidate.name == entry.netdev) return &candidate;
      if (first == nullptr) first = &candidate;
    }
    return first;
  }

  RdmaOptions options_;
  RdmaSysfs sysfs_;
  const std::uint64_t host_id_;
};

}  // namespace

std::unique_ptr<Provider> make_rdma_provider(RdmaOptions options) {
  return std::make_unique<RdmaProvider>(std::move(options));
}

Result<std::unique_ptr<Provider>> open_rdma(std::string* why) {
  std::string reason;
  const Result<VerbsApi> api = load_verbs_api(kVerbsLibrary, reason);
  if (why != nullptr) *why = reason;
  if (!api.ok()) return api.status();
  RdmaOptions options;
  options.api = *api;
  return make_rdma_provider(std::move(options));
}

}  // namespace mesh::verbs
