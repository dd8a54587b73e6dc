// Draws any fabric (--any-fabric) and a job of all to all over it, with the product's own settings
// and no fault. Each property is drawn by itself, so that any of them may meet: the shape, the
// cables, the order of ports, their subnets and family, addresses that are equal on all hosts, a
// host without IPv6, a port whose firewall drops datagrams, a port that is down when the job
// begins. What joins two hosts decides whether their channels must carry.

#include "tests/sim/scenario.h"

#include <mesh/config.h>

#include <queue>

namespace mesh::sim {
namespace {

constexpr std::uint64_t kAnyFabricStream = 23;  // of Random
constexpr std::size_t kHostsMost = 6, kPortsMost = 8;
constexpr std::size_t kWireHosts = 4;  // wires on the longest way: the engine passes three hosts
constexpr std::uint32_t kQueueDepth = 64;  // queues of the usual length take long to fill
constexpr std::size_t kNoPort = SIZE_MAX;
constexpr std::uint64_t kOddOneIn = 3;  // of the seeds have each of the odd properties

enum class Shape : std::uint8_t { Line, Star, Ring, Triangle, Mesh, Switch };
enum class Subnets : std::uint8_t { OneForEachWire, OneForAll, LinkLocal };

struct End {
  std::size_t host = 0, port = 0;  // port: its index at the host
};
using Wire = std::vector<End>;  // a cable, or a switch if it has more than two ends

struct Drawn {
  Shape shape = Shape::Line;
  std::vector<std::vector<std::string>> addresses;  // by host and port
  std::vector<Wire> wires;
  std::vector<bool> ipv6;  // by host
  End firewall{.port = kNoPort}, down{.port = kNoPort};
  bool both_ends_down = false;
  std::uint64_t down_ns = 0;  // 0: for ever
};

template <typename Each>
void put_in_any_order(Random& random, std::vector<Each>& all) {
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
}

std::vector<std::size_t> numbers_in_any_order(Random& random, std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  put_in_any_order(random, numbers);
  return numbers;
}

std::size_t draw_hosts(Shape shape, Random& random) {
  constexpr std::size_t kLeast[] = {2, 3, 4, 3, 2, 2};  // by shape
  const std::size_t least = kLeast[static_cast<std::size_t>(shape)];
  return shape == Shape::Triangle ? least : random.between(least, kHostsMost);
}

// Adds a port to the host, and returns it.
End add_port(Drawn& drawn, std::size_t host) {
  drawn.addresses[host].emplace_back();
  return {.host = host, .port = drawn.addresses[host].size() - 1};
}

void add_cable(Drawn& drawn, std::size_t a, std::size_t b) {
  if (std::max(drawn.addresses[a].size(), drawn.addresses[b].size()) == kPortsMost) return;
  const End near = add_port(drawn, a);
  drawn.wires.push_back({near, add_port(drawn, b)});
}

// Draws which hosts are neighbours. Any host may stand in any place.
std::vector<std::pair<std::size_t, std::size_t>> draw_neighbours(const Drawn& drawn,
                                                                 Random& random) {
  const std::size_t hosts = drawn.addresses.size();
  const std::vector<std::size_t> place = numbers_in_any_order(random, hosts);
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = a + 1; b < hosts; ++b) {
      const bool row = b == a + 1, ends = a == 0 && b == hosts - 1;
      const bool meet = drawn.shape == Shape::Line   ? row
                        : drawn.shape == Shape::Star ? a == 0
                        : drawn.shape == Shape::Mesh ? true
                                                     : row || ends;
      if (!meet) continue;
      const bool turned = random.one_in(2);
      all.emplace_back(place[turned ? b : a], place[turned ? a : b]);
    }
  }
  put_in_any_order(random, all);
  return all;
}

void draw_cables(Drawn& drawn, Random& random) {
  const auto neighbours = draw_neighbours(drawn, random);
  for (const auto& [a, b] : neighbours) add_cable(drawn, a, b);
  const std::uint64_t most = random.one_in(4) ? kHostsMost * kPortsMost : neighbours.size();
  for (std::uint64_t more = random.below(most + 1); more != 0; --more) {
    const auto& [a, b] = neighbours[random.below(neighbours.size())];
    add_cable(drawn, a, b);
  }
}

// Draws one or two switches, and ports of each host at any of them. Some host may be at one only.
void draw_switches(Drawn& drawn, Random& random) {
  std::vector<Wire> switches(random.between(1, 2));
  const std::uint64_t most = random.one_in(4) ? kPortsMost : 2;
  for (std::size_t host = 0; host < drawn.addresses.size(); ++host) {
    for (std::uint64_t ports = random.between(1, most); ports != 0; --ports)
      switches[random.below(switches.size())].push_back(add_port(drawn, host));
  }
  std::sort(switches.begin(), switches.end(),
            [](const Wire& a, const Wire& b) { return a.size() > b.size(); });
  if (switches.back().size() < 2) {  // no switch joins a single port with anything
    Wire& first = switches.front();
    if (switches.size() == 2) first.insert(first.end(), switches[1].begin(), switches[1].end());
    switches.resize(1);
  }
  drawn.wires = std::move(switches);
}

// Gives the two ends of each cable addresses that many ports have: the n-th of a host is n for all
// hosts, as far as the ends of one cable differ.
void number_equally(const Drawn& drawn, std::vector<std::vector<std::size_t>>& numbers) {
  const auto is_free = [&](const End& end, std::size_t number) {
    const std::vector<std::size_t>& taken = numbers[end.host];
    return std::find(taken.begin(), taken.end(), number) == taken.end();
  };
  for (std::vector<std::size_t>& each : numbers) std::fill(each.begin(), each.end(), SIZE_MAX);
  for (const Wire& wire : drawn.wires) {
    std::size_t before = SIZE_MAX;
    for (const End& end : wire) {
      std::size_t number = 0;
      while (number == before || !is_free(end, number)) ++number;
      before = numbers[end.host][end.port] = number;
    }
  }
}

// Returns the number of each port's address, by host and port.
std::vector<std::vector<std::size_t>> draw_numbers(const Drawn& drawn, Random& random) {
  std::vector<std::size_t> order = numbers_in_any_order(random, kHostsMost * kPortsMost);
  std::vector<std::vector<std::size_t>> numbers;
  for (const std::vector<std::string>& ports : drawn.addresses) {
    std::vector<std::size_t>& each = numbers.emplace_back();
    for (std::size_t i = 0; i < ports.size(); ++i) {
      each.push_back(order.back());
      order.pop_back();
    }
  }
  return numbers;
}

std::string address_of(Subnets subnets, bool ipv4, std::size_t wire, std::size_t number) {
  if (subnets == Subnets::LinkLocal)
    return ipv4 ? fmt::format("169.254.7.{}/16", number) : fmt::format("fe80::{:x}/64", number);
  const std::size_t subnet = subnets == Subnets::OneForAll ? 0 : wire + 1;
  return ipv4 ? fmt::format("10.77.{}.{}/24", subnet, number)
              : fmt::format("fd77:0:0:{:x}::{:x}/64", subnet, number);
}

void draw_addresses(Drawn& drawn, Random& random) {
  auto subnets = static_cast<Subnets>(random.below(3));
  const bool ipv4 = !random.one_in(4);
  const bool equal = random.one_in(kOddOneIn) && drawn.shape != Shape::Switch;
  std::vector<std::vector<std::size_t>> numbers = draw_numbers(drawn, random);
  if (equal) {
    number_equally(drawn, numbers);
    if (subnets == Subnets::OneForEachWire) subnets = Subnets::OneForAll;
  }
  for (std::size_t wire = 0; wire < drawn.wires.size(); ++wire) {
    for (const End& end : drawn.wires[wire])
      drawn.addresses[end.host][end.port] =
          address_of(subnets, ipv4, wire, 1 + numbers[end.host][end.port]);
  }
  drawn.ipv6.assign(drawn.addresses.size(), true);
  if (ipv4 && random.one_in(kOddOneIn)) drawn.ipv6[random.below(drawn.ipv6.size())] = false;
}

End draw_port(const Drawn& drawn, Random& random) {
  const std::size_t host = random.below(drawn.addresses.size());
  return {.host = host, .port = random.below(drawn.addresses[host].size())};
}

const Wire& wire_of(const Drawn& drawn, const End& port) {
  const auto is_at = [&port](const Wire& wire) {
    return std::any_of(wire.begin(), wire.end(), [&port](const End& end) {
      return end.host == port.host && end.port == port.port;
    });
  };
  return *std::find_if(drawn.wires.begin(), drawn.wires.end(), is_at);
}

// A host keeps a port that is up: without one it may have no rail, and no engine.
void draw_down(Drawn& drawn, Random& random) {
  const End port = draw_port(drawn, random);
  const Wire& wire = wire_of(drawn, port);
  const bool both_ends = random.one_in(2) && drawn.shape != Shape::Switch;
  const std::uint64_t down_ns = random.one_in(2) ? 0 : random.between(1 * kMs, 4 * kSecond);
  const auto is_only = [&drawn](const End& end) { return drawn.addresses[end.host].size() == 1; };
  if (is_only(port) || (both_ends && std::any_of(wire.begin(), wire.end(), is_only))) return;
  drawn.down = port;
  drawn.both_ends_down = both_ends;
  drawn.down_ns = down_ns;
}

Drawn draw(Random& random) {
  Drawn drawn;
  drawn.shape = static_cast<Shape>(random.below(6));
  drawn.addresses.resize(draw_hosts(drawn.shape, random));
  drawn.shape == Shape::Switch ? draw_switches(drawn, random) : draw_cables(drawn, random);
  draw_addresses(drawn, random);
  if (random.one_in(kOddOneIn)) drawn.firewall = draw_port(drawn, random);
  if (random.one_in(kOddOneIn)) draw_down(drawn, random);
  return drawn;
}

bool is_same(const End& one, const End& other) {
  return one.host == other.host && one.port == other.port;
}

std::string text_of_port(const Drawn& drawn, const End& port) {
  return fmt::format(R"({{"name":"n{}","address":"{}"{}{}}})", port.port,
                     drawn.addresses[port.host][port.port],
                     drawn.ipv6[port.host] ? "" : R"(,"ipv6":false)",
                     is_same(port, drawn.firewall) ? R"(,"firewall":true)" : "");
}

std::string text_of_wire(const Drawn& drawn, const Wire& wire) {
  std::vector<std::string> ends;
  for (const End& end : wire) ends.push_back(fmt::format(R"("h{}/n{}")", end.host, end.port));
  return fmt::format(R"({{"{}":[{}],"delay_us":1}})",
                     drawn.shape == Shape::Switch ? "switch" : "ends", fmt::join(ends, ","));
}

std::string text_of_fault(const Drawn& drawn) {
  if (drawn.down.port == kNoPort) return "";
  return fmt::format(R"({{"kind":"port_down","host":"h{}","nic":"n{}",)", drawn.down.host,
                     drawn.down.port) +
         fmt::format(R"("both_ends":{},"duration_ns":{}}})", drawn.both_ends_down, drawn.down_ns);
}

std::string text_of(const Drawn& drawn, std::uint64_t seed, Random& random) {
  std::vector<std::string> hosts, wires;
  for (std::size_t host = 0; host < drawn.addresses.size(); ++host) {
    std::vector<std::string> ports;
    for (std::size_t port = 0; port < drawn.addresses[host].size(); ++port)
      ports.push_back(text_of_port(drawn, {.host = host, .port = port}));
    put_in_any_order(random, ports);
    hosts.push_back(fmt::format(R"({{"name":"h{}","nics":[{}]}})", host, fmt::join(ports, ",")));
  }
  for (const Wire& wire : drawn.wires) wires.push_back(text_of_wire(drawn, wire));
  return fmt::format(R"({{"name":"sim{}","hosts":[{}],"links":[{}],"faults":[{}]}})", seed,
                     fmt::join(hosts, ","), fmt::join(wires, ","), text_of_fault(drawn));
}

// Returns the number of wires on the shortest way from the host to each host.
std::vector<std::size_t> wires_to(const Drawn& drawn, std::size_t from, bool with_down) {
  std::vector<std::size_t> wires(drawn.addresses.size(), SIZE_MAX);
  wires[from] = 0;
  std::queue<std::size_t> reached;
  for (reached.push(from); !reached.empty(); reached.pop()) {
    for (const Wire& wire : drawn.wires) {
      const auto joins = [&](const End& end) { return with_down || !is_same(end, drawn.down); };
      const auto is_here = [&](const End& end) {
        return end.host == reached.front() && joins(end);
      };
      if (std::none_of(wire.begin(), wire.end(), is_here)) continue;
      for (const End& end : wire) {
        if (!joins(end) || wires[end.host] != SIZE_MAX) continue;
        wires[end.host] = wires[reached.front()] + 1;
        reached.push(end.host);
      }
    }
  }
  return wires;
}

void draw_all_to_all(Scenario& scenario, const Drawn& drawn, Random& random) {
  for (std::size_t from = 0; from < scenario.hosts.size(); ++from) {
    const std::vector<std::size_t> now = wires_to(drawn, from, false);
    const std::vector<std::size_t> later = wires_to(drawn, from, drawn.down_ns != 0);
    for (std::size_t to = 0; to < scenario.hosts.size(); ++to) {
      if (to == from) continue;
      ChannelPlan& channel = add_channel(scenario, random, from, to);
      channel.after = SIZE_MAX;
      for (Wanted& wanted : channel.receives)
        wanted.room = std::max(wanted.room, channel.sends[wanted.message].bytes);
      channel.way = now[to] <= kWireHosts     ? Way::Exists
                    : later[to] <= kWireHosts ? Way::MayCome
                                              : Way::None;
      channel.keeps = now[to] == 1;
      channel.relayed = !channel.keeps;
    }
  }
}

}  // namespace

Scenario draw_any_fabric(std::uint64_t seed, const Options& options) {
  Random random(seed, kAnyFabricStream);
  const Drawn drawn = draw(random);
  const Settings none;
  Scenario scenario;
  scenario.seed = seed;
  scenario.options = options;
  scenario.options.level = Level::None;
  scenario.rails = none.rails;
  scenario.ack_timeout = none.timeout;
  scenario.retries = none.retry_count;
  scenario.path_timeout_s = none.path_timeout_s;
  scenario.policy.late_qps = none.late_qps != 0;
  scenario.policy.rq_depth = scenario.policy.sq_depth = kQueueDepth;
  if (random.one_in(2)) scenario.communicator_id = random.next();
  scenario.fabric_text = text_of(drawn, seed, random);
  Result<soft::FabricFile> file = soft::parse(scenario.fabric_text);
  if (!file.ok()) throw std::runtime_error("the simulator's fabric does not parse");
  scenario.fabric = std::move(*file);
  scenario.hosts.resize(drawn.addresses.size());
  for (std::size_t host = 0; host < scenario.hosts.size(); ++host) {
    for (const soft::NicSpec& nic : scenario.fabric.hosts[host].nics)
      scenario.hosts[host].nics.push_back(nic.name);
    scenario.contexts.push_back({.host = host, .process = host});
    scenario.processes.push_back(host);
  }
  draw_all_to_all(scenario, drawn, random);
  return scenario;
}

}  // namespace mesh::sim
