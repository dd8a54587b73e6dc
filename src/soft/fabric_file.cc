#include "src/soft/fabric_file.h"

#include "src/base/log.h"
#include "src/base/shown_text.h"
#include "src/base/small_file.h"
#include "src/soft/json_fields.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace mesh::soft {

namespace {

using nlohmann::json;

constexpr double kGbpsMax = 10'000;
constexpr double kDelayUsMax = 10'000'000;
constexpr double kQuantumBytesMax = 1 << 30;
constexpr double kCostNsMax = 1'000'000;

std::uint64_t hash_text(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void read_address(const std::string& text, const std::string& what, NicSpec& nic) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    fail("{}: address \"{}\" has no prefix, such as 10.0.12.1/24", what, text);
  nic.address = text.substr(0, slash);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, nic.address.c_str(), &v4) == 1) {
    nic.gid.raw[10] = nic.gid.raw[11] = 0xff;
    std::memcpy(nic.gid.raw + 12, &v4, 4);
    nic.ipv4 = true;
  } else if (::inet_pton(AF_INET6, nic.address.c_str(), &v6) == 1) {
    std::memcpy(nic.gid.raw, &v6, 16);
    nic.ipv4 = false;
  } else {
    fail("{}: address \"{}\" is neither IPv4 nor IPv6", what, nic.address);
  }
  const std::string prefix = text.substr(slash + 1);
  const bool digits =
      !prefix.empty() && prefix.size() <= 3 && std::all_of(prefix.begin(), prefix.end(), ::isdigit);
  nic.prefix_len = digits ? std::atoi(prefix.c_str()) : 0;
  const int most = nic.ipv4 ? 32 : 128;
  if (!digits || nic.prefix_len < 1 || nic.prefix_len > most)
    fail("{}: prefix \"{}\" is not in 1..{}", what, prefix, most);
}

std::uint64_t read_guid(const json& object, const std::string& what, const std::string& seed) {
  const std::string text = text_of(object, what, "guid");
  if (text.empty()) return hash_text(seed);
  char* end = nullptr;
  const std::uint64_t guid = std::strtoull(text.c_str(), &end, 16);
  if (*end != '\0' || guid == 0)
    fail("{}: guid \"{}\" is not a hexadecimal number above 0", what, text);
  return guid;
}

NicSpec read_nic(const json& object, const std::string& host) {
  std::string what = fmt::format("a NIC of host {}", host);
  check_keys(object, what, {"name", "address", "guid", "pci", "numa", "gbps"});
  NicSpec nic;
  nic.name = name_of(object, what);
  what = fmt::format("NIC {}/{}", host, nic.name);
  read_address(text_of(object, what, "address"), what, nic);
  nic.guid = read_guid(object, what, host + "/" + nic.name);
  nic.pci = text_of(object, what, "pci");
  nic.numa = static_cast<int>(number_of(object, what, "numa", {-1, 1023, -1}));
  nic.gbps = number_of(object, what, "gbps", {1e-3, kGbpsMax, 0});
  return nic;
}

void read_hosts(const json& root, FabricFile& file) {
  const json& hosts = list_of(root, "the file", "hosts");
  if (hosts.empty() || hosts.size() > kHostsMax)
    fail("{} hosts are not in 1..{}", hosts.size(), kHostsMax);
  for (const json& object : hosts) {
    check_keys(object, "a host", {"name", "nics"});
    HostSpec host;
    host.name = name_of(object, "a host");
    if (file.find_host(host.name) >= 0) fail("host {} is there twice", host.name);
    const json& nics = list_of(object, "host " + host.name, "nics");
    if (nics.empty() || nics.size() > kNicsMax)
      fail("host {}: {} NICs are not in 1..{}", host.name, nics.size(), kNicsMax);
    file.hosts.push_back(host);
    for (const json& entry : nics) {
      NicSpec nic = read_nic(entry, host.name);
      NicRef other;
      if (file.find_gid(nic.gid, &other))
        fail("NIC {}/{}: address {} is there twice", host.name, nic.name, nic.address);
      std::vector<NicSpec>& list = file.hosts.back().nics;
      const auto same = [&](const NicSpec& n) { return n.name == nic.name; };
      if (std::any_of(list.begin(), list.end(), same))
        fail("NIC {}/{} is there twice", host.name, nic.name);
      list.push_back(std::move(nic));
    }
  }
}

NicRef read_end(const json& value, const FabricFile& file) {
  if (!value.is_string())
    fail("a link's end is {}, not a string such as \"a/mesh0\"", value.type_name());
  const std::string text = value.get<std::string>();
  const std::size_t slash = text.find('/');
  const int host = slash == std::string::npos ? -1 : file.find_host(text.substr(0, slash));
  if (host >= 0) {
    const std::vector<NicSpec>& nics = file.hosts[static_cast<std::size_t>(host)].nics;
    for (std::size_t i = 0; i < nics.size(); ++i)
      if (nics[i].name == text.substr(slash + 1)) return {host, static_cast<int>(i)};
  }
  fail("a link's end \"{}\" is no NIC of this file", text);
}

bool same_subnet(const NicSpec& a, const NicSpec& b) {
  if (a.ipv4 != b.ipv4 || a.prefix_len != b.prefix_len) return false;
  const int bits = a.prefix_len + (a.ipv4 ? 96 : 0);
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((a.gid.raw[byte] ^ b.gid.raw[byte]) & (0x80 >> (bit % 8))) != 0) return false;
  }
  return true;
}

void plug(const std::vector<NicRef>& ends, const std::string& what, FabricFile& file) {
  const auto nic_of = [&](NicRef end) -> NicSpec& {
    return file.hosts[static_cast<std::size_t>(end.host)].nics[static_cast<std::size_t>(end.nic)];
  };
  const NicSpec& first = nic_of(ends.front());
  for (const NicRef end : ends) {
    NicSpec& nic = nic_of(end);
    const std::string& host = file.hosts[static_cast<std::size_t>(end.host)].name;
    if (nic.link >= 0) fail("{}: NIC {}/{} is already in a link", what, host, nic.name);
    if (!same_subnet(first, nic))
      fail("{}: {}/{} and {}/{} are on different subnets", what, first.address, first.prefix_len,
           nic.address, nic.prefix_len);
    nic.link = static_cast<int>(file.links.size());
  }
}

// The two halves of a cable join the same hosts at the same rate, and each NIC is slower than the
// cable: that is what lets the other half in.
void check_cable(const std::string& what, const FabricFile& file) {
  const LinkSpec& link = file.links.back();
  if (link.cable.empty()) return;
  const auto nic_of = [&](NicRef end) -> const NicSpec& {
    return file.hosts[static_cast<std::size_t>(end.host)].nics[static_cast<std::size_t>(end.nic)];
  };
  for (const NicRef end : link.ends) {
    const double own = nic_of(end).gbps;
    if (own == 0 || own >= link.gbps)
      fail("{}: NIC {} on cable \"{}\" needs a gbps of its own below the cable's {}", what,
           nic_of(end).name, link.cable, link.gbps);
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

void read_links(const json& root, FabricFile& file) {
  for (const json& object : list_of(root, "the file", "links")) {
    const std::string what = fmt::format("link {}", file.links.size());
    check_keys(object, what,
               {"ends", "switch", "gbps", "delay_us", "mtu", "qp_gbps", "port_gbps", "cable"});
    const bool cable = object.contains("ends");
    if (cable == object.contains("switch"))
      fail("{} has not exactly one of \"ends\" and \"switch\"", what);
    LinkSpec link;
    for (const json& end : list_of(object, what, cable ? "ends" : "switch"))
      link.ends.push_back(read_end(end, file));
    if (cable && link.ends.size() != 2) fail("{} has {} ends, not 2", what, link.ends.size());
    if (link.ends.size() < 2)
      fail("{}: a switch of {} NICs, not 2 or more", what, link.ends.size());
    link.gbps = number_of(object, what, "gbps", {1e-3, kGbpsMax, 0});
    link.qp_gbps = number_of(object, what, "qp_gbps", {1e-3, kGbpsMax, 0});
    link.port_gbps = number_of(object, what, "port_gbps", {1e-3, kGbpsMax, 0});
    link.cable = text_of(object, what, "cable");
    link.delay_ns = static_cast<std::uint64_t>(
        std::llround(number_of(object, what, "delay_us", {0, kDelayUsMax, 0}) * 1000));
    link.mtu = static_cast<std::uint32_t>(number_of(object, what, "mtu", {0, 65536, 4096}));
    if (link.mtu != 256 && link.mtu != 512 && link.mtu != 1024 && link.mtu != 2048 &&
        link.mtu != 4096)
      fail("{}: mtu {} is not 256, 512, 1024, 2048 or 4096", what, link.mtu);
    plug(link.ends, what, file);
    file.links.push_back(std::move(link));
    check_cable(what, file);
  }
}

void read_costs(const json& root, FabricFile& file) {
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

FaultKind read_kind(const std::string& text) {
  if (text == "qp_error") return FaultKind::QpError;
  if (text == "peer_lost") return FaultKind::PeerLost;
  if (text == "write_delay") return FaultKind::WriteDelay;
  if (text == "reorder") return FaultKind::Reorder;
  if (text == "port_down") return FaultKind::PortDown;
  if (text == "post_refused") return FaultKind::PostRefused;
  fail(
      "a fault's kind \"{}\" is not qp_error, peer_lost, write_delay, reorder, port_down or "
      "post_refused",
      text);
}

void read_faults(const json& root, FabricFile& file) {
  for (const json& object : list_of(root, "the file", "faults")) {
    const std::string what = fmt::format("fault {}", file.faults.size());
    check_keys(object, what,
               {"kind", "host", "nic", "peer_host", "after_work_requests", "work_requests",
                "after_ns", "duration_ns", "delay_ns", "seed", "both_ends"});
    Fault fault;
    fault.kind = read_kind(text_of(object, what, "kind"));
    fault.host = text_of(object, what, "host");
    fault.nic = text_of(object, what, "nic");
    fault.peer_host = text_of(object, what, "peer_host");
    if (!fault.host.empty() && file.find_host(fault.host) < 0)
      fail("{}: host {} is not in the file", what, fault.host);
    if (!fault.peer_host.empty() && file.find_host(fault.peer_host) < 0)
      fail("{}: peer_host {} is not in the file", what, fault.peer_host);
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
    file.faults.push_back(std::move(fault));
  }
  if (file.faults.size() > kFaultsMax)
    fail("{} faults are not in 0..{}", file.faults.size(), kFaultsMax);
}

void read_null(const json& root, FabricFile& file) {
  const auto it = root.find("null");
  if (it == root.end()) return;
  check_keys(*it, "null", {"delivery_polls"});
  if (file.hosts.size() != 1)
    fail("a null fabric has {} hosts, not 1: it joins the contexts of one process",
         file.hosts.size());
  if (!file.links.empty() || !file.faults.empty())
    fail("a null fabric has neither links nor faults");
  file.null.emplace();
  file.null->delivery_polls =
      static_cast<std::uint32_t>(number_of(*it, "null", "delivery_polls", {0, 1000, 1}));
}

Result<FabricFile> read(const std::string& text, const std::string& source,
                        const std::string& identity) {
  try {
    const Document document(parse_document(text, kFileBytesMax));
    const json& root = document.root();
    check_keys(root, "the file", {"name", "hosts", "links", "faults", "nic_costs", "null"});
    FabricFile file;
    file.name = name_of(root, "the file");
    file.identity = fmt::format("{}-{:016x}", file.name, hash_text(identity + "\n" + text));
    read_hosts(root, file);
    read_links(root, file);
    read_costs(root, file);
    read_faults(root, file);
    read_null(root, file);
    return file;
  } catch (const json::exception& error) {
    LOG_WARN("soft fabric: {} is not JSON: {}", source, shown_text(error.what()));
  } catch (const BadField& error) {
    LOG_WARN("soft fabric: {}: {}", source, shown_text(error.what()));
  }
  return Errc::InvalidArgument;
}

}  // namespace

int FabricFile::find_host(const std::string& host) const {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].name == host) return static_cast<int>(i);
  return -1;
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
