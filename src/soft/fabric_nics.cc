#include "src/soft/fabric_nics.h"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

namespace mesh::soft {

namespace {

constexpr std::uint16_t kFullMember = 0xffff;  // of the default partition
constexpr int kInfiniBandPrefixLen = 64;

void read_address(const Json& object, const std::string& what, NicSpec& nic) {
  const std::string text = text_of(object, what, "address");
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    refuse(object, what, "address", "an address and its prefix, such as 10.0.12.1/24");
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
    refuse(object, what, "address", "an address of IPv4 or IPv6");
  }
  const std::string prefix = text.substr(slash + 1);
  const bool digits =
      !prefix.empty() && prefix.size() <= 3 && std::all_of(prefix.begin(), prefix.end(), ::isdigit);
  nic.prefix_len = digits ? std::atoi(prefix.c_str()) : 0;
  const int most = nic.ipv4 ? 32 : 128;
  if (!digits || nic.prefix_len < 1 || nic.prefix_len > most)
    refuse(object, what, "address", fmt::format("a prefix in 1..{}", most));
}

std::uint64_t read_guid(const Json& object, const std::string& what, const std::string& seed) {
  const std::string text = text_of(object, what, "guid");
  if (text.empty()) return hash_text(seed);
  char* end = nullptr;
  const std::uint64_t guid = std::strtoull(text.c_str(), &end, 16);
  if (*end != '\0') refuse(object, what, "guid", "a hexadecimal number");
  return guid;
}

int read_slot(const Json& object, const std::string& what, const HostSpec& host) {
  if (!object.contains("slot")) return -1;
  const std::string name = text_of(object, what, "slot");
  for (std::size_t i = 0; i < host.slots.size(); ++i)
    if (host.slots[i].name == name) return static_cast<int>(i);
  refuse(object, what, "slot", "the name of one of the host's slots");
}

LinkLayer read_layer(const Json& object, const std::string& what) {
  const std::string text = text_of(object, what, "layer");
  if (text.empty() || text == "ethernet") return LinkLayer::Ethernet;
  if (text == "infiniband") return LinkLayer::InfiniBand;
  if (text == "unspecified") return LinkLayer::Unspecified;
  refuse(object, what, "layer", "ethernet, infiniband or unspecified");
}

void read_device_memory(const Json& object, const std::string& what, NicSpec& nic) {
  const std::string text = text_of(object, what, "device_memory");
  if (!text.empty() && text != "dma_buffers" && text != "peer" && text != "both")
    refuse(object, what, "device_memory", "dma_buffers, peer or both");
  nic.dma_buffers = text == "dma_buffers" || text == "both";
  nic.peer_memory = text == "peer" || text == "both";
  nic.late_device_writes = flag_of(object, what, "late_device_writes");
  nic.loop_back_needs_port = flag_of(object, what, "loop_back_needs_port");
}

// Reads keys such as "0xffff"; the entry 0 is an empty place in the table.
std::vector<std::uint16_t> read_pkeys(const Json& object, const std::string& what) {
  std::vector<std::uint16_t> keys;
  for (const Json& entry : list_of(object, what, "pkeys")) {
    const std::string text = entry.is_string() ? entry.get<std::string>() : "";
    char* end = nullptr;
    const unsigned long key = std::strtoul(text.c_str(), &end, 16);
    if (text.empty() || *end != '\0' || key > UINT16_MAX)
      refuse(object, what, "pkeys", "hexadecimal numbers of 16 bits");
    keys.push_back(static_cast<std::uint16_t>(key));
  }
  if (keys.size() > kPkeysMax) refuse(object, what, "pkeys", fmt::format("up to {}", kPkeysMax));
  if (keys.empty()) keys.push_back(kFullMember);
  return keys;
}

void read_infiniband(const Json& object, const std::string& what, NicSpec& nic) {
  nic.lid = static_cast<std::uint16_t>(number_of(object, what, "lid", {1, kLidsMax, 0}));
  nic.pkeys = read_pkeys(object, what);
  nic.global_header = flag_of(object, what, "global_header");
  const bool infiniband = nic.layer == LinkLayer::InfiniBand;
  const bool special = nic.lid != 0 || object.contains("pkeys") || nic.global_header;
  if (special && !infiniband)
    fail("{}: lid, pkeys and global_header are for the layer infiniband", what);
  if (infiniband && (nic.ipv4 || nic.prefix_len != kInfiniBandPrefixLen))
    fail("{}: an InfiniBand GID is written as an IPv6 address with the prefix /64", what);
}

}  // namespace

std::uint64_t hash_text(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint32_t read_mtu(const Json& object, const std::string& what, std::uint32_t otherwise) {
  if (!object.contains("mtu")) return otherwise;
  const auto mtu = static_cast<std::uint32_t>(number_of(object, what, "mtu", {0, 65536, 0}));
  if (mtu != 256 && mtu != 512 && mtu != 1024 && mtu != 2048 && mtu != 4096)
    refuse(object, what, "mtu", "256, 512, 1024, 2048 or 4096");
  return mtu;
}

verbs::DeviceEntry device_entry(const HostSpec& host, const NicSpec& nic) {
  verbs::DeviceEntry entry{nic.name, nic.pci, nic.guid, nic.numa, nic.name, verbs::kNoSlotLimit};
  if (nic.slot < 0) return entry;
  const CardSlotSpec& slot = host.slots[static_cast<std::size_t>(nic.slot)];
  entry.slot = slot.name;
  entry.slot_mbps = static_cast<std::uint32_t>(slot.gbps * 1000);
  return entry;
}

NicSpec read_nic(const Json& object, const HostSpec& host) {
  std::string what = fmt::format("a NIC of host {}", host.name);
  check_keys(object, what,
             {"name",
              "address",
              "guid",
              "pci",
              "numa",
              "gbps",
              "slot",
              "mtu",
              "layer",
              "lid",
              "pkeys",
              "global_header",
              "reliable",
              "routes",
              "netdev",
              "ipv6",
              "firewall",
              "ece",
              "device_memory",
              "late_device_writes",
              "loop_back_needs_port"});
  NicSpec nic;
  nic.name = name_of(object, what);
  what = fmt::format("NIC {}/{}", host.name, nic.name);
  read_address(object, what, nic);
  nic.guid = read_guid(object, what, host.name + "/" + nic.name);
  nic.pci = text_of(object, what, "pci");
  nic.numa = static_cast<int>(number_of(object, what, "numa", {-1, 1023, -1}));
  nic.gbps = number_of(object, what, "gbps", {1e-3, kGbpsMax, 0});
  nic.slot = read_slot(object, what, host);
  nic.mtu = read_mtu(object, what, 0);
  nic.layer = read_layer(object, what);
  nic.reliable = !object.contains("reliable") || flag_of(object, what, "reliable");
  nic.routes = !object.contains("routes") || flag_of(object, what, "routes");
  nic.netdev = !object.contains("netdev") || flag_of(object, what, "netdev");
  nic.ipv6 = !object.contains("ipv6") || flag_of(object, what, "ipv6");
  nic.firewall = flag_of(object, what, "firewall");
  nic.ece = static_cast<std::uint32_t>(number_of(object, what, "ece", {0, UINT32_MAX, 0}));
  read_device_memory(object, what, nic);
  read_infiniband(object, what, nic);
  return nic;
}

bool on_one_wire(const NicSpec& a, const NicSpec& b) {
  if (a.ipv4 != b.ipv4 || a.prefix_len != b.prefix_len) return false;
  return a.prefix_len == (a.ipv4 ? 32 : 128) || on_link(a, b.gid);
}

ibv_gid link_local_gid(const NicSpec& nic) {
  ibv_gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  const std::uint64_t wire = htobe64(nic.guid);
  std::memcpy(gid.raw + 8, &wire, sizeof wire);
  return gid;
}

bool on_link(const NicSpec& nic, const ibv_gid& gid) {
  const int bits = nic.prefix_len + (nic.ipv4 ? 96 : 0);
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((nic.gid.raw[byte] ^ gid.raw[byte]) & (0x80 >> (bit % 8))) != 0) return false;
  }
  return true;
}

void give_lids(FabricFile& file) {
  for (const LinkSpec& link : file.links) {
    std::set<std::uint16_t> taken;
    std::vector<NicSpec*> without;
    for (const NicRef end : link.ends) {
      NicSpec& nic = file.nic(end);
      if (nic.layer != LinkLayer::InfiniBand) continue;
      if (nic.lid == 0) {
        without.push_back(&nic);
      } else if (!taken.insert(nic.lid).second) {
        fail("NIC {}: its link has lid {} twice", nic.name, nic.lid);
      }
    }
    std::uint16_t next = 1;
    for (NicSpec* const nic : without) {
      while (!taken.insert(next).second) ++next;
      if (next > kLidsMax) fail("NIC {}: its link has no lid left", nic->name);
      nic->lid = next;
    }
  }
}

}  // namespace mesh::soft
