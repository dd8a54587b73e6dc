// Every order of the ports of hosts that have one to four cables to each of two neighbours, or two
// to each of four, by its parts. The code decides for two hosts at a time which of their rails meet
// (choose_paths(), pairs_of_step()), and takes only these two hosts' rails and the cables between
// them; two cables differ only in the ports at their ends, and ports that lead to other hosts are
// not asked where to. So the orders of the ports of two neighbours are three choices: at which
// places each of them has the ports to the other one, and in which order the cables join these.
// With four cables that is 70 * 70 * 24 cases for 40320 * 40320 orders. The number of hosts adds
// none: a route is a chain of such steps, and each step takes the pairs of its two hosts, which the
// tests of three hosts look at.
#include "engine/link/path_choice.h"
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/routes.h"
#include "src/base/config.h"
#include "tests/unit/engine/link/joined_hosts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::Cabling, testkit::Ports, testkit::Subnets, testkit::Wires, testkit::each_way_to_join;
using testkit::joined, testkit::places_of;

// In ring 1.
#if defined(MESH_SANITIZE_ADDRESS) || defined(MESH_SANITIZE_THREAD)
constexpr std::size_t kCablesMax = 2;
#else
constexpr std::size_t kCablesMax = 3;
#endif

constexpr std::array kSubnets{Subnets::OneForEachCable, Subnets::OneForAll, Subnets::LinkLocal};

constexpr std::array kRings{Cabling{2, 1}, Cabling{4, 2}, Cabling{6, 3}, Cabling{8, 4}};
constexpr Cabling kTorus{8, 2};
std::span<const Cabling> rings_of_up_to(std::size_t cables) { return {kRings.data(), cables}; }

class PortOrders : public testing::Test, public testkit::JoinedHosts {
 protected:
  // Ring 3 switches on those tests that take minutes.
  static bool all_of_them() { return process_environment().contains("PORT_ORDERS"); }
  // A link of host 0 to host 1 has the cables between them and no other paths, for each two devices
  // that NCCL may name; those of the cable that it names carry. Others stand by over other hosts.
  void expect_link(const Wires& wires) const {
    Hello from = hello(0);
    const std::vector<WireRail>& own = hosts_[1].rails;
    const auto nobody = [](auto...) { return verbs::Route{}; };
    const topo::CableProof proof = proof_of(from, 1, wires);
    PathChoice choice = choose_paths(from, own, nobody, proof.asked.empty() ? nullptr : &proof);
    EXPECT_EQ(ends_of(choice.meet), wires);
    for (std::size_t rail = 0; rail < from.rails.size(); ++rail) {
      for (std::size_t listened = 0; listened < own.size(); ++listened) {
        from.asked.rail = static_cast<std::uint8_t>(rail);
        from.asked.listened = static_cast<std::uint8_t>(listened);
        const PathSets sets = path_sets(choice.meet, from.rails, own, from.asked);
        Wires wanted = wires;
        if (std::any_of(wires.begin(), wires.end(), [&](auto& each) { return each.local == rail; }))
          std::erase_if(wanted, [rail](const topo::WirePair& each) { return each.local != rail; });
        EXPECT_EQ(ends_of(sets.primary), wanted);
        std::vector<WirePath> both = sets.primary;
        both.insert(both.end(), sets.standby.begin(), sets.standby.end());
        EXPECT_EQ(ends_of(both), wires);
      }
    }
    add_relayed(from, own, {}, &choice);
    EXPECT_GE(choice.relayed, 1);
  }
  // As a step of a route, in a search that knows where the other ports of both hosts lead.
  void expect_step(const Wires& wires) const {
    KnownCables cables(ticket_of(0), ticket_of(1));
    note(cables, 0, 1, wires);
    for (const std::size_t host : {0u, 1u}) note(cables, host, 2 + host, others(host, wires));
    for (const Unproven unproven : {Unproven::LeftOut, Unproven::ByPlace})
      EXPECT_EQ(step(cables, 0, 1, unproven), wires);
  }
  // The cables of the ports of host 0 or 1 that are not on these: to the first ports of host 2
  // or 3.
  Wires others(std::size_t host, const Wires& wires) const {
    Wires rest;
    for (std::size_t port = 0; port < cabling_.ports; ++port) {
      const auto is_its = [&](const topo::WirePair& wire) {
        return (host == 0 ? wire.local : wire.peer) == port;
      };
      if (std::none_of(wires.begin(), wires.end(), is_its)) rest.push_back({port, rest.size()});
    }
    return rest;
  }
  static Wires ends_of(const std::vector<WirePath>& paths) {
    Wires wires;
    for (const WirePath& path : paths) wires.push_back({path.connector_rail, path.acceptor_rail});
    std::sort(wires.begin(), wires.end());
    return wires;
  }
  void expect_strangers(const Cabling& cabling) {
    const std::vector<Ports> places = places_of(cabling);
    for (const Subnets subnets : kSubnets) {
      for (const Ports& near : places) {
        for (const Ports& far : places) {
          SCOPED_TRACE(text_of(joined(near, far)));
          for (const std::size_t neighbour : {2u, 3u}) {
            open(4, cabling, subnets);
            expect_strangers(near, far, neighbour);
          }
          if (HasFailure()) return;
        }
      }
    }
  }
  // Host 0 is cabled to host 2, and host 1 to that or another one. A link between them may have
  // been tried.
  void expect_strangers(const Ports& near, const Ports& far, std::size_t neighbour) {
    Ports rest;
    for (const topo::WirePair& wire : others(0, joined(near, near))) rest.push_back(wire.local);
    const Wires first = joined(near, near), second = joined(far, rest);
    join(0, 2, first);
    join(1, neighbour, second);
    KnownCables cables(ticket_of(0), ticket_of(1));
    note(cables, 0, 2, first);
    note(cables, 1, neighbour, second);
    EXPECT_EQ(step(cables, 0, 1, Unproven::LeftOut), Wires{});
    note(cables, 0, 1, {});
    for (const Unproven unproven : {Unproven::LeftOut, Unproven::ByPlace})
      EXPECT_EQ(step(cables, 0, 1, unproven), Wires{});
  }
  void expect_neighbours(const Cabling& cabling) {
    const std::vector<Ports> places = places_of(cabling);
    for (const Subnets subnets : kSubnets) {
      each_way_to_join(places, places, [&](const Wires& wires) {
        SCOPED_TRACE(text_of(wires));
        open(4, cabling, subnets);
        join(0, 1, wires);
        for (const std::size_t host : {0u, 1u}) join(host, 2 + host, others(host, wires));
        expect_link(wires);
        expect_step(wires);
      });
    }
  }
  // From host 0 over host 1 to host 2.
  void expect_route(const Wires& first, const Wires& second) {
    KnownCables cables(ticket_of(0), ticket_of(2));
    note(cables, 0, 1, first);
    note(cables, 1, 2, second);
    note(cables, 0, 2, {});
    const std::optional<RelayRoute> route = find_route({.own = hosts_[0].rails,
                                                        .peer = hosts_[2].rails,
                                                        .hosts = {&hosts_[1], 1},
                                                        .cables = &cables,
                                                        .unproven = Unproven::LeftOut,
                                                        .spread = 1});
    ASSERT_TRUE(route);
    ASSERT_EQ(route->hops.size(), 1u);
    const RouteHop& hop = route->hops.front();
    EXPECT_TRUE(topo::holds(first, {route->own_rail, hop.near_rail}));
    EXPECT_TRUE(topo::holds(second, {hop.far_rail, route->peer_rail}));
  }
  void expect_routes(const Cabling& cabling) {
    const std::vector<Ports> places = places_of(cabling);
    for (const Subnets subnets : kSubnets) {
      each_way_to_join(places, places, [&](const Wires& first) {
        open(3, cabling, subnets);
        Ports ports;
        for (const topo::WirePair& wire : others(1, first)) ports.push_back(wire.local);
        each_way_to_join({ports}, places, [&](const Wires& second) {
          open(3, cabling, subnets);
          join(0, 1, first);
          join(1, 2, second);
          SCOPED_TRACE(text_of(first) + ";" + text_of(second));
          expect_route(first, second);
        });
      });
    }
  }
};

// All cases of two neighbours.
TEST_F(PortOrders, OfNeighboursInARingLeaveExactlyTheirCables) {
  for (const Cabling& ring : rings_of_up_to(all_of_them() ? 4 : kCablesMax))
    expect_neighbours(ring);
}
TEST_F(PortOrders, OfNeighboursInATorusLeaveExactlyTheirCables) {
  if (kCablesMax > 2) expect_neighbours(kTorus);
}

// All places of the ports that lead from two hosts to one between, or to two. Nothing else differs.
TEST_F(PortOrders, OfHostsThatAreNoNeighboursJoinThemByNothing) {
  for (const Cabling& ring : rings_of_up_to(all_of_them() ? 4 : kCablesMax)) expect_strangers(ring);
}

// All cases of three hosts in a row. With four cables there are 10^8, of steps that are all above.
TEST_F(PortOrders, OfAHostBetweenDoNotChangeWhereEachStepLeads) {
  for (const Cabling& ring : rings_of_up_to(all_of_them() ? 3 : 2)) expect_routes(ring);
}

}  // namespace
}  // namespace mesh::engine
