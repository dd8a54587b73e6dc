#include "src/soft/wire_model.h"

#include "src/base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace mesh::soft {

double ticks_per_byte(double gbps) noexcept {
  return gbps > 0 ? 8.0 / gbps * static_cast<double>(kTicksPerNs) : 0;
}

namespace {
double end_gbps(const FabricFile& fabric, const LinkSpec& link, NicRef end) {
  const double own = fabric.nic(end).gbps;
  return own == 0 || link.gbps == 0 ? std::max(own, link.gbps) : std::min(own, link.gbps);
}

double payload_share(const LinkSpec& link) {
  return link.mtu / static_cast<double>(link.mtu + kPacketOverheadBytes);
}

// Ways that share a limit, such as the halves of a cable or the NICs of a slot.
struct Shared {
  double gbps = 0, payload_gbps = 0;  // sums of the ways
  double limit_gbps = 0;              // 0: none
};

class Groups {
 public:
  void add(const std::string& name, double gbps, double share, double limit_gbps) {
    Shared& group = groups_[name];
    group.gbps += gbps;
    group.payload_gbps += gbps * share;
    group.limit_gbps = limit_gbps;
  }
  double payload_gbps() const {
    double sum = 0;
    for (const auto& [name, group] : groups_) {
      const bool binds = group.limit_gbps > 0 && group.limit_gbps < group.gbps;
      sum += group.payload_gbps * (binds ? group.limit_gbps / group.gbps : 1);
    }
    return sum;
  }

 private:
  std::map<std::string, Shared> groups_;
};

// Adds the ends of a link at one host to their slots. On a switch each of the host's ports carries
// the rate. Returns the sum of the ends.
double add_ends(const FabricFile& fabric, const LinkSpec& link, int host, Groups& slots) {
  double sum = 0;
  for (const NicRef end : link.ends) {
    if (end.host != host) continue;
    const double gbps = end_gbps(fabric, link, end);
    const int slot = fabric.nic(end).slot;
    const std::vector<CardSlotSpec>& all = fabric.hosts[static_cast<std::size_t>(host)].slots;
    slots.add(slot < 0 ? fmt::format("NIC {}", end.nic) : fmt::format("slot {}", slot), gbps,
              payload_share(link), slot < 0 ? 0 : all[static_cast<std::size_t>(slot)].gbps);
    sum += gbps;
  }
  return sum;
}

bool has_end_at(const LinkSpec& link, int host) {
  return std::any_of(link.ends.begin(), link.ends.end(),
                     [host](const NicRef& end) { return end.host == host; });
}
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

std::optional<Goodput> goodput_between(const FabricFile& fabric, const HostPair& pair) {
  Groups cables, from_slots, to_slots;
  for (std::size_t i = 0; i < fabric.links.size(); ++i) {
    const LinkSpec& link = fabric.links[i];
    if (!has_end_at(link, pair.from) || !has_end_at(link, pair.to)) continue;
    const double gbps = std::min(add_ends(fabric, link, pair.from, from_slots),
                                 add_ends(fabric, link, pair.to, to_slots));
    if (gbps == 0) return std::nullopt;
    cables.add(link.cable.empty() ? fmt::format("link {}", i) : "cable " + link.cable, gbps,
               payload_share(link), link.cable.empty() ? 0 : link.gbps);
  }
  const double wired = cables.payload_gbps(),
               through = std::min(from_slots.payload_gbps(), to_slots.payload_gbps());
  if (wired == 0) return std::nullopt;
  return Goodput{.gbytes_per_s = std::min(wired, through) / 8, .slots_bind = through < wired};
}

}  // namespace mesh::soft
