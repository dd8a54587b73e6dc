#include "src/soft/fabric_file.h"

#include "src/base/json_fields.h"
#include "src/base/log.h"
#include "src/base/small_file.h"
#include "src/soft/fabric_nics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace mesh::soft {

namespace {

constexpr JsonBounds kBounds{.bytes = kFileBytesMax, .depth = 16};  // a file needs five levels
constexpr std::size_t kRoutersMax = 64;
constexpr std::size_t kRouterNameMax = 32;
constexpr double kDelayUsMax = 10'000'000;
constexpr double kQuantumBytesMax = 1 << 30;
constexpr double kCostNsMax = 1'000'000;

void read_slots(const Json& slots, HostSpec& host) {
  if (slots.size() > kNicsMax)
    fail("host {}: {} slots are not in 0..{}", host.name, slots.size(), kNicsMax);
  for (const Json& entry : slots) {
    read_object(entry, [&](const Json& object) {
      const std::string a_slot = "a slot of host " + host.name;
      check_keys(object, a_slot, {"name", "gbps"});
      CardSlotSpec slot{.name = name_of(object, a_slot)};
      const std::string what = fmt::format("slot {}/{}", host.name, slot.name);
      const auto same = [&](const CardSlotSpec& other) { return other.name == slot.name; };
      if (std::any_of(host.slots.begin(), host.slots.end(), same)) fail("{} is there twice", what);
      member_of(object, what, "gbps");
      slot.gbps = number_of(object, what, "gbps", {1e-3, kGbpsMax, 0});
      host.slots.push_back(std::move(slot));
    });
  }
}

void check_slots(const HostSpec& host) {
  for (std::size_t i = 0; i < host.slots.size(); ++i) {
    const auto sits = [i](const NicSpec& nic) { return nic.slot == static_cast<int>(i); };
    if (std::none_of(host.nics.begin(), host.nics.end(), sits))
      fail("slot {}/{} has no NIC", host.name, host.slots[i].name);
  }
}

void read_nics(const Json& nics, FabricFile& file) {
  const std::string host = file.hosts.back().name;
  std::vector<NicSpec>& list = file.hosts.back().nics;
  if (nics.empty() || nics.size() > kNicsMax)
    fail("host {}: {} NICs are not in 1..{}", host, nics.size(), kNicsMax);
  for (const Json& entry : nics) {
    read_object(entry, [&](const Json& object) {
      NicSpec nic = read_nic(object, file.hosts.back());
      const auto same = [&](const NicSpec& n) { return n.name == nic.name; };
      if (std::any_of(list.begin(), list.end(), same))
        fail("NIC {}/{} is there twice", host, nic.name);
      list.push_back(std::move(nic));
    });
  }
}

void read_hosts(const Json& root, FabricFile& file) {
  const Json& hosts = list_of(root, "the file", "hosts");
  if (hosts.empty() || hosts.size() > kHostsMax)
    fail("{} hosts are not in 1..{}", hosts.size(), kHostsMax);
  for (const Json& entry : hosts) {
    read_object(entry, [&](const Json& object) {
      check_keys(object, "a host", {"name", "nics", "clone_of", "slots"});
      const std::string name = name_of(object, "a host");
      if (file.find_host(name) >= 0) fail("host {} is there twice", name);
      file.hosts.emplace_back().name = name;
      file.hosts.back().clone_of = text_of(object, "host " + name, "clone_of");
      read_slots(list_of(object, "host " + name, "slots"), file.hosts.back());
      read_nics(list_of(object, "host " + name, "nics"), file);
      check_slots(file.hosts.back());
    });
  }
}

// Reads an end of a link, a NIC or a router.
void read_end(const Json& value, const std::vector<std::string>& routers, const FabricFile& file,
              LinkSpec& link) {
  if (!value.is_string())
    fail("a link's end is {}, not a string such as \"a/mesh0\"", value.type_name());
  const std::string text = value.get<std::string>();
  const auto router = std::find(routers.begin(), routers.end(), text);
  if (router != routers.end()) {
    link.routers.push_back(static_cast<int>(router - routers.begin()));
    return;
  }
  const std::size_t slash = text.find('/');
  const int host = slash == std::string::npos ? -1 : file.find_host(text.substr(0, slash));
  if (host >= 0) {
    const std::vector<NicSpec>& nics = file.hosts[static_cast<std::size_t>(host)].nics;
    for (std::size_t i = 0; i < nics.size(); ++i) {
      if (nics[i].name != text.substr(slash + 1)) continue;
      link.ends.push_back({host, static_cast<int>(i)});
      return;
    }
  }
  fail("a link's end \"{}\" is no NIC and no router of this file", text);
}

std::vector<std::string> read_routers(const Json& root) {
  std::vector<std::string> routers;
  for (const Json& entry : list_of(root, "the file", "routers")) {
    const std::string name = entry.is_string() ? entry.get<std::string>() : "";
    if (name.empty() || name.size() > kRouterNameMax || name.find('/') != std::string::npos)
      fail("a router's name \"{}\" is not 1 to {} letters without \"/\"", name, kRouterNameMax);
    if (std::find(routers.begin(), routers.end(), name) != routers.end())
      fail("router {} is there twice", name);
    routers.push_back(name);
  }
  if (routers.size() > kRoutersMax)
    fail("{} routers are not in 0..{}", routers.size(), kRoutersMax);
  return routers;
}

// Joins links that share a router, and in turn those that share one with them, into one network.
void join_networks(FabricFile& file) {
  for (std::size_t i = 0; i < file.links.size(); ++i)
    file.links[i].network = file.links[i].routers.empty() ? -1 : static_cast<int>(i);
  for (bool changed = true; changed;) {
    changed = false;
    std::array<int, kRoutersMax> least;
    least.fill(INT_MAX);
    for (const LinkSpec& link : file.links) {
      for (const int router : link.routers) {
        int& network = least[static_cast<std::size_t>(router)];
        network = std::min(network, link.network);
      }
    }
    for (LinkSpec& link : file.links) {
      for (const int router : link.routers) {
        const int network = least[static_cast<std::size_t>(router)];
        changed |= network < link.network;
        link.network = std::min(link.network, network);
      }
    }
  }
}

void plug(const LinkSpec& link, const std::string& what, FabricFile& file) {
  const NicSpec& first = file.nic(link.ends.front());
  for (const NicRef end : link.ends) {
    NicSpec& nic = file.nic(end);
    const std::string& host = file.hosts[static_cast<std::size_t>(end.host)].name;
    if (nic.link >= 0) fail("{}: NIC {}/{} is already in a link", what, host, nic.name);
    if (first.layer != nic.layer)
      fail("{}: NICs {} and {} have different link layers", what, first.name, nic.name);
    if (!on_one_wire(first, nic))
      fail("{}: {}/{} and {}/{} are on different subnets", what, first.address, first.prefix_len,
           nic.address, nic.prefix_len);
    if (nic.mtu > link.mtu)
      fail("{}: NIC {}/{} has mtu {}, more than the link's {}", what, host, nic.name, nic.mtu,
           link.mtu);
    if (nic.mtu == 0) nic.mtu = link.mtu;
    nic.link = static_cast<int>(file.links.size());
  }
}

// Returns the rate of the NIC's bus, or that of its slot if that is less; 0: neither has one.
double own_gbps(NicRef end, const FabricFile& file) {
  const NicSpec& nic = file.nic(end);
  if (nic.slot < 0) return nic.gbps;
  const HostSpec& host = file.hosts[static_cast<std::size_t>(end.host)];
  const double slot = host.slots[static_cast<std::size_t>(nic.slot)].gbps;
  return nic.gbps == 0 ? slot : std::min(nic.gbps, slot);
}

// Checks that the two halves of a cable join the same two hosts at one rate, and that each NIC is
// slower than the cable: that is what lets the second half in.
void check_cable(const std::string& what, const FabricFile& file) {
  const LinkSpec& link = file.links.back();
  if (link.cable.empty()) return;
  for (const NicRef end : link.ends) {
    const double own = own_gbps(end, file);
    if (own == 0 || own >= link.gbps)
      fail("{}: NIC {} on cable \"{}\" needs a gbps of its own or a slot's below the cable's {}",
           what, file.nic(end).name, link.cable, link.gbps);
  }
  std::size_t halves = 0;
  for (const LinkSpec& other : file.links) {
    if (other.cable != link.cable) continue;
    ++halves;
    bool same = other.gbps == link.gbps && other.ends.size() == 2 && link.ends.size() == 2;
    for (std::size_t i = 0; same && i < 2; ++i) same = other.ends[i].host == link.ends[i].host;
    if (!same) fail("{}: the halves of cable \"{}\" differ in gbps or hosts", what, link.cable);
  }
  if (halves > 2) fail("{}: cable \"{}\" has {} halves, not 2", what, link.cable, halves);
}

LinkSpec read_link(const Json& object, const std::string& what,
                   const std::vector<std::string>& routers, const FabricFile& file) {
  check_keys(
      object, what,
      {"ends", "switch", "gbps", "delay_us", "mtu", "qp_gbps", "port_gbps", "cable", "bond"});
  const bool cable = object.contains("ends");
  if (cable == object.contains("switch"))
    fail("{} has not exactly one of \"ends\" and \"switch\"", what);
  LinkSpec link;
  for (const Json& end : list_of(object, what, cable ? "ends" : "switch"))
    read_end(end, routers, file, link);
  const std::size_t ends = link.ends.size() + link.routers.size();
  if (cable && ends != 2) fail("{} has {} ends, not 2", what, ends);
  if (ends < 2) fail("{}: a switch of {} NICs, not 2 or more", what, ends);
  if (link.ends.empty()) fail("{} joins routers only", what);
  link.gbps = number_of(object, what, "gbps", {1e-3, kGbpsMax, 0});
  link.qp_gbps = number_of(object, what, "qp_gbps", {1e-3, kGbpsMax, 0});
  link.port_gbps = number_of(object, what, "port_gbps", {1e-3, kGbpsMax, 0});
  link.bond = flag_of(object, what, "bond");
  link.cable = text_of(object, what, "cable");
  link.delay_ns = static_cast<std::uint64_t>(
      std::llround(number_of(object, what, "delay_us", {0, kDelayUsMax, 0}) * 1000));
  link.mtu = read_mtu(object, what, 4096);
  return link;
}

// Refuses an address that two NICs have which can hear each other. On different cables the kernel
// takes any address, and so do we.
void check_addresses(const FabricFile& file) {
  std::map<std::pair<int, std::string>, NicRef> taken;
  for (std::size_t i = 0; i < file.links.size(); ++i) {
    const LinkSpec& link = file.links[i];
    const int network = link.network >= 0 ? link.network : static_cast<int>(i);
    for (const NicRef end : link.ends) {
      const auto [first, fresh] = taken.try_emplace({network, file.nic(end).address}, end);
      if (fresh) continue;
      const auto name = [&file](NicRef ref) {
        return file.hosts[static_cast<std::size_t>(ref.host)].name + "/" + file.nic(ref).name;
      };
      fail("link {}: address {} is there twice, at {} and {}", i, file.nic(end).address,
           name(first->second), name(end));
    }
  }
}

void read_links(const Json& root, FabricFile& file) {
  const std::vector<std::string> routers = read_routers(root);
  for (const Json& entry : list_of(root, "the file", "links")) {
    read_object(entry, [&](const Json& object) {
      const std::string what = fmt::format("link {}", file.links.size());
      LinkSpec link = read_link(object, what, routers, file);
      plug(link, what, file);
      file.links.push_back(std::move(link));
      check_cable(what, file);
    });
  }
  join_networks(file);
  check_addresses(file);
  give_lids(file);
}

void read_costs(const Json& root, FabricFile& file) {
  const auto it = root.find("nic_costs");
  if (it == root.end()) return;
  const std::string what = "nic_costs";
  check_keys(*it, what, {"quantum_bytes", "fetch_ns", "post_ns", "doorbell_ns", "completion_ns"});
  const auto read = [&](const char* key, Range range) {
    return static_cast<std::uint64_t>(number_of(*it, what, key, range));
  };
  NicCosts& costs = file.costs;
  costs.quantum_bytes =
      read("quantum_bytes", {256, kQuantumBytesMax, static_cast<double>(costs.quantum_bytes)});
  costs.fetch_ns = read("fetch_ns", {0, kCostNsMax, 0});
  costs.post_ns = read("post_ns", {0, kCostNsMax, 0});
  costs.doorbell_ns = read("doorbell_ns", {0, kCostNsMax, 0});
  costs.completion_ns = read("completion_ns", {0, kCostNsMax, 0});
}

FaultKind read_kind(const Json& object, const std::string& what) {
  const std::string text = text_of(object, what, "kind");
  if (text == "qp_error") return FaultKind::QpError;
  if (text == "peer_lost") return FaultKind::PeerLost;
  if (text == "write_delay") return FaultKind::WriteDelay;
  if (text == "reorder") return FaultKind::Reorder;
  if (text == "out_of_order") return FaultKind::OutOfOrder;
  if (text == "port_down") return FaultKind::PortDown;
  if (text == "lid_change") return FaultKind::LidChange;
  if (text == "card_left") return FaultKind::CardLeft;
  if (text == "card_replaced") return FaultKind::CardReplaced;
  if (text == "post_refused") return FaultKind::PostRefused;
  if (text == "mtu") return FaultKind::Mtu;
  if (text == "mute") return FaultKind::Mute;
  refuse(object, what, "kind",
         "qp_error, peer_lost, write_delay, reorder, out_of_order, port_down, lid_change, "
         "card_left, card_replaced, post_refused, mtu or mute");
}

Fault read_fault(const Json& object, const FabricFile& file) {
  const std::string what = fmt::format("fault {}", file.faults.size());
  check_keys(object, what,
             {"kind", "host", "nic", "peer_host", "after_work_requests", "work_requests",
              "after_ns", "duration_ns", "delay_ns", "seed", "both_ends", "mtu"});
  Fault fault;
  fault.kind = read_kind(object, what);
  fault.nic = text_of(object, what, "nic");
  for (const auto& [key, name] :
       {std::pair("host", &fault.host), {"peer_host", &fault.peer_host}}) {
    const std::string host = text_of(object, what, key);
    if (!host.empty() && file.find_host(host) < 0)
      fail("{}: {} {} is not in the file", what, key, host);
    *name = host;
  }
  if (fault.kind == FaultKind::PeerLost && fault.peer_host.empty())
    fail("{}: peer_lost names no peer_host", what);
  fault.both_ends = flag_of(object, what, "both_ends");
  NicRef end;
  if (fault.both_ends &&
      (fault.kind != FaultKind::PortDown || !file.other_end(fault.host, fault.nic, &end)))
    fail("{}: both_ends needs port_down with host and nic of a cable", what);
  fault.after_work_requests = count_of(object, what, "after_work_requests", 0);
  fault.work_requests = count_of(object, what, "work_requests", 0);
  fault.after_ns = count_of(object, what, "after_ns", 0);
  fault.duration_ns = count_of(object, what, "duration_ns", 0);
  fault.delay_ns = static_cast<std::uint64_t>(
      number_of(object, what, "delay_ns", {0, static_cast<double>(kFaultDelayMaxNs), 0}));
  fault.seed = count_of(object, what, "seed", 1);
  fault.mtu = static_cast<std::uint32_t>(number_of(object, what, "mtu", {0, 65536, 0}));
  if ((fault.kind == FaultKind::Mtu) != (fault.mtu != 0))
    fail("{}: mtu (the bytes that still arrive) goes with kind mtu, and only with it", what);
  return fault;
}

void read_faults(const Json& root, FabricFile& file) {
  for (const Json& entry : list_of(root, "the file", "faults"))
    read_object(entry,
                [&](const Json& object) { file.faults.push_back(read_fault(object, file)); });
  if (file.faults.size() > kFaultsMax)
    fail("{} faults are not in 0..{}", file.faults.size(), kFaultsMax);
}

void read_null(const Json& root, FabricFile& file) {
  const auto it = root.find("null");
  if (it == root.end()) return;
  check_keys(*it, "null", {"delivery_polls"});
  if (file.hosts.size() != 1)
    fail("a null fabric has {} hosts, not 1: it joins the contexts of one process",
         file.hosts.size());
  if (!file.links.empty() || !file.faults.empty() || file.has_slots())
    fail("a null fabric has neither links nor faults nor slots");
  file.null.emplace();
  file.null->delivery_polls =
      static_cast<std::uint32_t>(number_of(*it, "null", "delivery_polls", {0, 1000, 1}));
}

Result<FabricFile> read(const std::string& text, const std::string& source,
                        const std::string& identity) {
  FabricFile file;
  const std::string why = read_json(text, kBounds, [&](const Json& root) {
    check_keys(root, "the file",
               {"name", "hosts", "routers", "links", "faults", "nic_costs", "null"});
    file.name = name_of(root, "the file");
    file.identity = fmt::format("{}-{:016x}", file.name, hash_text(identity + "\n" + text));
    read_hosts(root, file);
    read_links(root, file);
    read_costs(root, file);
    read_faults(root, file);
    read_null(root, file);
  });
  if (why.empty()) return file;
  LOG_WARN("soft fabric: {}: {}", source, why);
  return Errc::InvalidArgument;
}

}  // namespace

int FabricFile::find_host(const std::string& host) const {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].name == host) return static_cast<int>(i);
  return -1;
}

bool FabricFile::has_slots() const {
  return std::any_of(hosts.begin(), hosts.end(),
                     [](const HostSpec& host) { return !host.slots.empty(); });
}

bool FabricFile::find_gid(const ibv_gid& gid, NicRef* out) const {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t nic = 0; nic < hosts[host].nics.size(); ++nic) {
      if (std::memcmp(hosts[host].nics[nic].gid.raw, gid.raw, sizeof gid.raw) != 0) continue;
      *out = {static_cast<int>(host), static_cast<int>(nic)};
      return true;
    }
  }
  return false;
}

bool FabricFile::find_joined(const NicSpec& from, const ibv_gid& gid, NicRef* out) const {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t nic = 0; nic < hosts[host].nics.size(); ++nic) {
      const NicSpec& to = hosts[host].nics[nic];
      if (std::memcmp(to.gid.raw, gid.raw, sizeof gid.raw) != 0 || !joins(from, to)) continue;
      *out = {static_cast<int>(host), static_cast<int>(nic)};
      return true;
    }
  }
  return false;
}

bool FabricFile::find_nic(const std::string& host, const std::string& name_of_nic,
                          NicRef* out) const {
  const int index = find_host(host);
  if (index < 0) return false;
  const std::vector<NicSpec>& nics = hosts[static_cast<std::size_t>(index)].nics;
  const auto it = std::find_if(nics.begin(), nics.end(),
                               [&](const NicSpec& spec) { return spec.name == name_of_nic; });
  if (it == nics.end()) return false;
  *out = {index, static_cast<int>(it - nics.begin())};
  return true;
}

bool FabricFile::other_end(const std::string& host, const std::string& name_of_nic,
                           NicRef* out) const {
  NicRef self;
  if (!find_nic(host, name_of_nic, &self) || nic(self).link < 0) return false;
  const std::vector<NicRef>& ends = links[static_cast<std::size_t>(nic(self).link)].ends;
  if (ends.size() != 2) return false;
  const bool first = ends[0].host == self.host && ends[0].nic == self.nic;
  *out = ends[first ? 1 : 0];
  return true;
}

bool FabricFile::joins(const NicSpec& from, const NicSpec& to) const {
  if (from.link < 0 || to.link < 0) return false;
  const int network = links[static_cast<std::size_t>(from.link)].network;
  return from.link == to.link || (from.routes && network >= 0 &&
                                  links[static_cast<std::size_t>(to.link)].network == network);
}

void FabricFile::swap_plugs(const NicRef& one, const NicRef& other) {
  for (LinkSpec& link : links) {
    for (NicRef& end : link.ends) {
      if (end == one || end == other) end = end == one ? other : one;
    }
  }
  std::swap(nic(one).link, nic(other).link);
}

Result<FabricFile> parse(const std::string& text) {
  return read(text, "fabric text", fmt::format("process {}", ::getpid()));
}

static Errc tell_unreadable(Errc reason, const std::string& path, int error) {
  if (reason == Errc::InvalidArgument) {
    LOG_WARN("soft fabric: {} is not a regular file", path);
    return Errc::InvalidArgument;
  }
  if (reason == Errc::Exhausted) {
    LOG_WARN("soft fabric: file {} has more than {} bytes", path, kFileBytesMax);
    return Errc::InvalidArgument;
  }
  LOG_WARN("soft fabric: file {} cannot be read: {}", path, std::strerror(error));
  return Errc::NotFound;
}

Result<FabricFile> load(const std::string& path) {
  const Result<std::string> text = read_short_file(path, kFileBytesMax);
  if (!text.ok()) return tell_unreadable(text.code(), path, errno);
  char resolved[PATH_MAX];
  const bool found = ::realpath(path.c_str(), resolved) != nullptr;
  return read(*text, path, found ? resolved : path.c_str());
}

}  // namespace mesh::soft
