#include "src/soft/wire_model.h"

namespace mesh::soft {

namespace {
double ticks_per_byte(double gbps) { return gbps > 0 ? 8.0 / gbps * static_cast<double>(kTicksPerNs) : 0; }
}  // namespace

WireModel::WireModel(const LinkSpec* link) {
  if (link == nullptr) return;
  link_ticks_per_byte_ = ticks_per_byte(link->gbps);
  qp_ticks_per_byte_ = ticks_per_byte(link->qp_gbps);
  delay_ns_ = link->delay_ns;
}

std::uint64_t WireModel::wire_bytes(std::uint64_t payload, std::uint32_t mtu, bool with_imm) noexcept {
  const std::uint64_t packets = std::max<std::uint64_t>(1, (payload + mtu - 1) / mtu);
  return payload + packets * kPacketOverheadBytes + kFirstPacketBytes + (with_imm ? kImmBytes : 0);
}

}  // namespace mesh::soft
