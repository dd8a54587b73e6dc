#include "perf/mesh_rails/rail_lines.h"

#include <regex>

namespace mesh::rails {
namespace {

const std::regex& rail_pattern() {
  static const std::regex pattern(
      R"(rail (\d{1,4}) (\S+): (\S+), (.+) GID index (\d{1,4}), \d+ Gb/s, MTU (\d{1,6}), NUMA node (-?\d{1,6}), PCI ([^, ]+)(, also .+)?)");
  return pattern;
}

void add_others(const std::string& text, std::vector<GidAddress>& addresses) {
  static const std::regex pattern(R"(([^ ,]+) \(GID index (\d{1,4})\))");
  for (std::sregex_iterator each(text.begin(), text.end(), pattern), end; each != end; ++each)
    addresses.push_back({(*each)[1], std::stoi((*each)[2])});
}

}  // namespace

std::optional<RailLine> parse_rail_line(const std::string& line) {
  std::smatch part;
  if (!std::regex_match(line, part, rail_pattern())) return std::nullopt;
  RailLine rail;
  rail.index = std::stoi(part[1]);
  rail.name = part[2];
  rail.addresses.push_back({part[3], std::stoi(part[5])});
  rail.gid_type = part[4];
  rail.mtu = std::stoi(part[6]);
  rail.numa_node = std::stoi(part[7]);
  rail.pci = part[8];
  if (part[9].matched) add_others(part[9], rail.addresses);
  return rail;
}

std::vector<std::string> port_notes(const std::vector<std::string>& lines) {
  std::vector<std::string> notes;
  for (const std::string& line : lines) {
    if (line.starts_with("ports not used: ") || line.starts_with("no usable rail on ") || line.starts_with("rails "))
      notes.push_back(line);
  }
  return notes;
}

}  // namespace mesh::rails
