#pragma once
// Chooses the GIDs from which a port sends, and decodes port attributes. Thread: any (pure). Bound:
// kRailGidsMax.

#include <mesh/config.h>

#include "src/base/setting_grammar.h"
#include "src/base/socket.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::verbs {

struct GidWish {
  bool ethernet = true;
  // The fields below are for Ethernet ports only.
  int index = -1;                          // NCCL_IB_GID_INDEX; -1: by the fields below
  std::uint16_t family = AF_UNSPEC;        // NCCL_IB_ADDR_FAMILY; AF_UNSPEC: both
  std::optional<AddressRange> range = {};  // NCCL_IB_ADDR_RANGE
  GidType type = GidType::RoceV2;          // NCCL_IB_ROCE_VERSION_NUM
};

GidWish gid_wish(const Settings& settings, bool ethernet);

inline constexpr std::size_t kRailGidsMax = 8;

// Returns the GIDs that a rail may send from, the preferred one first. InfiniBand: the first that a
// router knows (routable_lid), or else index 0. Ethernet: those that the wish describes, IPv4
// before global IPv6 addresses, and the lower index first; link-local ones only if there is no
// other; addresses that no interface of this network namespace has only if none has one. If the
// wish names an index, the result is that entry alone, of any type. Empty if there is none.
std::vector<GidEntry> choose_gids(std::span<const GidEntry> entries, const GidWish& wish);

// Returns the LID by which routers of an InfiniBand fabric know the subnet of a site-local GID,
// which holds it in its fifth and sixth byte (as NCCL reads it in connect.cc of its net_ib); 0 if
// there is none.
std::uint16_t routable_lid(const ibv_gid& gid) noexcept;
// Returns true if two InfiniBand GIDs have one subnet prefix, their upper half.
bool same_ib_subnet(const ibv_gid& a, const ibv_gid& b) noexcept;

SocketAddress address_of(const ibv_gid& gid) noexcept;
const char* gid_type_name(GidType type) noexcept;

// Returns the speed of a link in Mb/s, or 0 if a code is unknown.
std::uint32_t link_speed_mbps(std::uint32_t active_speed, std::uint32_t active_width) noexcept;

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept;

// Returns the adapter's guid with the PCI function number in its filler bytes. NCCL takes two
// devices with equal guid and port for two views of one port. The halves of one cable are functions
// of equal number on different PCIe links of one adapter, and different cables are different
// functions. A virtual function has the number of the physical one, whose port it shares. The
// filler bytes are 0xfffe in an EUI-64 made from a MAC address, so no other adapter has this guid.
std::uint64_t cable_guid(std::uint64_t adapter_guid, const std::string& pci_path) noexcept;

}  // namespace mesh::verbs
