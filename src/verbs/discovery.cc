#include "src/verbs/discovery.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/setting_grammar.h"
#include "src/base/timeouts.h"
#include "src/verbs/device_probe.h"
#include "src/verbs/gid_choice.h"
#include "src/verbs/rail_traits.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <strings.h>

namespace mesh::verbs {

namespace {
constexpr int kIpv4PrefixUsual = 24;
constexpr int kIpv6PrefixUsual = 64;

const char* state_name(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_NOP: return "without state";
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initialising";
    case IBV_PORT_ARMED: return "armed, not active";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "deferring";
  }
  return "in an unknown state";
}

// Returns a rail or plane as NCCL takes it, in 16 bits.
std::int16_t number_for_nccl(int assigned) {
  return assigned >= 0 && assigned <= INT16_MAX ? static_cast<std::int16_t>(assigned) : kUnassigned;
}

// Returns the rail's identity. An assigned one and one made of a place are never equal.
std::uint32_t identity_of(const RailInfo& info, std::uint16_t place) {
  constexpr std::uint32_t kAssigned = 1u << 31;
  if (info.rail_id == kUnassigned) return std::uint32_t{place} << 8 | info.port;
  const auto plane = static_cast<std::uint32_t>(info.plane_id == kUnassigned ? 0 : info.plane_id);
  return kAssigned | static_cast<std::uint32_t>(info.rail_id) << 15 | plane;
}

// The rail of a port, with the place of its device.
struct PlacedRail {
  std::uint16_t device = 0;
  Rail rail;
};

struct Refusal {
  RefusedPort port;
  bool has_place = false;  // the port is down, and takes its place when it comes up
};

// A look at one device. It collects the rails, and a reason for each port that is none.
class DeviceLook {
 public:
  DeviceLook(Provider& provider, const Settings& settings, DeviceEntry device)
      : provider_(provider), settings_(settings), rule_(settings.hca), device_(std::move(device)) {}

  std::uint16_t place = 0;  // of the device, before run()

  bool is_wanted() const { return rule_.may_match(device_.name); }
  void leave_out() { leave_out(device_.name); }
  void run() noexcept {
    try {
      look_at();
    } catch (const std::exception& error) {
      LOG_WARN("device {} is not used: {}", device_.name, error.what());
    }
  }

  const DeviceEntry& device() const noexcept { return device_; }
  std::vector<PlacedRail>& rails() noexcept { return places_; }
  const std::vector<Refusal>& refusals() const noexcept { return refusals_; }
  bool has_rail_up() const noexcept {
    return std::any_of(places_.begin(), places_.end(),
                       [](const PlacedRail& each) { return each.rail.up; });
  }

 private:
  void look_at() {
    if (device_.iwarp)
      return refuse(device_.name, "speaks iWARP, and the plugin needs RoCE", RefusalKind::IWarp);
    ContextHandle context(provider_, provider_.open_device(device_.name));
    if (!context)
      return refuse(device_.name, fmt::format("cannot be opened ({})", std::strerror(errno)));
    ibv_device_attr attr{};
    if (const int error = provider_.query_device(context.get(), &attr); error != 0)
      return refuse(device_.name, fmt::format("cannot be queried ({})", std::strerror(error)));
    for (int port = 1; port <= attr.phys_port_cnt; ++port) {
      if (!context) context = ContextHandle(provider_, provider_.open_device(device_.name));
      if (!context)
        return refuse(device_.name, fmt::format("cannot be reopened ({})", std::strerror(errno)));
      look_at_port({device_, static_cast<std::uint8_t>(port), attr, place}, context);
    }
  }

  struct Port {
    const DeviceEntry& device;
    std::uint8_t number;
    const ibv_device_attr& device_attr;
    std::uint16_t place;
    std::string name() const { return fmt::format("{}:{}", device.name, number); }
  };

  void refuse(const std::string& what, const std::string& why,
              RefusalKind kind = RefusalKind::Unusable) {
    refusals_.push_back({{what, kind, why}});
  }
  void note_down(const Port& port, ibv_port_state state, bool has_place) {
    const std::string reason = fmt::format("is {}", state_name(state));
    refusals_.push_back({{port.name(), RefusalKind::Down, reason}, has_place});
  }
  void leave_out(const std::string& what) {
    refusals_.push_back({{what, RefusalKind::LeftOut, "left out by NCCL_IB_HCA"}});
  }

  // Takes the context when the port becomes a rail.
  void look_at_port(const Port& port, ContextHandle& context) {
    if (!rule_.matches(port.device.name, port.number)) return leave_out(port.name());
    ibv_port_attr attr{};
    if (const int error = provider_.query_port(context.get(), port.number, &attr); error != 0)
      return refuse(port.name(), fmt::format("cannot be queried ({})", std::strerror(error)));
    const bool ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (!ethernet && attr.link_layer != IBV_LINK_LAYER_INFINIBAND)
      return refuse(port.name(), "is neither Ethernet nor InfiniBand");
    const DeviceWish wanted = device_wish(settings_);
    const DeviceGrant grant = probe_device(provider_, context.get(), port.device_attr, wanted);
    if (!grant.refusal.empty()) return refuse(port.name(), grant.refusal, grant.kind);
    const std::vector<GidEntry> table = provider_.gids(context.get(), port.number);
    const bool up = attr.state == IBV_PORT_ACTIVE;
    const GidWish wish = gid_wish(settings_, ethernet);
    std::vector<GidEntry> gids = up ? gids_of(port, table, wish) : choose_gids(table, wish);
    const bool placed = up || has_place(gids, ethernet);
    if (!up) note_down(port, attr.state, placed);
    if (!placed) return;
    if (gids.empty())
      return refuse(port.name(), no_gid_reason(ethernet, table.size()), RefusalKind::NoAddress);
    const std::optional<int> pkey =
        ethernet ? 0 : pkey_index(context.get(), port.number, attr.pkey_tbl_len);
    if (!pkey)
      return refuse(port.name(), no_pkey_reason(attr.pkey_tbl_len), RefusalKind::NoPartition);
    Rail rail = make_rail(port, attr, std::move(gids));
    rail.pkey_index = static_cast<std::uint16_t>(*pkey);
    if (!ethernet) rail.pkey = pkey_at(context.get(), port.number, *pkey);
    rail.inline_bytes_max = grant.inline_bytes;
    rail.qp_wr_max = grant.depth_max;
    rail.cq_entries_max = grant.entries_max;
    if (grant.depth_max > 0 && static_cast<std::uint32_t>(grant.depth_max) < wanted.depth)
      LOG_INFO(
          "rail {}: its queues have room for {} work requests, and not for the {} of "
          "NCCL_MESH_SQ_DEPTH and NCCL_MESH_RQ_DEPTH",
          port.name(), grant.depth_max, wanted.depth);
    // A port without a signal does not know its speed.
    rail.info.speed_mbps = up ? speed_of(provider_, context.get(), port.number, attr) : 0;
    rail.context = OpenDevice(std::move(context));
    ask_device_memory(provider_, settings_, rail);
    places_.push_back({.device = port.place, .rail = std::move(rail)});
  }

  // Returns true if one of the addresses tells where a port that is down belongs. Link-local
  // addresses do not, because they are on every wire.
  static bool has_place(std::span<const GidEntry> gids, bool ethernet) {
    return std::any_of(gids.begin(), gids.end(), [ethernet](const GidEntry& each) {
      return !ethernet || !address_of(each.gid).link_local();
    });
  }

  // Returns the GIDs that NCCL's settings wish for, or if there is none the port's usual ones.
  static std::vector<GidEntry> gids_of(const Port& port, std::span<const GidEntry> table,
                                       const GidWish& wish) {
    std::vector<GidEntry> gids = choose_gids(table, wish);
    if (!gids.empty()) return gids;
    gids = choose_gids(table, {.ethernet = wish.ethernet});
    if (gids.empty()) return gids;
    if (wish.index >= 0) {
      LOG_WARN("rail {}: has no GID at NCCL_IB_GID_INDEX {} ({} in use); it counts as unset here",
               port.name(), wish.index, table.size());
    } else {
      LOG_WARN(
          "rail {}: none of its {} GIDs matches NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and "
          "NCCL_IB_ROCE_VERSION_NUM; on this rail they count as unset",
          port.name(), table.size());
    }
    return gids;
  }

  // Returns an entry of the port's table; 0 if it is not there.
  std::uint16_t pkey_at(ibv_context* context, std::uint8_t port, int index) {
    std::uint16_t pkey = 0;
    const int error = provider_.query_pkey(context, port, index, &pkey);
    return error == 0 ? pkey : std::uint16_t{0};
  }
  // Returns the partition of an entry; 0 if the entry is empty or not there. The top bit tells full
  // from limited members.
  std::uint16_t partition_at(ibv_context* context, std::uint8_t port, int index) {
    constexpr std::uint16_t kPartition = 0x7fff;
    return pkey_at(context, port, index) & kPartition;
  }

  // Returns the index of our partition key, or no value if the port has none. Hosts may have a key
  // at different indices, so NCCL_IB_PKEY_VALUE names the key.
  std::optional<int> pkey_index(ibv_context* context, std::uint8_t port, int entries) {
    const int wanted = settings_.pkey_value;
    for (int index = 0; wanted != kAuto && index < entries; ++index) {
      if (partition_at(context, port, index) == (wanted & 0x7fff)) return index;
    }
    if (wanted != kAuto || partition_at(context, port, settings_.pkey_index) == 0)
      return std::nullopt;
    return settings_.pkey_index;
  }

  std::string no_pkey_reason(int entries) const {
    return settings_.pkey_value == kAuto
               ? fmt::format("has no partition key at NCCL_IB_PKEY {} of {}", settings_.pkey_index,
                             entries)
               : fmt::format("has no partition key 0x{:04x} (NCCL_IB_PKEY_VALUE) among {}",
                             settings_.pkey_value, entries);
  }

  static std::string no_gid_reason(bool ethernet, std::size_t count) {
    return ethernet
               ? fmt::format("has no RoCE v2 GID among {}: give its net device an address", count)
               : "has no GID at index 0";
  }

  Rail make_rail(const Port& port, const ibv_port_attr& attr, std::vector<GidEntry> gids) const {
    Rail rail;
    rail.gids = std::move(gids);
    rail.lid = attr.lid;
    rail.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    rail.global_header_required = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
    rail.active_mtu = mtu_of(attr);
    rail.message_bytes_max = attr.max_msg_sz;
    for (GidEntry& gid : rail.gids) gid.prefix_len = prefix_len(port, rail, gid);
    rail.up = attr.state == IBV_PORT_ACTIVE;
    rail.slot = port.device.slot;
    rail.slot_mbps = port.device.slot_mbps;
    RailInfo& info = rail.info;
    info.name = port.name();
    info.device = port.device.name;
    info.port = port.number;
    if (const NameRule::Entry* entry = rule_.entry_of(port.device.name, port.number); entry) {
      info.rail_id = number_for_nccl(entry->rail);
      info.plane_id = number_for_nccl(entry->plane);
    }
    rail.identity = identity_of(info, port.place);
    info.pci_path = port.device.pci_path;
    info.address = address_text(rail.gids.front());
    info.guid = port.device.guid;
    info.mtu = mtu_bytes(rail.active_mtu);
    info.numa_node = port.device.numa_node;
    return rail;
  }

  int prefix_len(const Port& port, const Rail& rail, const GidEntry& gid) const {
    if (!rail.ethernet)
      return kIpv6PrefixUsual;  // the upper half of an InfiniBand GID is the subnet prefix
    const bool v4 = address_of(gid.gid).family == AF_INET;
    const int bits = v4 ? 32 : 128;
    if (gid.prefix_len >= 0) return std::min(gid.prefix_len, bits);
    if (settings_.prefix_len != kAuto) return std::min(settings_.prefix_len, bits);
    const int usual = v4 ? kIpv4PrefixUsual : kIpv6PrefixUsual;
    LOG_INFO(
        "rail {}: no interface of this host has address {}, so its subnet is taken as /{}; "
        "NCCL_MESH_PREFIX_LEN sets another length",
        port.name(), address_of(gid.gid).text(), usual);
    return usual;
  }

  Provider& provider_;
  const Settings& settings_;
  const NameRule rule_;
  const DeviceEntry device_;
  std::vector<PlacedRail> places_;
  std::vector<Refusal> refusals_;
};

using DeviceLooks = std::vector<std::shared_ptr<DeviceLook>>;

// The looks that have ended, those at devices that NCCL_IB_HCA leaves out among them, and the names
// of the devices that are late.
struct Looks {
  DeviceLooks over;
  std::vector<std::string> late;
};

// Looks at all devices at a time. Waits for those that are late only while no port is known to be
// up.
Looks look_on_threads(const DeviceLooks& wanted, ThreadPool& pool) {
  struct Ended {
    std::mutex mutex;  // protects the list
    std::condition_variable more;
    DeviceLooks looks;
    void add(std::shared_ptr<DeviceLook> look) {
      const std::lock_guard guard(mutex);
      looks.push_back(std::move(look));
      more.notify_one();
    }
  };
  const auto ended = std::make_shared<Ended>();
  ended->looks.reserve(wanted.size());
  for (const std::shared_ptr<DeviceLook>& look : wanted) {
    const auto work = [ended, look] {
      look->run();
      ended->add(look);
    };
    ThreadPool::Task task;
    if (!pool.begin(task, work).ok()) work();
  }
  Looks looks;
  std::unique_lock lock(ended->mutex);
  const auto has_rail_up = [&] {
    return std::any_of(ended->looks.begin(), ended->looks.end(),
                       [](const auto& look) { return look->has_rail_up(); });
  };
  // A host short of processors is slow with all looks, so the time begins anew with each answer.
  std::size_t seen = 0;
  const auto has_news = [&] { return ended->looks.size() != seen; };
  while ((seen = ended->looks.size()) != wanted.size()) {
    if (ended->more.wait_for(lock, std::chrono::nanoseconds(kCardLookToLateNs), has_news)) continue;
    if (has_rail_up()) break;
  }
  for (const std::shared_ptr<DeviceLook>& look : wanted) {
    if (std::find(ended->looks.begin(), ended->looks.end(), look) != ended->looks.end()) {
      looks.over.push_back(look);
    } else {
      looks.late.push_back(look->device().name);
    }
  }
  return looks;
}

Looks look_at_all(Provider& provider, const Settings& settings, ThreadPool* pool) {
  DeviceLooks wanted, left_out;
  std::vector<DeviceEntry> devices;
  for (DeviceEntry& device : provider.devices()) {
    auto look = std::make_shared<DeviceLook>(provider, settings, device);
    // Devices that NCCL_IB_HCA leaves out have no place: a host may have some that others lack.
    if (!look->is_wanted()) {
      look->leave_out();
      left_out.push_back(std::move(look));
      continue;
    }
    wanted.push_back(std::move(look));
    devices.push_back(std::move(device));
  }
  const std::vector<std::uint16_t> places = device_places(devices);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i]->place = places[i];
  Looks looks{.over = wanted, .late = {}};
  if (pool != nullptr && wanted.size() > 1) {
    looks = look_on_threads(wanted, *pool);
  } else {
    for (const std::shared_ptr<DeviceLook>& look : wanted) look->run();
  }
  looks.over.insert(looks.over.begin(), left_out.begin(), left_out.end());
  for (const std::string& name : looks.late)
    LOG_WARN("device {} has not answered in {} s, so the plugin starts without its ports", name,
             kCardLookToLateNs / kNsPerSecond);
  return looks;
}

std::vector<Rail> take_rails(const DeviceLooks& looks) {
  std::vector<PlacedRail> placed;
  for (const std::shared_ptr<DeviceLook>& look : looks)
    std::move(look->rails().begin(), look->rails().end(), std::back_inserter(placed));
  std::sort(placed.begin(), placed.end(), [](const PlacedRail& a, const PlacedRail& b) {
    return std::tuple(!a.rail.up, a.device, a.rail.info.port) <
           std::tuple(!b.rail.up, b.device, b.rail.info.port);
  });
  std::vector<Rail> rails;
  rails.reserve(placed.size());
  for (PlacedRail& each : placed) rails.push_back(std::move(each.rail));
  return rails;
}

// Returns the ports that are no rails. Those that are down but have a place are rails of a host
// that has one that is up.
std::vector<RefusedPort> refusals(const Looks& looks, bool has_rail) {
  std::vector<RefusedPort> ports;
  for (const std::shared_ptr<DeviceLook>& look : looks.over) {
    for (const Refusal& each : look->refusals()) {
      if (!has_rail || !each.has_place) ports.push_back(each.port);
    }
  }
  for (const std::string& name : looks.late)
    ports.push_back({name, RefusalKind::Unusable, "has not answered"});
  return ports;
}

// Returns "PORT REASON, PORT REASON".
std::string refusals_text(std::span<const RefusedPort> ports) {
  std::string text;
  for (const RefusedPort& each : ports)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.port, each.reason);
  return text;
}

// Returns the names of the ports if NCCL_IB_HCA leaves out all of them; otherwise an empty text.
std::string all_left_out(std::span<const RefusedPort> ports) {
  std::string text;
  for (const RefusedPort& each : ports) {
    if (each.kind != RefusalKind::LeftOut) return {};
    text += (text.empty() ? "" : ", ") + each.port;
  }
  return text;
}

void log_rail(std::size_t index, const Rail& rail) {
  const RailInfo& info = rail.info;
  const std::string pci = pci_address(info);
  std::string others;
  for (std::size_t i = 1; i < rail.gids.size(); ++i)
    others += fmt::format("{}{} (GID index {})", i == 1 ? "" : ", ", address_text(rail.gids[i]),
                          rail.gids[i].index);
  if (!rail.up) {
    LOG_INFO("rail {} {}: {}, its port is down; it takes its place when it comes up", index,
             info.name, info.address);
    return;
  }
  LOG_INFO("rail {} {}: {}, {} GID index {}, {} Gb/s, MTU {}, NUMA node {}, PCI {}, {}", index,
           info.name, info.address, gid_type_name(rail.gids.front().type), rail.gids.front().index,
           info.speed_mbps / 1000, info.mtu, info.numa_node, pci.empty() ? "none" : pci,
           info.dma_buffers || info.peer_memory ? "GPUDirect" : "no GPUDirect");
  if (!others.empty()) LOG_DETAIL("rail {} {} also has {}", index, info.name, others);
}

// Returns true if NCCL fails without a rail, instead of using another transport. NCCL ignores case.
bool rails_are_needed(const Settings& settings) {
  return ::strcasecmp(settings.net.c_str(), "Mesh") == 0;
}

// A host without a device is usual in a mixed cluster. A list that names nothing is a mistake.
void log_no_rail(const Provider& provider, const Settings& settings,
                 std::span<const RefusedPort> refused) {
  if (const std::string all = all_left_out(refused); !all.empty()) {
    LOG_WARN("NCCL_IB_HCA={} leaves no port of {} (fabric {}), which has {}", settings.hca,
             provider.host_name(), provider.fabric(), all);
    return;
  }
  const LogLevel level = rails_are_needed(settings) ? LogLevel::Warn : LogLevel::Info;
  MESH_LOG(level, "no usable rail on {} (fabric {}): {}", provider.host_name(), provider.fabric(),
           refused.empty() ? "there is no device" : refusals_text(refused));
}
}  // namespace

std::string address_text(const GidEntry& gid) {
  return fmt::format("{}/{}", address_of(gid.gid).text(), gid.prefix_len);
}

std::string pci_address(const RailInfo& info) {
  const std::size_t slash = info.pci_path.rfind('/');
  return slash == std::string::npos ? "" : info.pci_path.substr(slash + 1);
}

Result<std::vector<Rail>> discover(Provider& provider, const Settings& settings,
                                   std::vector<RefusedPort>* refused, ThreadPool* pool) {
  const Looks looks = look_at_all(provider, settings, pool);
  std::vector<Rail> rails = take_rails(looks.over);
  const bool has_rail = !rails.empty() && rails.front().up;
  const std::vector<RefusedPort> others = refusals(looks, has_rail);
  if (refused != nullptr) *refused = others;
  if (!has_rail) {
    log_no_rail(provider, settings, others);
    return Errc::NotFound;
  }
  if (!others.empty()) LOG_INFO("ports not used: {}", refusals_text(others));
  if (rails.size() > kRailsMax) {
    LOG_WARN(
        "{} usable rails, at most {} are used; {} and those after it are left out; NCCL_IB_HCA "
        "chooses others",
        rails.size(), kRailsMax, rails[kRailsMax].info.name);
    rails.erase(rails.begin() + kRailsMax, rails.end());
  }
  level_device_memory(rails);
  for (std::size_t index = 0; index < rails.size(); ++index) {
    DCHECK(rails[index].context && !rails[index].gids.empty());
    log_rail(index, rails[index]);
  }
  DCHECK(!rails.empty() && rails.size() <= kRailsMax);
  return rails;
}

namespace {
// Returns a key by which "mlx5_2" comes before "mlx5_10".
std::tuple<std::string, std::size_t, std::string> name_order(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t digits = last == std::string::npos ? 0 : last + 1;
  return {name.substr(0, digits), name.size() - digits, name};
}
}  // namespace

std::vector<std::uint16_t> device_places(std::span<const DeviceEntry> devices) {
  std::vector<std::size_t> order(devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The last part of the path is the PCI address. Devices without one come first.
  const auto key = [&](std::size_t i) {
    const std::string& path = devices[i].pci_path;
    const std::size_t slash = path.rfind('/');
    return std::pair(slash == std::string::npos ? path : path.substr(slash + 1),
                     name_order(devices[i].name));
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<std::uint16_t> places(devices.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    places[order[place]] = static_cast<std::uint16_t>(std::min<std::size_t>(place, UINT16_MAX));
  return places;
}

}  // namespace mesh::verbs
