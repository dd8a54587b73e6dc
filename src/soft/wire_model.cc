#include "src/soft/wire_model.h"

#include "src/base/check.h"

namespace mesh::soft {

namespace {
double ticks_per_byte(double gbps) {
  return gbps > 0 ? 8.0 / gbps * static_cast<double>(kTicksPerNs) : 0;
}
}  // namespace

WireModel::WireModel(const LinkSpec* link, const NicSpec& nic, const NicCosts& costs,
                     Transmitter& transmitter)
    : transmitter_(transmitter),
      quantum_bytes_(costs.quantum_bytes),
      fetch_ticks_(costs.fetch_ns * kTicksPerNs) {
  nic_ticks_per_byte_ = ticks_per_byte(nic.gbps);
  if (link == nullptr) return;
  link_ticks_per_byte_ = ticks_per_byte(link->gbps);
  qp_ticks_per_byte_ = ticks_per_byte(link->qp_gbps);
  delay_ns_ = link->delay_ns;
}

std::uint64_t WireModel::wire_bytes(std::uint64_t payload, std::uint32_t mtu,
                                    bool with_imm) noexcept {
  DCHECK(mtu != 0);
  const std::uint64_t packets = std::max<std::uint64_t>(1, (payload + mtu - 1) / mtu);
  return payload + packets * kPacketOverheadBytes + kFirstPacketBytes + (with_imm ? kImmBytes : 0);
}

std::uint64_t WireModel::send(std::uint64_t at_ticks, std::uint64_t bytes) noexcept {
  DCHECK(at_ticks >= nic_free_at_ticks_);
  const std::uint64_t on_cable = at_ticks + scaled(bytes, link_ticks_per_byte_);
  const std::uint64_t on_bus = at_ticks + scaled(bytes, nic_ticks_per_byte_);
  nic_free_at_ticks_ = std::max(nic_free_at_ticks_, on_bus);
  const std::uint64_t busy_until = transmitter_.free_at_ticks.load(std::memory_order_relaxed);
  transmitter_.free_at_ticks.store(std::max(busy_until, on_cable), std::memory_order_relaxed);
  return std::max(on_cable, on_bus);
}

}  // namespace mesh::soft
