#pragma once
// Reads the plugin's own INFO lines about rails, because NCCL's interface has no field for
// addresses, GIDs and MTU. Thread: any (values).

#include <optional>
#include <string>
#include <vector>

namespace mesh::rails {

struct GidAddress {
  std::string address;  // with its prefix, "10.0.12.1/24"
  int gid_index = -1;
};

// The facts in a line such as "rail 0 mlx5_0:1: 10.0.12.1/24, RoCE v2 GID index 3, 100 Gb/s, MTU
// 4096, NUMA node 1, PCI 0000:01:00.0".
struct RailLine {
  int index = -1;
  std::string name;                   // "mlx5_0:1"
  std::vector<GidAddress> addresses;  // the preferred one first
  std::string gid_type;
  int mtu = 0;
  int numa_node = -1;
  std::string pci;  // "none" without a PCI parent
};

std::optional<RailLine> parse_rail_line(const std::string& line);
// Adds the further addresses that a line such as "rail 0 mlx5_0:1 also has fd00::1/64 (GID index
// 4)" names. Returns false if it is no such line of this rail.
bool add_other_addresses(const std::string& line, RailLine& rail);

// The plugin's other lines about ports: why some are not used, why none is usable, and which share
// a subnet.
std::vector<std::string> port_notes(const std::vector<std::string>& lines);
// Returns true if a line says that no port can be used, or that the settings leave none.
bool tell_of_no_rail(const std::vector<std::string>& lines);

}  // namespace mesh::rails
