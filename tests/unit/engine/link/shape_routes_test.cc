// Rings and tori with ports in many orders: neighbours meet over each of their cables and nothing
// else, and others over as few hosts as the cabling allows, each step over a cable. Each cable has
// a subnet, or all are in one. With two ports at each host these are all orders; with more, all of
// two neighbours, and drawn ones.
#include "engine/control/relay_frames.h"
#include "engine/link/path_choice.h"
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/routes.h"
#include "src/soft/fabric_file.h"
#include "tests/unit/soft/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <queue>
#include <string>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::Shape, testkit::Subnets;

#if defined(MESH_SANITIZE_ADDRESS) || defined(MESH_SANITIZE_THREAD)
constexpr std::size_t kOneOrderIn = 13;
#else
constexpr std::size_t kOneOrderIn = 1;
#endif

Id128 ticket_of(std::size_t host) { return {static_cast<std::uint8_t>(1 + host)}; }

class ShapeRoutes : public testing::Test {
 protected:
  void cable(const Shape& shape) {
    fabric_ = soft::parse(testkit::fabric_of(shape)).value();
    hosts_.clear();
    for (std::size_t host = 0; host < fabric_.hosts.size(); ++host) {
      WireHost& each = hosts_.emplace_back();
      each.ticket = ticket_of(host);
      each.name = fabric_.hosts[host].name;
      for (const soft::NicSpec& nic : fabric_.hosts[host].nics) {
        WireRail& rail = each.rails.emplace_back();
        WireAddress& its = rail.addresses.emplace_back();
        std::memcpy(its.gid.data(), nic.gid.raw, its.gid.size());
        its.prefix_len = static_cast<std::uint8_t>(nic.prefix_len);
        rail.mtu = 5;
      }
    }
    tell_cables(shape.subnets);
  }
  std::vector<topo::WirePair> cables_between(std::size_t a, std::size_t b) const {
    std::vector<topo::WirePair> pairs;
    for (const soft::LinkSpec& link : fabric_.links) {
      for (const bool turned : {false, true}) {
        const soft::NicRef& from = link.ends[turned ? 1 : 0];
        const soft::NicRef& to = link.ends[turned ? 0 : 1];
        if (from.host == static_cast<int>(a) && to.host == static_cast<int>(b))
          pairs.push_back({static_cast<std::size_t>(from.nic), static_cast<std::size_t>(to.nic)});
      }
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }
  // Returns what datagrams between all ports of two hosts would tell.
  topo::CableProof proof_of(std::size_t a, std::size_t b) const {
    topo::CableProof proof{.asked = {}, .met = cables_between(a, b)};
    for (std::size_t one = 0; one < hosts_[a].rails.size(); ++one)
      for (std::size_t other = 0; other < hosts_[b].rails.size(); ++other)
        proof.asked.push_back({one, other});
    return proof;
  }
  // Notes what datagrams would have told all hosts about each other.
  void tell_cables(Subnets subnets) {
    told_.clear();
    near_.assign(hosts_.size(), std::vector<bool>(hosts_.size()));
    for (const soft::LinkSpec& link : fabric_.links) {
      const auto a = static_cast<std::size_t>(link.ends[0].host);
      const auto b = static_cast<std::size_t>(link.ends[1].host);
      near_[a][b] = near_[b][a] = true;
    }
    for (std::size_t a = 0; subnets != Subnets::OneForEachCable && a < hosts_.size(); ++a)
      for (std::size_t b = a + 1; b < hosts_.size(); ++b)
        told_.push_back({a, b, told_cables(proof_of(a, b))});
  }
  bool is_cable(std::size_t host, int rail, std::size_t other, int far) const {
    for (const soft::LinkSpec& link : fabric_.links) {
      const soft::NicRef one{static_cast<int>(host), rail}, end{static_cast<int>(other), far};
      if ((link.ends[0] == one && link.ends[1] == end) ||
          (link.ends[1] == one && link.ends[0] == end))
        return true;
    }
    return false;
  }
  std::size_t index_of(const RouteHop& hop) const { return hop.host.ticket[0] - std::size_t{1}; }
  std::vector<std::size_t> distances_from(std::size_t from) const {
    std::vector<std::size_t> distance(hosts_.size(), SIZE_MAX);
    std::queue<std::size_t> next;
    distance[from] = 0;
    next.push(from);
    for (; !next.empty(); next.pop()) {
      for (std::size_t to = 0; to < hosts_.size(); ++to) {
        if (!near_[next.front()][to] || distance[to] != SIZE_MAX) continue;
        distance[to] = distance[next.front()] + 1;
        next.push(to);
      }
    }
    return distance;
  }
  void expect_route(std::size_t from, std::size_t to, std::size_t between) {
    KnownCables cables(ticket_of(from), ticket_of(to));
    for (const Told& each : told_)
      cables.note(ticket_of(each.from), ticket_of(each.to), each.cables);
    std::vector<WireHost> others;
    for (std::size_t host = 0; host < hosts_.size(); ++host)
      if (host != from && host != to) others.push_back(hosts_[host]);
    const std::optional<RelayRoute> route = find_route({.own = hosts_[from].rails,
                                                        .peer = hosts_[to].rails,
                                                        .hosts = others,
                                                        .cables = &cables,
                                                        .unproven = Unproven::LeftOut,
                                                        .spread = 1 + from});
    ASSERT_TRUE(route) << from << " to " << to;
    ASSERT_EQ(route->hops.size(), between)
        << from << " to " << to << " over " << route_text(*route);
    std::size_t at = from;
    int rail = route->own_rail;
    for (const RouteHop& hop : route->hops) {
      EXPECT_TRUE(is_cable(at, rail, index_of(hop), hop.near_rail)) << from << " to " << to;
      at = index_of(hop);
      rail = hop.far_rail;
    }
    EXPECT_TRUE(is_cable(at, rail, to, route->peer_rail)) << from << " to " << to;
  }
  void expect_paths(const Shape& shape, std::size_t from, std::size_t to) {
    const auto ends = [this](std::size_t host) {
      std::vector<topo::RailEnd> all;
      all.reserve(hosts_[host].rails.size());
      for (const WireRail& rail : hosts_[host].rails) all.push_back(rail_end(rail));
      return all;
    };
    const topo::CableProof proof = proof_of(from, to);
    const bool told = shape.subnets != Subnets::OneForEachCable;
    std::vector<topo::WirePair> met;
    for (const topo::RailPair& pair :
         topo::pair_rails(ends(from), ends(to), {.proof = told ? &proof : nullptr}))
      met.push_back({pair.local, pair.peer});
    std::sort(met.begin(), met.end());
    EXPECT_EQ(met, cables_between(from, to)) << from << " to " << to;
  }
  void expect_all_reach_all(Shape shape) {
    for (const Subnets subnets : {Subnets::OneForEachCable, Subnets::OneForAll}) {
      shape.subnets = subnets;
      SCOPED_TRACE(testkit::text_of(shape));
      cable(shape);
      for (std::size_t from = 0; from < hosts_.size(); ++from) {
        const std::vector<std::size_t> distance = distances_from(from);
        for (std::size_t to = 0; to < hosts_.size(); ++to) {
          if (distance[to] == 1) expect_paths(shape, from, to);
          if (distance[to] > 1) expect_route(from, to, distance[to] - 1);
        }
      }
      if (HasFailure()) return;
    }
  }

 private:
  struct Told {
    std::size_t from = 0, to = 0;
    std::vector<WireCables> cables;
  };
  soft::FabricFile fabric_;
  std::vector<WireHost> hosts_;
  std::vector<std::vector<bool>> near_;
  std::vector<Told> told_;
};

TEST_F(ShapeRoutes, OfRingsWithOneCableInEveryOrderLeadOverTheFewestHosts) {
  for (const std::size_t hosts : {5u, 6u, 8u})
    for (std::size_t order = 0; order < std::size_t{1} << hosts && !HasFailure();
         order += kOneOrderIn) {
      Shape shape{.hosts = static_cast<int>(hosts), .cables = 1};
      for (std::size_t host = 0; host < hosts; ++host) shape.orders.push_back(order >> host & 1);
      expect_all_reach_all(shape);
    }
}

// Hosts a and b are neighbours.
TEST_F(ShapeRoutes, OfARingWithTwoCablesInEveryOrderOfTwoNeighboursLeadOverOneHost) {
  const std::size_t orders = testkit::orders_of(4);
  for (std::size_t order = 0; order < orders * orders && !HasFailure(); order += kOneOrderIn)
    expect_all_reach_all({.hosts = 5,
                          .cables = 2,
                          .seed = order / orders % 4,
                          .orders = {order % orders, order / orders}});
}

TEST_F(ShapeRoutes, OfRingsWithOneToFourCablesInManyOrdersLeadOverTheFewestHosts) {
  constexpr std::uint64_t kOrders = 8;
  for (const int hosts : {5, 6, 8})
    for (int cables = 1; cables <= 4; ++cables)
      for (std::uint64_t seed = 0; seed < kOrders; ++seed)
        expect_all_reach_all({.hosts = hosts, .cables = cables, .seed = seed});
}

TEST_F(ShapeRoutes, OfATorusOfFourTimesFourWithTwoCablesLeadOverTheFewestHosts) {
  for (const std::uint64_t seed : {0u, 7u})
    expect_all_reach_all({.hosts = 16, .columns = 4, .cables = 2, .seed = seed});
}

TEST_F(ShapeRoutes, OfARingOfFourWithEightNicsEachLeadOverOneHost) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    expect_all_reach_all({.hosts = 4, .cables = 4, .seed = seed});
}

}  // namespace
}  // namespace mesh::engine
