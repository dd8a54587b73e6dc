#include "src/soft/wire_model.h"

#include "src/base/check.h"

#include <algorithm>
#include <map>
#include <string>

namespace mesh::soft {

double ticks_per_byte(double gbps) noexcept {
  return gbps > 0 ? 8.0 / gbps * static_cast<double>(kTicksPerNs) : 0;
}

namespace {
// The ends of a link at one host. On a switch each of the host's ports carries the rate.
struct Ends {
  std::size_t count = 0;
  double gbps = 0;  // the sum of all ends
};

Ends ends_at(const FabricFile& fabric, const LinkSpec& link, int host) {
  Ends ends;
  for (const NicRef& end : link.ends) {
    if (end.host != host) continue;
    const double own = fabric.nic(end).gbps;
    ++ends.count;
    ends.gbps += own == 0 || link.gbps == 0 ? std::max(own, link.gbps) : std::min(own, link.gbps);
  }
  return ends;
}

struct Cable {
  double gbps = 0, limit_gbps = 0, share = 0;
};
}  // namespace

WireModel::WireModel(const LinkSpec* link, const NicSpec& nic, const NicCosts& costs,
                     const Wires& wires)
    : wires_(wires),
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

std::uint64_t WireModel::turn_bytes(std::uint64_t sent, std::uint64_t total,
                                    std::uint32_t mtu) const noexcept {
  DCHECK(mtu != 0 && sent < total);
  const std::uint64_t packets = (quantum_bytes_ + mtu - 1) / mtu;
  const std::uint64_t turn =
      packets * (mtu + kPacketOverheadBytes) + (sent == 0 ? kFirstPacketBytes : 0);
  const std::uint64_t left = total - sent;
  return left <= turn + kImmBytes ? left : turn;
}

std::uint64_t WireModel::send(std::uint64_t at_ticks, std::uint64_t bytes, CardSlot* far) noexcept {
  const std::uint64_t end_ticks =
      std::max(wires_.cable.book(at_ticks, scaled(bytes, link_ticks_per_byte_)),
               wires_.bus.book(at_ticks, scaled(bytes, nic_ticks_per_byte_)));
  return wires_.slot == nullptr && far == nullptr ? end_ticks
                                                  : pass_slots(at_ticks, end_ticks, bytes, far);
}

// Books the bytes behind what the other NICs of both slots have booked, and keeps this NIC busy
// until they are through. So each NIC has one quantum at a slot, and the NICs take turns whichever
// is asked first. A receiver has no buffer: what its slot cannot take stays at the sender, as where
// a port pauses its peer. The far slot's time is that at which bytes leave, so that a long cable to
// it does not hold up a short one.
std::uint64_t WireModel::pass_slots(std::uint64_t at_ticks, std::uint64_t end_ticks,
                                    std::uint64_t bytes, CardSlot* far) noexcept {
  if (CardSlot* const slot = wires_.slot; slot != nullptr)
    end_ticks =
        std::max(end_ticks, slot->reads.book(at_ticks, scaled(bytes, slot->ticks_per_byte)));
  if (far != nullptr) {
    // As they arrive: the last byte is written when it has come, if the slot is free.
    const std::uint64_t ticks = scaled(bytes, far->ticks_per_byte);
    const std::uint64_t from_ticks = std::max(at_ticks, end_ticks - std::min(end_ticks, ticks));
    end_ticks = std::max(end_ticks, far->writes.book(from_ticks, ticks));
  }
  wires_.bus.hold(end_ticks);
  return end_ticks;
}

std::optional<double> goodput_gbytes_per_s(const FabricFile& fabric, const HostPair& pair) {
  std::map<std::string, Cable> cables;
  for (std::size_t i = 0; i < fabric.links.size(); ++i) {
    const LinkSpec& link = fabric.links[i];
    const Ends from = ends_at(fabric, link, pair.from), to = ends_at(fabric, link, pair.to);
    if (from.count == 0 || to.count == 0) continue;
    if (from.gbps == 0 || to.gbps == 0) return std::nullopt;
    Cable& cable = cables[link.cable.empty() ? "link " + std::to_string(i) : "cable " + link.cable];
    cable.gbps += std::min(from.gbps, to.gbps);
    cable.limit_gbps = link.cable.empty() ? cable.gbps : link.gbps;
    cable.share = link.mtu / static_cast<double>(link.mtu + kPacketOverheadBytes);
  }
  double sum = 0;
  for (const auto& [name, cable] : cables)
    sum += std::min(cable.gbps, cable.limit_gbps) / 8 * cable.share;
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

}  // namespace mesh::soft
