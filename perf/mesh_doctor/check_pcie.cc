#include "perf/mesh_doctor/checks.h"

#include <fmt/format.h>

#include <map>

namespace mesh::doctor {
namespace {

std::string lanes_text(int width, double gts) {
  return fmt::format("x{} at {:g} GT/s", width, gts);
}

void check_lanes(const HostFacts& facts, const PcieFacts& card, Findings& found) {
  const bool narrow = card.width > 0 && card.width < card.width_max;
  const bool slow = card.gts > 0 && card.gts < card.gts_max;
  if (!narrow && !slow) return;
  add_finding(
      found, "pcie-low", facts.host,
      {.about = fmt::format("{} at {}", card.device.empty() ? card.id : card.device, card.pci),
       .evidence =
           fmt::format("The PCIe link is {}; the card and its slot both support {}.",
                       lanes_text(card.width, card.gts), lanes_text(card.width_max, card.gts_max)),
       .remedy = "Power the host off and on, because a warm restart may keep the link as it is. If "
                 "that does not help, reseat the card or its riser."});
}

void check_device(const HostFacts& facts, const PcieFacts& card, Findings& found) {
  if (!card.device.empty()) return;
  add_finding(found, "card-without-device", facts.host,
              {.about = fmt::format("{} at {}", card.id, card.pci),
               .evidence = "The network card is on the PCI bus, and it has no RDMA device.",
               .remedy = "Load its driver (mlx5_ib), and look for the reason in dmesg. A card that "
                         "has fallen off the bus returns after the host is powered off and on."});
}

// On cards where one socket shows two halves, every socket does.
void check_halves(const HostFacts& facts, Findings& found) {
  std::map<std::string, bool> has_halves;  // by card
  for (const PortFacts& port : facts.ports) has_halves[port.card] |= !port.other_half.empty();
  for (const PortFacts& port : facts.ports) {
    const bool others = !port.card.empty() && has_halves[port.card];
    const bool shows_halves = others || is_spark(facts.machine);
    if (port.cable == 0 || !port.other_half.empty() || !shows_halves) continue;
    add_finding(
        found, "half-gone", facts.host,
        {.about = port.name,
         .evidence = fmt::format(
             "{} is one of the two PCIe halves of a socket, and the other half is missing; {}.",
             port.name,
             others ? "another socket of this card shows both"
                    : facts.machine.product + " shows both of every socket"),
         .remedy = "Look for PCIe errors in dmesg, and power the host off and on."});
  }
}

}  // namespace

void check_pcie(const HostFacts& facts, Findings& found) {
  for (const PcieFacts& card : facts.pcie) {
    check_lanes(facts, card, found);
    check_device(facts, card, found);
  }
  check_halves(facts, found);
}

}  // namespace mesh::doctor
