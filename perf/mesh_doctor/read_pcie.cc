// The PCI functions of network cards, and what their slots could do.
#include "perf/mesh_doctor/read_host.h"

#include <algorithm>
#include <cstdlib>

namespace mesh::doctor {
namespace {

const std::string kFunctions = "/sys/bus/pci/devices/";
constexpr std::string_view kMellanox = "0x15b3";

struct Lanes {
  int width = -1;
  double gts = -1;
};

// Reads a text such as "32.0 GT/s PCIe". Returns -1 for "Unknown", the text of a slot without a
// link.
double gts_of(const std::string& text) {
  const double gts = std::strtod(text.c_str(), nullptr);
  return gts > 0 ? gts : -1;
}

Lanes lanes_of(const Tree& tree, const std::string& folder, const std::string& when) {
  return {.width = static_cast<int>(tree.number(folder + "/" + when + "_link_width")),
          .gts = gts_of(tree.line(folder + "/" + when + "_link_speed"))};
}

// Returns what both ends of a link can do, or the known one of the two.
template <typename Number>
Number lesser(Number one, Number other) {
  return one < 0 || other < 0 ? std::max(one, other) : std::min(one, other);
}

bool network_card(const Tree& tree, const std::string& folder) {
  const std::string kind = tree.line(folder + "/class");
  return kind.starts_with("0x0200") || kind.starts_with("0x0207");
}

// Returns true for functions that need no RDMA device of their own: virtual functions, functions of
// virtual machines, and those whose port is part of a bond.
bool lent_or_joined(const Tree& tree, const std::string& folder) {
  if (tree.has(folder + "/physfn")) return true;
  if (tree.resolved(folder + "/driver").ends_with("/vfio-pci")) return true;
  const std::vector<std::string> interfaces = tree.names(folder + "/net");
  return std::any_of(interfaces.begin(), interfaces.end(), [&](const std::string& name) {
    return tree.has(folder + "/net/" + name + "/bonding_slave");
  });
}

std::string hex(const std::string& text) { return text.starts_with("0x") ? text.substr(2) : text; }

}  // namespace

std::vector<PcieFacts> read_pcie(const Tree& tree, const std::vector<PortFacts>& ports) {
  std::vector<PcieFacts> found;
  for (const std::string& pci : tree.names(kFunctions)) {
    const std::string folder = kFunctions + pci;
    const auto port = std::find_if(ports.begin(), ports.end(),
                                   [&pci](const PortFacts& each) { return each.pci == pci; });
    const std::string vendor = tree.line(folder + "/vendor");
    if (port == ports.end() && (vendor != kMellanox || !network_card(tree, folder))) continue;
    if (port == ports.end() && lent_or_joined(tree, folder)) continue;
    const Lanes now = lanes_of(tree, folder, "current"), most = lanes_of(tree, folder, "max");
    const std::string real = tree.resolved(folder);
    const Lanes slot = lanes_of(tree, real.substr(0, real.rfind('/')), "max");
    found.push_back({.pci = pci,
                     .id = hex(vendor) + ":" + hex(tree.line(folder + "/device")),
                     .device = port == ports.end() ? std::string() : port->device,
                     .width = now.width,
                     .width_max = lesser(most.width, slot.width),
                     .gts = now.gts,
                     .gts_max = lesser(most.gts, slot.gts),
                     .iommu = tree.line(folder + "/iommu_group/type")});
  }
  return found;
}

}  // namespace mesh::doctor
