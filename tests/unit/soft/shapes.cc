#include "tests/unit/soft/shapes.h"

#include <fmt/ranges.h>

namespace mesh::testkit {
namespace {
using Pair = std::pair<int, int>;

// Returns each pair of neighbours once, also where two hosts are neighbours on both sides.
std::vector<Pair> neighbours(const Shape& shape) {
  const int columns = shape.columns == 0 ? shape.hosts : shape.columns;
  const int rows = shape.hosts / columns;
  std::set<Pair> pairs;
  const auto add = [&pairs](int a, int b) {
    if (a != b) pairs.emplace(std::min(a, b), std::max(a, b));
  };
  for (int host = 0; host < shape.hosts; ++host) {
    const int row = host / columns, column = host % columns;
    add(host, row * columns + (column + 1) % columns);
    add(host, (row + 1) % rows * columns + column);
  }
  return {pairs.begin(), pairs.end()};
}

std::string host_name(int host) { return std::string(1, static_cast<char>('a' + host)); }

std::string more_fields(const Shape& shape, int host) {
  std::string firewall = shape.firewall ? R"(,"firewall":true)" : "";
  if (shape.guids == Guids::Distinct) return firewall;
  return firewall +
         fmt::format(R"(,"guid":"{:x}")", shape.guids == Guids::Zero ? 0 : 0xabc000 + host);
}

// Returns the address of an end, 1 or 2, of a cable.
std::string address_of(const Shape& shape, int cable, int end) {
  if (shape.subnets == Subnets::OneForEachCable)
    return fmt::format("10.{}.{}.{}/24", cable / 250, cable % 250, end);
  return fmt::format("{}.{}.{}/16", shape.subnets == Subnets::OneForAll ? "10.77" : "169.254",
                     1 + cable / 100, 2 * (cable % 100) + end);
}
}  // namespace

std::string fabric_of(const Shape& shape) {
  std::vector<std::vector<std::string>> nics(static_cast<std::size_t>(shape.hosts));
  std::vector<std::string> links;
  int subnet = 0;
  const auto add_nic = [&](int host, int end) {
    auto& of_host = nics[static_cast<std::size_t>(host)];
    const std::string name = fmt::format("n{}", of_host.size());
    of_host.push_back(fmt::format(R"({{"name":"{}","address":"{}"{}}})", name,
                                  address_of(shape, subnet, end), more_fields(shape, host)));
    return host_name(host) + "/" + name;
  };
  for (const auto& [near, far] : neighbours(shape)) {
    for (int cable = 0; cable < shape.cables; ++cable, ++subnet) {
      const std::string one = add_nic(near, 1), other = add_nic(far, 2);
      links.push_back(fmt::format(R"({{"ends":["{}","{}"]}})", one, other));
    }
  }
  std::mt19937_64 random(shape.seed);
  std::vector<std::string> hosts;
  for (int host = 0; host < shape.hosts; ++host) {
    auto& of_host = nics[static_cast<std::size_t>(host)];
    for (std::size_t i = of_host.size(); shape.seed != 0 && i > 1; --i)
      std::swap(of_host[i - 1], of_host[random() % i]);
    hosts.push_back(
        fmt::format(R"({{"name":"{}","nics":[{}]}})", host_name(host), fmt::join(of_host, ",")));
  }
  return fmt::format(R"({{"name":"shape","hosts":[{}],"links":[{}]}})", fmt::join(hosts, ","),
                     fmt::join(links, ","));
}

std::string text_of(const Shape& shape) {
  const std::string cabling =
      shape.columns == 0
          ? fmt::format("ring of {}", shape.hosts)
          : fmt::format("torus of {}x{}", shape.hosts / shape.columns, shape.columns);
  return fmt::format("{}, {} cables, seed {}, guids {}, subnets {}", cabling, shape.cables,
                     shape.seed, static_cast<int>(shape.guids), static_cast<int>(shape.subnets));
}

}  // namespace mesh::testkit
