// Findings about what the kernels do with the packets of the cables: answers for addresses, limits
// of traffic classes, and the way over a host that routes.
#include "perf/mesh_doctor/checks.h"

#include "src/base/socket.h"
#include "src/topo/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

namespace mesh::doctor {
namespace {

// Reads an address with its prefix, "10.0.12.1/24".
std::optional<topo::SubnetMember> member_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = SocketAddress::from_text(text.substr(0, slash));
  if (slash == std::string::npos || !address.ok()) return std::nullopt;
  return topo::SubnetMember{*address, std::atoi(text.c_str() + slash + 1)};
}

const PortFacts* port_of(const HostFacts& facts, const RailFacts& rail) {
  const auto port = std::find_if(facts.ports.begin(), facts.ports.end(),
                                 [&rail](const PortFacts& each) { return each.name == rail.name; });
  return port == facts.ports.end() ? nullptr : &*port;
}

struct Shared {
  std::string ports;
  std::string netdev;    // of the first port
  bool several = false;  // interfaces
  bool answers = false;  // one of them answers for the addresses of the others
};

// Returns the IPv4 subnets of the rails. IPv6 has no such answers.
std::map<std::string, Shared> subnets_of(const HostFacts& facts) {
  std::map<std::string, Shared> subnets;
  for (const RailFacts& rail : facts.rails) {
    const PortFacts* const port = port_of(facts, rail);
    if (port == nullptr || rail.addresses.empty()) continue;
    const auto member = member_of(rail.addresses.front().text);
    if (!member || member->address.family != AF_INET) continue;
    Shared& subnet = subnets[topo::subnet_text(*member)];
    if (subnet.netdev.empty()) subnet.netdev = port->netdev;
    subnet.several |= subnet.netdev != port->netdev;
    subnet.answers |= port->arp_ignore == 0;
    subnet.ports += fmt::format("{}{} ({})", subnet.ports.empty() ? "" : ", ", rail.name,
                                rail.addresses.front().text);
  }
  return subnets;
}

void check_subnets(const HostFacts& facts, Findings& found) {
  for (const auto& [subnet, shared] : subnets_of(facts)) {
    if (!shared.several || !shared.answers) continue;
    add_finding(
        found, "same-subnet", facts.host,
        {.about = subnet,
         .evidence = fmt::format(
             "These ports are in one subnet: {}. The kernel answers ARP for the address of one "
             "over another (arp_ignore is 0), so a peer may send to the wrong port.",
             shared.ports),
         .remedy =
             "Give each cable a subnet of its own, or run sysctl -w net.ipv4.conf.all.arp_ignore=1 "
             "net.ipv4.conf.all.arp_announce=2 on every host."});
  }
}

int number_of(const HostFacts& facts, const char* name) {
  const SettingFacts* const set = setting(facts, name);
  return set == nullptr ? 0 : std::atoi(set->value.c_str());
}

// The six upper bits of the traffic class are the DSCP.
void check_class(const HostFacts& facts, const PortFacts& port, Findings& found) {
  const TrafficClasses& classes = port.classes;
  const int traffic_class = std::max(number_of(facts, "NCCL_IB_TC"), 0);
  int priority = std::max(number_of(facts, "NCCL_IB_SL"), 0);
  if (!classes.priority_of_dscp.empty()) {
    const auto of_dscp = classes.priority_of_dscp.find(traffic_class >> 2);
    priority = of_dscp == classes.priority_of_dscp.end() ? 0 : of_dscp->second;
  }
  if (static_cast<std::size_t>(priority) >= classes.of_priority.size()) return;
  const int own = classes.of_priority[static_cast<std::size_t>(priority)];
  if (own < 0 || static_cast<std::size_t>(own) >= classes.limit_mbps.size()) return;
  const int limit_mbps = classes.limit_mbps[static_cast<std::size_t>(own)];
  if (limit_mbps <= 0 || port.rate_mbps < 0 || limit_mbps >= port.rate_mbps) return;
  add_finding(
      found, "traffic-class-slow", facts.host,
      {.about = port.name,
       .evidence =
           fmt::format("Packets of a job (NCCL_IB_TC {}, NCCL_IB_SL {}) have priority {} and "
                       "traffic class {}, which this port limits to {:g} of its {:g} Gb/s.",
                       traffic_class, number_of(facts, "NCCL_IB_SL"), priority, own,
                       limit_mbps / 1000.0, port.rate_mbps / 1000.0),
       .remedy = fmt::format("Take the limit away (dcb maxrate show dev {0}, or mlnx_qos -i {0}), "
                             "or choose another class with NCCL_IB_TC on every host.",
                             port.netdev)});
}

// ---- Between hosts.

// Returns the first address of "HOST/PORT"; nothing if no host has it.
std::optional<topo::SubnetMember> address_of(const std::vector<HostFacts>& hosts,
                                             const std::string& end) {
  for (const HostFacts& host : hosts) {
    if (!end.starts_with(host.host + "/")) continue;
    const RailFacts* const rail = rail_of(host, end.substr(host.host.size() + 1));
    if (rail != nullptr && !rail->addresses.empty()) return member_of(rail->addresses.front().text);
  }
  return std::nullopt;
}

bool is_in(const topo::SubnetMember& end, const HostFacts& host) {
  return std::any_of(host.rails.begin(), host.rails.end(), [&end](const RailFacts& rail) {
    return std::any_of(rail.addresses.begin(), rail.addresses.end(), [&end](const Address& each) {
      const auto member = member_of(each.text);
      return member && topo::same_subnet(*member, end);
    });
  });
}

// Returns the finding that explains why no message passes between two ports of different subnets:
// a host in both does not forward packets.
std::optional<Finding> forwarding(const Finding& silent, const std::vector<HostFacts>& hosts) {
  const std::size_t middle = silent.about.find(" -- ");
  if (silent.name != "silent-cable" || middle == std::string::npos) return std::nullopt;
  const auto a = address_of(hosts, silent.about.substr(0, middle));
  const auto b = address_of(hosts, silent.about.substr(middle + 4));
  if (!a || !b || topo::same_subnet(*a, *b)) return std::nullopt;
  for (const HostFacts& host : hosts) {
    const bool drops = host.machine.forward_policy == "drop";
    const bool routes = host.machine.ip_forward != 0;
    if (!is_in(*a, host) || !is_in(*b, host) || (routes && !drops)) continue;
    return finding(
        "forward-drop", host.host,
        {.about = silent.about,
         .evidence = fmt::format("These ports are in different subnets, which meet at this host, "
                                 "and it forwards no packets: {}. No message passes.",
                                 routes ? "a FORWARD chain of its firewall has the policy drop, as "
                                          "container engines set it"
                                        : "net.ipv4.ip_forward is 0"),
         .remedy = routes ? "Accept the cables' packets there: iptables -I FORWARD -p udp --dport "
                            "4791 -j ACCEPT (or the same in nft), and keep the rule over reboots. "
                            "Without routes the plugin relays messages over that host by itself."
                          : "Run sysctl -w net.ipv4.ip_forward=1 there, or remove the routes: the "
                            "plugin then relays messages over that host by itself."});
  }
  return std::nullopt;
}

}  // namespace

void check_network(const HostFacts& facts, Findings& found) {
  check_subnets(facts, found);
  for (const PortFacts& port : facts.ports) {
    if (rail_of(facts, port.name) != nullptr) check_class(facts, port, found);
  }
}

Findings explain_silence(Findings between, const std::vector<HostFacts>& hosts) {
  for (Finding& each : between) {
    if (auto cause = forwarding(each, hosts)) each = std::move(*cause);
  }
  return between;
}

}  // namespace mesh::doctor
