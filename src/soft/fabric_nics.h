#pragma once
// Reads the NICs of a fabric file: addresses, link layers, LIDs and partition keys. A contradiction
// throws BadField. Thread: any (pure). Bound: the file's.

#include "src/base/json_fields.h"
#include "src/soft/fabric_file.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <string>

namespace mesh::soft {

inline constexpr double kGbpsMax = 10'000;

std::uint64_t hash_text(const std::string& text);
// Returns the MTU of a port or a link, in bytes.
std::uint32_t read_mtu(const Json& object, const std::string& what, std::uint32_t otherwise);
NicSpec read_nic(const Json& object, const HostSpec& host);  // whose slots are known
// Describes the device that a NIC of the host is.
verbs::DeviceEntry device_entry(const HostSpec& host, const NicSpec& nic);
// Returns true if two NICs of a link are neighbours: they are in one subnet, or each has an address
// of its own (/32, /128), whose neighbour is a route of the host.
bool on_one_wire(const NicSpec& a, const NicSpec& b);
// Returns true if the NIC's host takes an address for a neighbour on that NIC's wire.
bool on_link(const NicSpec& nic, const ibv_gid& gid);
// Returns the link-local GID that an Ethernet port has beside its address.
ibv_gid link_local_gid(const NicSpec& nic);
// Numbers the InfiniBand ports of each link that have no LID of their own.
void give_lids(FabricFile& file);

}  // namespace mesh::soft
