#include "perf/mesh_doctor/kernel_network.h"
#include "perf/mesh_doctor/read_host.h"
#include "src/verbs/rdma_sysfs.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace mesh::doctor {
namespace {

const std::string kDevices = "/sys/class/infiniband/";
constexpr int kGidsMax = 256;
// Each counts an event that a healthy link never has, or a peer that was not ready.
constexpr std::array kErrorCounters{"symbol_error",
                                    "link_error_recovery",
                                    "link_downed",
                                    "port_rcv_errors",
                                    "port_rcv_remote_physical_errors",
                                    "port_xmit_discards",
                                    "local_link_integrity_errors",
                                    "excessive_buffer_overrun_errors",
                                    "out_of_sequence",
                                    "packet_seq_err",
                                    "implied_nak_seq_err",
                                    "local_ack_timeout_err",
                                    "rx_icrc_encapsulated",
                                    "rnr_nak_retry_err",
                                    "roce_adp_retrans_to"};

// Returns "ACTIVE" of "4: ACTIVE".
std::string behind_colon(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

// Reads a rate such as "200 Gb/sec (4X HDR)".
int rate_mbps(const std::string& text) {
  const double gbps = std::strtod(text.c_str(), nullptr);
  return gbps > 0 ? static_cast<int>(gbps * 1000) : -1;
}

bool used(const std::string& gid) { return gid.find_first_not_of("0:") != std::string::npos; }

std::vector<GidFacts> read_gids(const Tree& tree, const std::string& folder) {
  std::vector<GidFacts> gids;
  for (int index = 0; index < kGidsMax; ++index) {
    const std::string number = std::to_string(index);
    if (!tree.has(folder + "gids/" + number)) break;
    GidFacts gid{.index = index,
                 .gid = tree.line(folder + "gids/" + number),
                 .type = tree.line(folder + "gid_attrs/types/" + number),
                 .netdev = tree.line(folder + "gid_attrs/ndevs/" + number)};
    if (used(gid.gid)) gids.push_back(std::move(gid));
  }
  return gids;
}

// Returns the interface of the GIDs, which may be another device's (soft-RoCE), or else the own
// one.
std::string netdev_of(const Tree& tree, const PortFacts& port) {
  for (const GidFacts& gid : port.gids) {
    if (!gid.netdev.empty()) return gid.netdev;
  }
  const std::vector<std::string> names = tree.names(kDevices + port.device + "/device/net");
  return names.size() == 1 ? names.front() : std::string();
}

int capable(const Tree& tree, const PortFacts& port, const std::string& rate) {
  if (port.link_layer == "InfiniBand")  // 1X is one lane of a cable that has four
    return rate.find("(1X ") != std::string::npos ? port.rate_mbps * 4 : port.rate_mbps;
  return tree.whole_machine() && !port.netdev.empty() ? capable_mbps(port.netdev) : -1;
}

// The stricter of the interface's setting and that of all interfaces holds.
int arp_ignore_of(const Tree& tree, const std::string& netdev) {
  const std::string folder = "/proc/sys/net/ipv4/conf/";
  if (netdev.empty()) return -1;
  return static_cast<int>(std::max(tree.number(folder + "all/arp_ignore"),
                                   tree.number(folder + netdev + "/arp_ignore")));
}

// Returns the file by which programs use the device; empty if there is none here.
std::string verbs_file_of(const Tree& tree, const std::string& device) {
  const std::string files = "/sys/class/infiniband_verbs/";
  for (const std::string& name : tree.names(files)) {
    if (tree.line(files + name + "/ibdev") != device) continue;
    const std::string file = "/dev/infiniband/" + name;
    return tree.has(file) ? file : std::string();
  }
  return {};
}

// No file tells the classes; a planted host has one with a line "CLASS MBPS" for each limit.
TrafficClasses classes_of(const Tree& tree, const std::string& netdev) {
  if (tree.whole_machine()) return traffic_classes(netdev);
  TrafficClasses classes;
  for (const std::string& line : tree.lines("/traffic_classes/" + netdev)) {
    classes.limit_mbps.resize(8);
    classes.of_priority = {0, 1, 2, 3, 4, 5, 6, 7};
    const std::vector<std::string> words = words_of(line, ' ');
    if (words.size() == 2) classes.limit_mbps.at(std::stoul(words[0])) = std::stoi(words[1]);
  }
  return classes;
}

PortFacts read_port(const Tree& tree, const std::string& device, const std::string& number) {
  const std::string folder = kDevices + device + "/ports/" + number + "/";
  const std::string rate = tree.line(folder + "rate");
  PortFacts port;
  port.name = device + ":" + number;
  port.device = device;
  port.port = std::atoi(number.c_str());
  port.link_layer = tree.line(folder + "link_layer");
  port.state = behind_colon(tree.line(folder + "state"));
  port.physical_state = behind_colon(tree.line(folder + "phys_state"));
  port.rate_mbps = rate_mbps(rate);
  port.gids = read_gids(tree, folder);
  port.netdev = netdev_of(tree, port);
  if (!port.netdev.empty())
    port.netdev_mtu = static_cast<int>(tree.number("/sys/class/net/" + port.netdev + "/mtu"));
  port.capable_mbps = capable(tree, port, rate);
  const verbs::DeviceEntry entry = verbs::RdmaSysfs(tree.at("/sys")).device(device);
  port.pci = entry.pci_path.substr(entry.pci_path.rfind('/') + 1);
  if (entry.physical_path.empty()) port.cable = entry.guid;  // a virtual function is no half
  port.card = tree.line(kDevices + device + "/sys_image_guid");
  port.arp_ignore = arp_ignore_of(tree, port.netdev);
  port.verbs_file = verbs_file_of(tree, device);
  port.classes = classes_of(tree, port.netdev);
  port.counters = read_counters(tree, port);
  return port;
}

void find_halves(std::vector<PortFacts>& ports) {
  for (PortFacts& port : ports) {
    const auto other = std::find_if(ports.begin(), ports.end(), [&port](const PortFacts& each) {
      return each.cable == port.cable && each.cable != 0 && each.port == port.port &&
             each.pci != port.pci && !each.pci.empty() && !port.pci.empty();
    });
    if (other != ports.end()) port.other_half = other->name;
  }
}

}  // namespace

Counters read_counters(const Tree& tree, const PortFacts& port) {
  Counters counters;
  const std::string folder = kDevices + port.device + "/ports/" + std::to_string(port.port) + "/";
  for (const char* const kind : {"counters/", "hw_counters/"}) {
    for (const char* const name : kErrorCounters) {
      const std::int64_t value = tree.number(folder + kind + name);
      if (value >= 0) counters[name] = value;
    }
  }
  return counters;
}

std::vector<PortFacts> read_ports(const Tree& tree) {
  std::vector<PortFacts> ports;
  for (const std::string& device : tree.names(kDevices)) {
    // Skips iWARP devices, whose ports speak no RoCE and whose GIDs mean nothing.
    if (tree.line(kDevices + device + "/node_type").find("RNIC") != std::string::npos) continue;
    for (const std::string& number : tree.names(kDevices + device + "/ports"))
      ports.push_back(read_port(tree, device, number));
  }
  find_halves(ports);
  return ports;
}

}  // namespace mesh::doctor
