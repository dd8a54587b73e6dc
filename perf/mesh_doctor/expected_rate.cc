#include "perf/mesh_doctor/measured.h"

#include <algorithm>

namespace mesh::doctor {
namespace {

// The bytes of a RoCE v2 packet over IPv4 beside its payload.
constexpr double kPacketOverheadBytes = 82;

double payload_share(std::uint32_t mtu) { return mtu / (mtu + kPacketOverheadBytes); }

double port_gbps(const Cabling& cabling, const Half& half) {
  return std::min(cabling.rail(half.a).speed_mbps, cabling.rail(half.b).speed_mbps) / 1000.0;
}

const RailPace& pace(const Cabling& cabling, const End& end) {
  return cabling.hosts[end.host].paces[end.rail];
}

// Returns the rate of the slower PCIe link of the two ends; 0 if one of them is not known.
double bus_gbps(const Cabling& cabling, const Half& half) {
  return std::min(pace(cabling, half.a).bus_gbps, pace(cabling, half.b).bus_gbps);
}

// halves: how many the cable has.
double half_gbps(const Cabling& cabling, const Half& half, std::size_t halves) {
  const double port = port_gbps(cabling, half) * payload_share(half.mtu);
  const double bus = bus_gbps(cabling, half);
  if (bus > 0) return std::min(port, bus);
  return port / static_cast<double>(halves);
}

}  // namespace

double expected_gbps(const Cabling& cabling, const Step& step) {
  const std::vector<Half>& halves = cabling.cables[step.cable].halves;
  const auto unknown = [&](const Half& half) {
    return !pace(cabling, half.a).known || !pace(cabling, half.b).known;
  };
  if (std::any_of(halves.begin(), halves.end(), unknown)) return 0;
  // A half that is missing at one end counts, too.
  const std::size_t all = std::max(cabling.ports_of(halves.front().a).size(),
                                   cabling.ports_of(halves.front().b).size());
  if (step.half) return half_gbps(cabling, halves[*step.half], all);
  double together = 0, port = 0;
  for (const Half& half : halves) {
    together += half_gbps(cabling, half, all);
    port = std::max(port, port_gbps(cabling, half) * payload_share(half.mtu));
  }
  return std::min(together, port);
}

}  // namespace mesh::doctor
