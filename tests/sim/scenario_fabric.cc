// Hosts and what joins them, written as the fabric file that a user would write.

#include "tests/sim/scenario.h"

#include <fmt/ranges.h>

namespace mesh::sim {
namespace {

constexpr std::size_t kCableHostsMax = 6;    // each is cabled to every other one
constexpr std::uint64_t kUntidyStream = 10;  // of Random
constexpr std::uint64_t kTwo = 2;            // cables, or networks

std::string host_name(std::size_t host) { return fmt::format("h{}", host); }

struct Text {
  std::vector<std::vector<std::string>> nics;  // by host
  std::string links;
};

struct Speed {
  std::uint64_t gbps = 0, delay_ns = 0;
};

Speed draw_speed(Random& random) {
  constexpr std::uint64_t kGbps[] = {0, 0, 10, 25, 100};
  return {.gbps = kGbps[random.below(std::size(kGbps))], .delay_ns = random.between(1, 5) * 500};
}

// Draws a speed so low that posted work requests stay in flight for a while.
Speed draw_low_speed(Random& random) {
  return {.gbps = random.between(1, 4), .delay_ns = random.between(1, 10) * 500};
}

std::string describe(const Speed& speed) {
  const std::string delay =
      fmt::format(R"(,"delay_us":{})", static_cast<double>(speed.delay_ns) / 1000);
  return speed.gbps == 0 ? delay : fmt::format(R"(,"gbps":{}{})", speed.gbps, delay);
}

std::string add_nic(Scenario& scenario, Text& text, std::size_t host, const std::string& fields) {
  std::vector<std::string>& names = scenario.hosts[host].nics;
  names.push_back(fmt::format("n{}", names.size()));
  text.nics[host].push_back(fmt::format(R"({{"name":"{}",{}}})", names.back(), fields));
  return host_name(host) + "/" + names.back();
}

void put_in_any_order(Random& random, std::vector<std::string>& nics) {
  for (std::size_t i = nics.size(); i > 1; --i) std::swap(nics[i - 1], nics[random.below(i)]);
}

// Puts the ports of each host in any order. In some seeds all ports of a host have one GUID, in
// others none has any, as in virtual machines. The rest of the seed stays as it is.
void make_untidy(const Scenario& scenario, Text& text) {
  Random random(scenario.seed, kUntidyStream);
  const std::uint64_t guids = random.below(3);
  for (std::size_t host = 0; host < text.nics.size(); ++host) {
    std::vector<std::string>& nics = text.nics[host];
    put_in_any_order(random, nics);
    if (guids == 0) continue;
    for (std::string& nic : nics) {
      nic.pop_back();
      nic += fmt::format(R"(,"guid":"{:x}"}})", guids == 1 ? 0 : 0xab00 + host);
    }
  }
}

std::string add_cable_end(Scenario& scenario, Text& text, std::size_t host,
                          const std::string& address) {
  return add_nic(scenario, text, host, fmt::format(R"("address":"{}")", address));
}

// Returns the address of an end of the n-th cable (from 1). The subnet is the cable's own, or one
// of all cables, which in some seeds is that of link-local addresses.
std::string address_of(const Scenario& scenario, std::size_t cable, int end) {
  if (!scenario.options.shared) return fmt::format("10.{}.{}.{}/24", cable / 250, cable % 250, end);
  return fmt::format("{}.{}.{}/16", scenario.seed % 2 == 0 ? "10.77" : "169.254", 1 + cable / 100,
                     2 * (cable % 100) + static_cast<std::size_t>(end));
}

void cable(Scenario& scenario, Random& random, Text& text) {
  std::size_t subnet = 0;
  const std::uint64_t cables_max = random.one_in(3) ? 3 : random.between(1, 2);
  for (std::size_t a = 0; a < scenario.hosts.size(); ++a) {
    for (std::size_t b = a + 1; b < scenario.hosts.size(); ++b) {
      if (!scenario.cabled(a, b)) continue;
      std::uint64_t cables = scenario.hard ? kHardCables : random.between(1, cables_max);
      if (wants_doubles(scenario.seed, scenario.options)) cables = std::max(cables, kTwo);
      for (std::uint64_t i = 0;
           i < cables && scenario.hosts[a].nics.size() < 15 && scenario.hosts[b].nics.size() < 15;
           ++i) {
        ++subnet;
        const std::string left = add_cable_end(scenario, text, a, address_of(scenario, subnet, 1));
        const std::string right = add_cable_end(scenario, text, b, address_of(scenario, subnet, 2));
        text.links +=
            fmt::format(R"({}{{"ends":["{}","{}"]{}}})", text.links.empty() ? "" : ",", left, right,
                        describe(scenario.hard ? draw_low_speed(random) : draw_speed(random)));
      }
    }
  }
}

// A network that joins all hosts. Its kind follows from the seed alone, so that all else that a
// seed draws stays as it was.
struct Network {
  bool routed = false;      // each host is a subnet of its own, behind a router
  bool infiniband = false;  // else Ethernet

  explicit Network(std::uint64_t seed)
      : routed(seed % 4 == 3), infiniband(seed % 8 == 6 || seed % 8 == 7) {}

  std::string fields(std::uint64_t plane, std::size_t host) const {
    if (infiniband)
      return fmt::format(R"("layer":"infiniband","address":"fec0:0:{}:{}::{:x}/64")",
                         routed ? host + 1 : 0, plane + 1, host + 1);
    if (routed)
      return fmt::format(R"("address":"10.{}.{}.{}/31")", 200 + plane, host / 128,
                         2 * (host % 128));
    return fmt::format(R"("address":"10.200.{}.{}/24")", plane, host + 1);
  }
};

void join_all(Scenario& scenario, Random& random, Text& text) {
  const std::uint64_t drawn = random.one_in(2) ? 1 : 2;
  const std::uint64_t planes = wants_doubles(scenario.seed, scenario.options) ? kTwo : drawn;
  const Network network(scenario.seed);
  for (std::uint64_t plane = 0; plane < planes; ++plane) {
    const std::string speed = describe(draw_speed(random));
    std::string ends, links;
    for (std::size_t host = 0; host < scenario.hosts.size(); ++host) {
      const std::string end = add_nic(scenario, text, host, network.fields(plane, host));
      ends += fmt::format(R"({}"{}")", ends.empty() ? "" : ",", end);
      links += fmt::format(R"({}{{"ends":["{}","r{}"]{}}})", links.empty() ? "" : ",", end, plane,
                           speed);
    }
    if (!network.routed) links = fmt::format(R"({{"switch":[{}]{}}})", ends, speed);
    text.links += (text.links.empty() ? "" : ",") + links;
  }
}

// One host of every third seed has no IPv6. It hears no group, so that nobody asks it for a way.
void take_ipv6(const Scenario& scenario, Text& text) {
  if (scenario.seed % 3 != 1 || scenario.options.strange) return;
  for (std::string& nic : text.nics[scenario.seed / 3 % text.nics.size()]) {
    if (nic.find(R"("layer")") == std::string::npos) nic.insert(1, R"("ipv6":false,)");
  }
}

}  // namespace

void draw_fabric(Scenario& scenario, Random& random) {
  Text text;
  text.nics.resize(scenario.hosts.size());
  const bool all = scenario.cabling == Cabling::All;
  const bool switched = (all && scenario.hosts.size() > kCableHostsMax) ||
                        (!scenario.hard && all && random.one_in(3) && !scenario.options.shared);
  switched ? join_all(scenario, random, text) : cable(scenario, random, text);
  if (scenario.options.shapes) make_untidy(scenario, text);
  if (scenario.options.shared) {
    Random order(scenario.seed, kUntidyStream);
    for (std::vector<std::string>& nics : text.nics) put_in_any_order(order, nics);
    take_ipv6(scenario, text);
  }
  std::string hosts;
  for (std::size_t host = 0; host < scenario.hosts.size(); ++host) {
    hosts += fmt::format(R"({}{{"name":"{}","nics":[{}]}})", host == 0 ? "" : ",", host_name(host),
                         fmt::join(text.nics[host], ","));
  }
  Result<soft::FabricFile> file = soft::parse(
      fmt::format(R"({{"name":"sim{}","hosts":[{}],"routers":["r0","r1"],"links":[{}]}})",
                  scenario.seed, hosts, text.links));
  if (!file.ok()) throw std::runtime_error("the simulator's fabric does not parse");
  scenario.fabric = std::move(*file);
}

}  // namespace mesh::sim
