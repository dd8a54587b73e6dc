// The processor time of a search for a route among 64 hosts, which runs under the control mutex.
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/routes.h"
#include "src/base/clock.h"
#include "tests/prelude.h"

#include <ctime>

namespace mesh::engine {
namespace {

// A torus of 4 by 4 by 4 hosts with six ports each: 2 * d leads one host on in dimension d, and
// 2 * d + 1 one host back.
constexpr std::size_t kHosts = 64, kPorts = 6, kPeer = 37;  // the peer is four cables away

std::size_t neighbour(std::size_t host, std::size_t port) {
  const std::size_t shift = port / 2 * 2, digit = host >> shift & 3;
  const std::size_t next = (digit + (port % 2 == 0 ? 1 : 3)) & 3;
  return (host & ~(std::size_t{3} << shift)) | next << shift;
}

Id128 ticket(std::size_t host) { return {static_cast<std::uint8_t>(1 + host), 7}; }

// An address 10.0.HOST.PORT/16 on each port, or one in the subnet of the port's cable.
WireRail rail(std::size_t host, std::size_t port, bool one_subnet) {
  const std::size_t other = neighbour(host, port);
  const bool first = port % 2 == 0;
  const std::size_t cable = (first ? host : other) * 3 + port / 2;
  const std::array<std::size_t, 2> last =
      one_subnet ? std::array{host, port + 1} : std::array{cable, std::size_t{first ? 1u : 2u}};
  WireRail rail;
  rail.addresses = {
      {.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, static_cast<std::uint8_t>(last[0]),
               static_cast<std::uint8_t>(last[1])},
       .prefix_len = static_cast<std::uint8_t>(one_subnet ? 16 : 24)}};
  rail.speed_mbps = 100'000;
  rail.identity = static_cast<std::uint32_t>(port);
  return rail;
}

class Torus {
 public:
  explicit Torus(bool one_subnet) {
    for (std::size_t at = 0; at < kHosts; ++at) {
      WireHost host;
      host.ticket = ticket(at);
      host.name = fmt::format("h{}", at);
      host.host_id = 1 + at;
      for (std::size_t port = 0; port < kPorts; ++port)
        host.rails.push_back(rail(at, port, one_subnet));
      if (at == 0) own_ = host.rails;
      if (at == kPeer) peer_ = host.rails;
      if (at != 0 && at != kPeer) hosts_.push_back(host);
      for (std::size_t port = 0; port < kPorts && one_subnet; ++port) note(at, port);
    }
  }

  // Returns the least processor time of some searches; each finds a route over three hosts.
  std::uint64_t search_ns() const {
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 7; ++i) {
      const std::uint64_t begin = thread_cpu_ns();
      const auto route = find_route({.own = own_,
                                     .peer = peer_,
                                     .own_id = 1,
                                     .peer_id = 1 + kPeer,
                                     .hosts = hosts_,
                                     .cables = &cables_,
                                     .unproven = Unproven::LeftOut});
      least = std::min(least, thread_cpu_ns() - begin);
      EXPECT_TRUE(route && route->hops.size() == 3);
    }
    return least;
  }

 private:
  static std::uint64_t thread_cpu_ns() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * kNsPerSecond +
           static_cast<std::uint64_t>(used.tv_nsec);
  }
  // Host `at` has asked all ports of the host at the other end of its cable.
  void note(std::size_t at, std::size_t port) {
    const std::size_t far_port = port ^ 1;
    topo::CableProof proof{.asked = {}, .met = {{port, far_port}}};
    for (std::size_t i = 0; i < kPorts * kPorts; ++i)
      proof.asked.push_back({i / kPorts, i % kPorts});
    cables_.note(ticket(at), ticket(neighbour(at, port)), told_cables(proof));
  }

  std::vector<WireRail> own_, peer_;
  std::vector<WireHost> hosts_;
  KnownCables cables_{ticket(0), ticket(kPeer)};
};

// In one subnet addresses leave all 36 pairs of two hosts' ports in doubt. A search that looked at
// each of them took eleven times as long as one with a subnet for each cable, up to 127 ms.
TEST(RoutesCost, ProvenCablesInOneSubnetCostNoMoreThanSubnetsOfTheirOwn) {
  const std::uint64_t own_subnets = Torus(false).search_ns(), one_subnet = Torus(true).search_ns();
  fmt::print("a search among {} hosts: {:.1f} ms with own subnets, {:.1f} ms in one subnet\n",
             kHosts, static_cast<double>(own_subnets) / 1e6, static_cast<double>(one_subnet) / 1e6);
  EXPECT_LE(one_subnet, 2 * own_subnets);
}

}  // namespace
}  // namespace mesh::engine
