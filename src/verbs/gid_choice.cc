#include "src/verbs/gid_choice.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace mesh::verbs {

namespace {
// A lower rank is better.
enum class Rank { Ipv4, Ipv6, LocalIpv4, LocalIpv6, Unfit };

Rank rank(const GidEntry& entry, const GidWish& wish) noexcept {
  if (entry.type != wish.type) return Rank::Unfit;
  const SocketAddress address = address_of(entry.gid);
  if (wish.family != AF_UNSPEC && address.family != wish.family) return Rank::Unfit;
  if (wish.range && !wish.range->holds(address)) return Rank::Unfit;
  if (address.family == AF_INET) return address.link_local() ? Rank::LocalIpv4 : Rank::Ipv4;
  return address.link_local() ? Rank::LocalIpv6 : Rank::Ipv6;
}
}  // namespace

GidWish gid_wish(const Settings& settings, bool ethernet) {
  GidWish wish{.ethernet = ethernet, .index = settings.gid_index};
  if (settings.addr_family == "AF_INET") wish.family = AF_INET;
  if (settings.addr_family == "AF_INET6") wish.family = AF_INET6;
  wish.range = read_address_range(settings.addr_range);
  if (settings.roce_version == 1) wish.type = GidType::RoceV1;
  return wish;
}

std::vector<GidEntry> choose_gids(std::span<const GidEntry> entries, const GidWish& wish) {
  int index = wish.index;
  if (!wish.ethernet) {
    const auto routable = std::find_if(entries.begin(), entries.end(), [](const GidEntry& entry) {
      return routable_lid(entry.gid) != 0;
    });
    index = routable == entries.end() ? 0 : routable->index;
  }
  std::vector<GidEntry> chosen(entries.begin(), entries.end());
  if (index >= 0) {
    std::erase_if(chosen, [index](const GidEntry& entry) { return entry.index != index; });
    return chosen;
  }
  const auto rank_of = [&wish](const GidEntry& entry) { return rank(entry, wish); };
  // If devices are shared between network namespaces, a port's table has the addresses of all, and
  // only those of interfaces that we see are ours.
  const auto fits = [&](const GidEntry& entry) { return rank_of(entry) < Rank::Unfit; };
  const auto ours = [&](const GidEntry& entry) { return fits(entry) && entry.prefix_len >= 0; };
  if (std::any_of(chosen.begin(), chosen.end(), ours))
    std::erase_if(chosen, [](const GidEntry& entry) { return entry.prefix_len < 0; });
  const bool any_global = std::any_of(chosen.begin(), chosen.end(), [&](const GidEntry& entry) {
    return rank_of(entry) < Rank::LocalIpv4;
  });
  const Rank limit = any_global ? Rank::LocalIpv4 : Rank::Unfit;
  std::erase_if(chosen, [&](const GidEntry& entry) { return rank_of(entry) >= limit; });
  std::sort(chosen.begin(), chosen.end(), [&](const GidEntry& a, const GidEntry& b) {
    return std::pair(rank_of(a), a.index) < std::pair(rank_of(b), b.index);
  });
  if (chosen.size() > kRailGidsMax) chosen.resize(kRailGidsMax);
  DCHECK(!any_global || !chosen.empty());
  return chosen;
}

std::uint16_t routable_lid(const ibv_gid& gid) noexcept {
  const bool site_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0xc0;
  return site_local ? static_cast<std::uint16_t>(gid.raw[4] << 8 | gid.raw[5]) : std::uint16_t{0};
}

bool same_ib_subnet(const ibv_gid& a, const ibv_gid& b) noexcept {
  constexpr std::size_t kPrefixBytes = 8;
  return std::equal(a.raw, a.raw + kPrefixBytes, b.raw);
}

SocketAddress address_of(const ibv_gid& gid) noexcept {
  std::array<std::uint8_t, 16> raw{};
  std::copy(std::begin(gid.raw), std::end(gid.raw), raw.begin());
  return SocketAddress::from_gid(raw);
}

const char* gid_type_name(GidType type) noexcept {
  switch (type) {
    case GidType::Ib: return "InfiniBand";
    case GidType::RoceV1: return "RoCE v1";
    case GidType::RoceV2: return "RoCE v2";
  }
  return "unknown";
}

// IBTA PortInfo: LinkSpeedActive and its extensions (per lane), LinkWidthActive.
std::uint32_t link_speed_mbps(std::uint32_t active_speed, std::uint32_t active_width) noexcept {
  std::uint32_t lane_mbps = 0;
  switch (active_speed) {
    case 1: lane_mbps = 2'500; break;      // SDR
    case 2: lane_mbps = 5'000; break;      // DDR
    case 4: lane_mbps = 10'000; break;     // QDR
    case 8: lane_mbps = 10'000; break;     // FDR10
    case 16: lane_mbps = 14'000; break;    // FDR
    case 32: lane_mbps = 25'000; break;    // EDR
    case 64: lane_mbps = 50'000; break;    // HDR
    case 128: lane_mbps = 100'000; break;  // NDR
    case 256: lane_mbps = 200'000; break;  // XDR
  }
  std::uint32_t lanes = 0;
  switch (active_width) {
    case 1: lanes = 1; break;
    case 2: lanes = 4; break;
    case 4: lanes = 8; break;
    case 8: lanes = 12; break;
    case 16: lanes = 2; break;
  }
  return lane_mbps * lanes;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

std::uint64_t cable_guid(std::uint64_t adapter_guid, const std::string& pci_path) noexcept {
  const std::size_t dot = pci_path.rfind('.');
  if (dot == std::string::npos || dot + 2 != pci_path.size()) return adapter_guid;
  const char digit = pci_path[dot + 1];
  const std::uint64_t function =
      digit >= '0' && digit <= '7' ? static_cast<std::uint64_t>(digit - '0') : 0;
  constexpr int kFillerShift = 24;
  return adapter_guid ^ (function << kFillerShift);
}

}  // namespace mesh::verbs
