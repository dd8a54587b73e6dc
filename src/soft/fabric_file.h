#pragma once
// A fabric file says which hosts exist, which NICs they have, and which cables or switches join
// them. It is JSON and validated as a whole, so a value of this type is always consistent. Thread:
// any (values). Bounds: kHostsMax hosts, kNicsMax NICs for each, kFileBytesMax bytes of text.

#include <infiniband/verbs.h>
#include <mesh/status.h>

#include "src/soft/fault_plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kHostsMax = 256;
inline constexpr std::size_t kNicsMax = 16;
// 256 hosts of 16 NICs with a link each are about 700 KiB of text with spaces.
inline constexpr std::size_t kFileBytesMax = 4 << 20;

// An InfiniBand port of the file has a LID up to kLidsMax. Each time the subnet manager changes a
// LID, it adds kLidsMax + 1, so everybody knows whose a LID is.
inline constexpr std::uint16_t kLidsMax = 4095;
inline constexpr int kLidChangesMax = 10;  // LIDs from 0xc000 on are for multicast
inline constexpr std::size_t kPkeysMax = 128;

enum class LinkLayer : std::uint8_t { Ethernet, InfiniBand, Unspecified };

struct NicSpec {
  std::string name;
  std::string address;  // "10.0.12.1", without the prefix
  ibv_gid gid{};        // the address as a GID; IPv4 is mapped into ::ffff:0:0/96
  int prefix_len = 0;   // in bits of the address' family
  bool ipv4 = true;
  // Equal for the halves of one cable; of other NICs, too, in a virtual machine. 0: it has none.
  std::uint64_t guid = 0;
  std::string pci;  // sysfs path; empty: none
  int numa = -1;
  int link = -1;  // index into FabricFile::links; -1: nothing is plugged in
  int slot = -1;  // index into HostSpec::slots; -1: none that limits it
  // The rate of the NIC's bus. The PCIe half of a cable may carry less than the cable. 0: as much
  // as the link.
  double gbps = 0;
  std::uint32_t mtu = 0;  // shown by its port, at most the link's; 0 in a file: the link's
  LinkLayer layer = LinkLayer::Ethernet;
  bool reliable = true;  // false: the device makes no reliable connected queue pairs
  // Whether it takes device memory (GPUDirect), as DMA buffers and by address.
  bool dma_buffers = false, peer_memory = false;
  bool late_device_writes = false;  // they land once the NIC reads such memory or its port is down
  // Whether a queue pair that is connected to itself fails while the port is down. No specification
  // says.
  bool loop_back_needs_port = false;
  std::uint32_t ece = 0;  // options that its queue pairs may agree on (ibv_ece); 0: it has none
  bool routes = true;     // false: the host has a route over this NIC to its own link only
  bool netdev = true;     // false: its net device is not visible, as in another network namespace
  bool ipv6 = true;       // false: its net device has no link-local IPv6 address
  bool firewall = false;  // true: its net device hears no datagrams
  // InfiniBand. The address is the port's GID.
  std::uint16_t lid = 0;             // at first
  std::vector<std::uint16_t> pkeys;  // its table of partition keys; 0 is an empty place
  bool global_header = false;        // the port takes no packet without a GID
};

// A slot of a host, or the PCIe link behind it, in which one or more NICs sit. It carries gbps of
// what they send together and gbps of what they receive together, in bytes on the wire. PCIe Gen5
// has some 27 Gb/s a lane.
struct CardSlotSpec {
  std::string name;
  double gbps = 0;  // above 0
};

struct HostSpec {
  std::string name;
  // The host whose name it tells others, and whose net devices have the same addresses as its own.
  // Empty: it is no clone.
  std::string clone_of;
  std::vector<CardSlotSpec> slots;  // each has a NIC; up to kNicsMax
  std::vector<NicSpec> nics;
};

struct NicRef {
  int host = 0, nic = 0;  // indices
  friend bool operator==(const NicRef&, const NicRef&) = default;
};

struct LinkSpec {
  std::vector<NicRef> ends;  // a cable has two, a switch two or more, routers included
  std::vector<int> routers;  // routers that the link is plugged into
  int network = -1;          // equal for links that routers join; -1: no router is here
  double gbps = 0;           // in each direction; 0: as fast as memory
  std::uint64_t delay_ns = 0;
  std::uint32_t mtu = 4096;
  double qp_gbps = 0;    // what one queue pair can use; 0: all
  double port_gbps = 0;  // the rate that its ports show; 0: gbps
  bool bond = false;  // its ports are bonds: port_speed_mbps() is gbps, attributes show port_gbps
  // Links with an equal name here are the halves of one cable and share its gbps. Empty: the link
  // is a cable of its own.
  std::string cable;
};

// The costs of a work request beside the wire. 0: nothing. The host's three costs take time only on
// a manual clock.
struct NicCosts {
  std::uint64_t quantum_bytes = 16384;  // of payload: one queue pair's turn on the wire
  // Time until the NIC has read a work request that is not inline. Others may overtake it
  // meanwhile.
  std::uint64_t fetch_ns = 0;
  std::uint64_t post_ns = 0;        // the host's, for each work request
  std::uint64_t doorbell_ns = 0;    // the host's, for each call of post_send
  std::uint64_t completion_ns = 0;  // the host's, for each polled completion
};

// A fabric that counts instead of moving: one host, no links, no faults (src/soft/null_fabric.h).
struct NullSpec {
  // The n-th poll after a post delivers it. 0: it is delivered while posting, and polls report it.
  std::uint32_t delivery_polls = 1;
};

struct FabricFile {
  std::string name;
  // Hosts of equal identity meet. It is made of a file's path and text, or of a text and the
  // process that parsed it.
  std::string identity;
  std::vector<HostSpec> hosts;
  std::vector<LinkSpec> links;
  std::vector<Fault> faults;  // each is armed on its host when that is opened
  NicCosts costs;             // for every NIC
  std::optional<NullSpec> null;

  int find_host(const std::string& host) const;  // an index, or -1
  bool has_slots() const;                        // some host names slots
  // Finds the first NIC with that address. NICs on different cables may have one address.
  bool find_gid(const ibv_gid& gid, NicRef* out) const;
  // Finds the NIC with that address to which packets from a NIC can go; there is one at most.
  bool find_joined(const NicSpec& from, const ibv_gid& gid, NicRef* out) const;
  NicSpec& nic(NicRef ref) {
    return hosts[static_cast<std::size_t>(ref.host)].nics[static_cast<std::size_t>(ref.nic)];
  }
  const NicSpec& nic(NicRef ref) const {
    return hosts[static_cast<std::size_t>(ref.host)].nics[static_cast<std::size_t>(ref.nic)];
  }
  bool find_nic(const std::string& host, const std::string& name_of_nic, NicRef* out) const;
  // Returns true if a packet from one NIC can be for another NIC: they are in one link, or routers
  // join their links and the first NIC's host has a route.
  bool joins(const NicSpec& from, const NicSpec& to) const;
  // Finds the NIC at the far end of a cable. Returns false if there is no such NIC, or it is not at
  // a cable of two ends.
  bool other_end(const std::string& host, const std::string& name_of_nic, NicRef* out) const;
  // Moves the plugs of two NICs' links: each link ends at the other NIC from now on.
  void swap_plugs(const NicRef& one, const NicRef& other);
};

// Parses the text. Returns InvalidArgument if it is not JSON, or contradicts itself. One line says
// what, where, and what would be right.
Result<FabricFile> parse(const std::string& text);
// Loads the file. Returns NotFound if there is no such file or it cannot be read, and
// InvalidArgument as parse() does, or if it is no regular file or too long. Never blocks.
Result<FabricFile> load(const std::string& path);

}  // namespace mesh::soft
