// Findings that the map alone proves.
#include "engine/link/misfit_lines.h"
#include "perf/mesh_doctor/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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
  add_finding(findings, "half-missing", cabling.hosts_of(cable),
              {cabling.text(cable),
               fmt::format("One end shows the cable as {}, the other as {}.",
                           names_of(cabling, at_a), names_of(cabling, at_b)),
               "Bring the missing half up and give it an address: the cable reaches its rate only "
               "over both PCIe halves of its port. mesh_rails tells why a port is no rail."});
}

void look_at_ports(const Cabling& cabling, const Cable& cable, std::vector<Finding>& findings) {
  for (const Half& half : cable.halves) {
    if (!half.up && cable.halves.size() == 1 && cabling.ports_of(half.a).size() == 1) {
      add_finding(findings, "cable-down", cabling.hosts_of(cable),
                  {cabling.text(half),
                   fmt::format("Port {} is down.",
                               cabling.text(cabling.rail(half.a).up == 0 ? half.a : half.b)),
                   "Plug the cable in at both ends, and check the kernel's log of both hosts."});
    }
    const std::uint32_t a = mtu_bytes(cabling.rail(half.a).mtu),
                        b = mtu_bytes(cabling.rail(half.b).mtu);
    if (a == b || !half.up) continue;
    add_finding(
        findings, "mtu-differs", cabling.hosts_of(cable),
        {cabling.text(half),
         fmt::format(
             "Packets carry {} bytes at {} and {} bytes at {}; both ends use the smaller size.", a,
             cabling.text(half.a), b, cabling.text(half.b)),
         "Give both interfaces one MTU: 9000, or at least 4200, for packets of 4096 bytes."});
  }
}

// Two rails that meet nothing and would meet each other, if the ends fitted.
struct Unfit {
  End a, b;
  engine::MisfitLine why;
};

std::vector<Unfit> unfit_ends(const Cabling& cabling) {
  std::vector<Unfit> found;
  for (std::size_t i = 0; i < cabling.hosts.size(); ++i) {
    for (std::size_t j = i + 1; j < cabling.hosts.size(); ++j) {
      const HostRails &one = cabling.hosts[i], &other = cabling.hosts[j];
      engine::PathChoice choice;
      for (const Cable& cable : cabling.cables) {
        for (const Half& half : cable.halves) {
          if (half.a.host != i || half.b.host != j) continue;
          engine::WirePath& path = choice.meet.emplace_back();
          path.connector_rail = static_cast<std::uint8_t>(half.a.rail);
          path.acceptor_rail = static_cast<std::uint8_t>(half.b.rail);
        }
      }
      for (const engine::MisfitLine& line : engine::misfit_lines(
               hello_of(one), {other.rails, other.site, 0, other.host_id}, choice, other.host)) {
        const End a{i, line.theirs}, b{j, line.ours};
        if (cabling.met_by(a).empty() && cabling.met_by(b).empty()) found.push_back({a, b, line});
      }
    }
  }
  return found;
}

}  // namespace

std::vector<Finding> look_at_map(const Cabling& cabling) {
  std::vector<Finding> findings;
  for (const Cable& cable : cabling.cables) {
    look_at_halves(cabling, cable, findings);
    look_at_ports(cabling, cable, findings);
  }
  for (const Unfit& each : unfit_ends(cabling)) {
    std::string remedy = each.why.remedy + ".";
    remedy.front() = static_cast<char>(std::toupper(remedy.front()));
    add_finding(findings, "ends-do-not-fit",
                cabling.hosts[each.a.host].host + " and " + cabling.hosts[each.b.host].host,
                {cabling.text(each.a) + " -- " + cabling.text(each.b), "The " + each.why.what + ".",
                 remedy});
  }
  return findings;
}

std::vector<Finding> lone_rails(const Cabling& cabling) {
  std::vector<Finding> findings;
  // If a host has no rail at all, that is the finding, and what would meet it is not known.
  const auto bare = [](const HostRails& host) { return host.rails.empty(); };
  if (std::any_of(cabling.hosts.begin(), cabling.hosts.end(), bare)) return findings;
  const std::vector<Unfit> unfit = unfit_ends(cabling);
  for (std::size_t host = 0; host < cabling.hosts.size(); ++host) {
    for (std::size_t rail = 0; rail < cabling.hosts[host].rails.size(); ++rail) {
      const End end{host, rail};
      if (std::any_of(unfit.begin(), unfit.end(),
                      [&end](const Unfit& each) { return each.a == end || each.b == end; }))
        continue;
      const std::vector<End> ports = cabling.ports_of(end);
      const auto meets = [&](const End& port) { return !cabling.met_by(port).empty(); };
      if (cabling.hosts.size() < 2 || cabling.rail(end).up == 0 ||
          std::any_of(ports.begin(), ports.end(), meets))
        continue;
      add_finding(findings, "lone-rail", cabling.hosts[host].host,
                  {cabling.text(end),
                   fmt::format("The rail's address is {}, and no rail of another host is in that "
                               "subnet or has a route to it.",
                               address_of(cabling.rail(end))),
                   "Give both ends of the cable addresses in one subnet with one prefix length. If "
                   "the other end is at a host that takes no part, start mesh_doctor there too. "
                   "Exclude a port that is not for NCCL by NCCL_IB_HCA."});
    }
  }
  return findings;
}

}  // namespace mesh::doctor
