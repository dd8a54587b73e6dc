#include "src/soft/port_codes.h"

#include "src/base/check.h"

#include <array>
#include <bit>
#include <cmath>

namespace mesh::soft {

namespace {

constexpr double kDefaultGbps = 100;  // the rate that a link without one shows

struct Rate {
  std::uint8_t code;
  double value;  // Gb/s for one, or how many of them
};
constexpr std::array<Rate, 8> kSpeeds = {
    {{1, 2.5}, {2, 5}, {4, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}, {8, 10}}};
constexpr std::array<Rate, 5> kWidths = {{{1, 1}, {16, 2}, {2, 4}, {4, 8}, {8, 12}}};

}  // namespace

void name_rate(double gbps, ibv_port_attr* attr) {
  double nearest = INFINITY;
  for (const Rate& speed : kSpeeds) {
    for (const Rate& width : kWidths) {
      const double off = std::abs(speed.value * width.value - gbps);
      if (off >= nearest) continue;
      nearest = off;
      attr->active_speed = speed.code;
      attr->active_width = width.code;
    }
  }
}

double named_gbps(const LinkSpec* link) {
  if (link == nullptr) return kDefaultGbps;
  if (link->port_gbps > 0) return link->port_gbps;
  return link->gbps > 0 ? link->gbps : kDefaultGbps;
}

ibv_mtu mtu_code(std::uint32_t bytes) {
  DCHECK(std::has_single_bit(bytes) && bytes >= 256 && bytes <= 4096);
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}
static_assert(IBV_MTU_256 == 1 && IBV_MTU_4096 == 5);

std::uint8_t layer_code(LinkLayer layer) {
  switch (layer) {
    case LinkLayer::Ethernet: return IBV_LINK_LAYER_ETHERNET;
    case LinkLayer::InfiniBand: return IBV_LINK_LAYER_INFINIBAND;
    case LinkLayer::Unspecified: break;
  }
  return IBV_LINK_LAYER_UNSPECIFIED;
}

}  // namespace mesh::soft
