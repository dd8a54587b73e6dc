#pragma once
// Which GID of a port we speak from, and small decoders of port attributes. Pure.
// Thread: any.

#include "src/base/socket.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::verbs {

struct GidWish {
  bool ethernet = true;
  int index = -1;  // NCCL_IB_GID_INDEX; -1: by type and address
};

inline constexpr std::size_t kRailGidsMax = 8;

// Those a rail may speak from, the preferred first. InfiniBand: index 0. Ethernet: RoCE v2 only,
// IPv4 addresses before global IPv6 ones, the lower index where equal; link-local ones only where
// there is no other. With an index wished: that entry alone, whatever its type. Empty: there is
// none. Bound: kRailGidsMax.
std::vector<GidEntry> choose_gids(std::span<const GidEntry> entries, const GidWish& wish);

SocketAddress address_of(const ibv_gid& gid) noexcept;
const char* gid_type_name(GidType type) noexcept;

// Megabits a second of a link; 0: a code we do not know.
std::uint32_t link_speed_mbps(std::uint32_t active_speed, std::uint32_t active_width) noexcept;

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept;

// NCCL takes two devices with equal guid and port for two views of one port. The halves of one
// cable are functions of equal number on different PCIe links of one adapter; different cables are
// different functions: so the adapter's guid with the PCI function number in its filler bytes
// (0xfffe in an EUI-64 made from a MAC address, so no other adapter's).
std::uint64_t cable_guid(std::uint64_t adapter_guid, const std::string& pci_path) noexcept;

}  // namespace mesh::verbs
