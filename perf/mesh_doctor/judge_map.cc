// Findings that the map alone proves.
#include "perf/mesh_doctor/measured.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::doctor {
namespace {

std::string names_of(const Cabling& cabling, const std::vector<End>& ends) {
  std::string text;
  for (const End& end : ends) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", cabling.text(end),
                        cabling.rail(end).up == 0 ? " (down)" : "");
  }
  return text;
}

void look_at_halves(const Cabling& cabling, const Cable& cable, std::vector<Finding>& findings) {
  const Half& first = cable.halves.front();
  const std::vector<End> at_a = cabling.ports_of(first.a), at_b = cabling.ports_of(first.b);
  const auto down = std::count_if(cable.halves.begin(), cable.halves.end(),
                                  [](const Half& half) { return !half.up; });
  const std::size_t most = std::max(at_a.size(), at_b.size());
  const bool whole = at_a.size() == at_b.size() && down == 0;
  if (whole || most < 2) return;
  findings.push_back(
      finding("half-missing", cabling.hosts_of(cable),
              {cabling.text(cable),
               fmt::format("One end shows the cable as {}, the other as {}.",
                           names_of(cabling, at_a), names_of(cabling, at_b)),
               "Bring the missing half up and give it an address: the cable reaches its rate only "
               "over both PCIe halves of its port. mesh_rails tells why a port is no rail."}));
}

void look_at_ports(const Cabling& cabling, const Cable& cable, std::vector<Finding>& findings) {
  for (const Half& half : cable.halves) {
    if (!half.up && cable.halves.size() == 1 && cabling.ports_of(half.a).size() == 1) {
      findings.push_back(
          finding("cable-down", cabling.hosts_of(cable),
                  {cabling.text(half),
                   fmt::format("Port {} is down.",
                               cabling.text(cabling.rail(half.a).up == 0 ? half.a : half.b)),
                   "Plug the cable in at both ends, and check the kernel's log of both hosts."}));
    }
    const std::uint32_t a = mtu_bytes(cabling.rail(half.a).mtu),
                        b = mtu_bytes(cabling.rail(half.b).mtu);
    if (a == b || !half.up) continue;
    findings.push_back(finding(
        "mtu-differs", cabling.hosts_of(cable),
        {cabling.text(half),
         fmt::format(
             "Packets carry {} bytes at {} and {} bytes at {}; both ends use the smaller size.", a,
             cabling.text(half.a), b, cabling.text(half.b)),
         "Give both interfaces one MTU: 9000, or at least 4200, for packets of 4096 bytes."}));
  }
}

}  // namespace

std::vector<Finding> look_at_map(const Cabling& cabling) {
  std::vector<Finding> findings;
  for (const Cable& cable : cabling.cables) {
    look_at_halves(cabling, cable, findings);
    look_at_ports(cabling, cable, findings);
  }
  return findings;
}

std::vector<Finding> lone_rails(const Cabling& cabling) {
  std::vector<Finding> findings;
  // If a host has no rail at all, that is the finding, and what would meet it is not known.
  const auto bare = [](const HostRails& host) { return host.rails.empty(); };
  if (std::any_of(cabling.hosts.begin(), cabling.hosts.end(), bare)) return findings;
  for (std::size_t host = 0; host < cabling.hosts.size(); ++host) {
    for (std::size_t rail = 0; rail < cabling.hosts[host].rails.size(); ++rail) {
      const End end{host, rail};
      const std::vector<End> ports = cabling.ports_of(end);
      const auto meets = [&](const End& port) { return !cabling.met_by(port).empty(); };
      if (cabling.hosts.size() < 2 || cabling.rail(end).up == 0 ||
          std::any_of(ports.begin(), ports.end(), meets))
        continue;
      findings.push_back(
          finding("lone-rail", cabling.hosts[host].host,
                  {cabling.text(end),
                   fmt::format("The rail's address is {}, and no rail of another host is in that "
                               "subnet or has a route to it.",
                               address_of(cabling.rail(end))),
                   "Give both ends of the cable addresses in one subnet with one prefix length. If "
                   "the other end is at a host that takes no part, start mesh_doctor there too. "
                   "Exclude a port that is not for NCCL by NCCL_IB_HCA."}));
    }
  }
  return findings;
}

}  // namespace mesh::doctor
