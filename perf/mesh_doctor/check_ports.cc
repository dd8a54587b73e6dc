#include "perf/mesh_doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace mesh::doctor {
namespace {

// The most bytes of an Ethernet frame that the headers of RoCE v2 take, as the kernel counts.
constexpr int kRoceHeaders = 96;
constexpr int kRoceMtuMax = 4096;

// Returns the largest packet that an interface lets through; 0 if there is none.
int roce_mtu(int netdev_mtu) {
  for (const int mtu : {4096, 2048, 1024, 512, 256}) {
    if (mtu + kRoceHeaders <= netdev_mtu) return mtu;
  }
  return 0;
}

bool active(const PortFacts& port) { return port.state == "ACTIVE"; }

// Returns what the plugin says of a port, or of its whole device; null: nothing.
const RefusalFacts* refusal_of(const HostFacts& facts, const PortFacts& port) {
  for (const std::string& name : {port.name, port.device}) {
    for (const RefusalFacts& each : facts.refused) {
      if (each.port == name) return &each;
    }
  }
  return nullptr;
}

bool left_out(const HostFacts& facts, const PortFacts& port) {
  const RefusalFacts* const refusal = refusal_of(facts, port);
  return is_silent(facts, port) || (refusal != nullptr && refusal->kind == RefusalKind::LeftOut);
}

void check_use(const HostFacts& facts, const PortFacts& port, Findings& found) {
  const std::string reason = reason_of(facts, port);
  if (!active(port) || facts.rails.empty() || rail_of(facts, port.name) || left_out(facts, port))
    return;
  if (!port.other_half.empty() && rail_of(facts, port.other_half)) return;  // it has the finding
  add_finding(found, "port-not-used", facts.host,
              {.about = port.name,
               .evidence = fmt::format(
                   "The port is active, and the plugin does not offer it to NCCL: {}.", reason),
               .remedy = remedy_of(facts, port)});
}

void check_half(const HostFacts& facts, const PortFacts& port, Findings& found) {
  if (port.other_half.empty() || rail_of(facts, port.name) || !rail_of(facts, port.other_half) ||
      is_silent(facts, port))
    return;
  const std::string reason = reason_of(facts, port);
  add_finding(
      found, "half-unused", facts.host,
      {.about = port.name,
       .evidence = fmt::format("{} and {} are the two PCIe halves of one socket. {} is a rail, and "
                               "{} is not: its state is {}{}.",
                               port.other_half, port.name, port.other_half, port.name, port.state,
                               reason.empty() ? "" : ", and the plugin says that " + reason),
       .remedy = remedy_of(facts, port) + " Only both halves together carry the cable's full rate, "
                                          "each with an address in a subnet of its own."});
}

void check_mtu(const HostFacts& facts, const PortFacts& port, Findings& found) {
  const RailFacts* const rail = rail_of(facts, port.name);
  if (rail == nullptr || rail->mtu <= 0 || port.netdev_mtu <= 0 || port.link_layer != "Ethernet")
    return;
  const int possible = roce_mtu(port.netdev_mtu);
  if (rail->mtu >= kRoceMtuMax) return;
  if (possible > rail->mtu) {
    add_finding(
        found, "mtu-not-taken", facts.host,
        {.about = port.name,
         .evidence = fmt::format(
             "RDMA packets carry {} bytes, although the MTU of {} is {}, which allows {} bytes.",
             rail->mtu, port.netdev, port.netdev_mtu, possible),
         .remedy = fmt::format(
             "Set {} down and up again (ip link set), so that the RDMA device adopts its MTU.",
             port.netdev)});
    return;
  }
  add_finding(
      found, "mtu-small", facts.host,
      {.about = port.name,
       .evidence = fmt::format("The MTU of {} is {}, so RDMA packets carry {} bytes instead of {}.",
                               port.netdev, port.netdev_mtu, rail->mtu, kRoceMtuMax),
       .remedy = fmt::format("Run ip link set {} mtu 9000, do so at the other end of the cable "
                             "too, and set the MTU of a switch in between.",
                             port.netdev)});
}

void check_speed(const HostFacts& facts, const PortFacts& port, Findings& found) {
  if (!active(port) || port.rate_mbps < 0 || port.capable_mbps <= port.rate_mbps) return;
  add_finding(found, "port-slow", facts.host,
              {.about = port.name,
               .evidence = fmt::format("The link runs at {:g} Gb/s; the port supports {:g} Gb/s.",
                                       port.rate_mbps / 1000.0, port.capable_mbps / 1000.0),
               .remedy = "Check the cable's rating and seat, and the speed that is set at the "
                         "other end (ethtool)."});
}

// Returns true if the user has chosen the older type instead of RoCE v2.
bool wants_old_type(const HostFacts& facts) {
  const SettingFacts* const wanted = setting(facts, "NCCL_IB_ROCE_VERSION_NUM");
  return wanted != nullptr && wanted->value == "1";
}

bool has_type(const PortFacts& port, std::string_view type) {
  return std::any_of(port.gids.begin(), port.gids.end(),
                     [type](const GidFacts& each) { return each.type == type; });
}

// Returns true for a port with a finding about its GIDs, which gets none that follows from it.
bool lacks_gid(const HostFacts& facts, const PortFacts& port) {
  return active(port) && port.link_layer == "Ethernet" && !has_type(port, "RoCE v2") &&
         !wants_old_type(facts) && rail_of(facts, port.name) == nullptr && !left_out(facts, port);
}

// Adds a finding if NCCL_IB_GID_INDEX names a GID of another type of this port, or none.
void check_pinned_gid(const HostFacts& facts, const PortFacts& port, Findings& found) {
  const SettingFacts* const pinned = setting(facts, "NCCL_IB_GID_INDEX");
  if (pinned == nullptr || !active(port) || port.link_layer != "Ethernet") return;
  if (wants_old_type(facts) || left_out(facts, port)) return;
  const int index = std::atoi(pinned->value.c_str());
  if (index < 0) return;
  const auto gid = std::find_if(port.gids.begin(), port.gids.end(),
                                [index](const GidFacts& each) { return each.index == index; });
  const bool there = gid != port.gids.end();
  if (there && gid->type == "RoCE v2") return;
  add_finding(found, "gid-pinned", facts.host,
              {.about = port.name,
               .evidence = fmt::format(
                   "NCCL_IB_GID_INDEX={} (from {}) names {} of this port.", index, pinned->source,
                   there ? "a GID of type " + gid->type : std::string("no GID")),
               .remedy = "Unset NCCL_IB_GID_INDEX: the plugin then chooses the GID by type and "
                         "address, also after the table has changed."});
}

void check_types(const HostFacts& facts, const PortFacts& port, Findings& found) {
  if (!lacks_gid(facts, port)) return;
  const std::string about = port.name;
  if (port.gids.empty()) {
    add_finding(found, "gid-none", facts.host,
                {.about = about,
                 .evidence = "The port is active, and its GID table is empty.",
                 .remedy = fmt::format("Bring {} up and give it an address.",
                                       port.netdev.empty() ? "its interface" : port.netdev)});
    return;
  }
  add_finding(
      found, "gid-old-type", facts.host,
      {.about = about,
       .evidence = fmt::format(
           "None of the port's {} GIDs has the type RoCE v2; the first has the type {}.",
           port.gids.size(), port.gids.front().type),
       .remedy = "Enable RoCE v2 on the card (cma_roce_mode, or the firmware's ROCE settings)."});
}

}  // namespace

std::string remedy_of(const HostFacts& facts, const PortFacts& port) {
  const RefusalFacts* const refusal = refusal_of(facts, port);
  const RefusalKind kind = refusal == nullptr ? RefusalKind::NoAddress : refusal->kind;
  const bool of_interface = kind == RefusalKind::NoAddress || kind == RefusalKind::Down;
  if (!of_interface || port.netdev.empty()) return remedy_of(kind);
  return fmt::format("Bring {} up and give it an address, or exclude the port by NCCL_IB_HCA.",
                     port.netdev);
}

std::string reason_of(const HostFacts& facts, const PortFacts& port) {
  const RefusalFacts* const refusal = refusal_of(facts, port);
  return refusal == nullptr ? "" : refusal->port + " " + refusal->reason;
}

void check_ports(const HostFacts& facts, Findings& found) {
  for (const PortFacts& port : facts.ports) {
    if (!lacks_gid(facts, port) && !is_unseen(facts, port)) {
      check_use(facts, port, found);
      check_half(facts, port, found);
    }
    check_mtu(facts, port, found);
    check_speed(facts, port, found);
  }
}

void check_gids(const HostFacts& facts, Findings& found) {
  for (const PortFacts& port : facts.ports) {
    check_pinned_gid(facts, port, found);
    check_types(facts, port, found);
  }
}

void check_counters(const HostFacts& facts, Findings& found) {
  for (const PortFacts& port : facts.ports) {
    std::string moved;
    for (const auto& [name, later] : port.counters_later) {
      const auto before = port.counters.find(name);
      if (before == port.counters.end() || later <= before->second) continue;
      moved +=
          fmt::format("{}{} from {} to {}", moved.empty() ? "" : ", ", name, before->second, later);
    }
    if (moved.empty()) continue;
    add_finding(found, "errors-move", facts.host,
                {.about = port.name,
                 .evidence = "Error counters rose while the doctor ran: " + moved + ".",
                 .remedy = "Clean and reseat the cable, or replace it. If a switch drops packets, "
                           "check its flow control (PFC, ECN)."});
  }
}

}  // namespace mesh::doctor
