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

#include "engine/control/relay_frames.h"
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/routes.h"
#include "src/base/config.h"
#include "tests/prelude.h"
#include "tests/unit/soft/shapes.h"

namespace mesh::engine {
namespace {

using testkit::Subnets;

using Ports = std::vector<std::size_t>;
using Wires = std::vector<topo::WirePair>;

// A host's ports, and how many of them lead to one neighbour.
struct Cabling {
  std::size_t ports = 2, cables = 1;
};
// Returns each choice of `cables` ports, in ascending order.
std::vector<Ports> places_of(const Cabling& cabling) {
  std::vector<Ports> all;
  for (unsigned bits = 0; bits < 1u << cabling.ports; ++bits) {
    if (static_cast<std::size_t>(std::popcount(bits)) != cabling.cables) continue;
    Ports& ports = all.emplace_back();
    for (std::size_t port = 0; port < cabling.ports; ++port)
      if ((bits >> port & 1) != 0) ports.push_back(port);
  }
  return all;
}
// Joins the k-th port of one host with the k-th of another one.
Wires joined(const Ports& one, const Ports& other) {
  Wires wires;
  for (std::size_t i = 0; i < one.size(); ++i) wires.push_back({one[i], other[i]});
  return wires;
}
// Calls `visit` with the cables between two neighbours, in each of the ways in which they differ.
template <typename Visit>
void each_way_to_join(const std::vector<Ports>& nears, const std::vector<Ports>& fars,
                      const Visit& visit) {
  for (const Ports& near : nears) {
    for (Ports far : fars) {
      do {
        if (!testing::Test::HasFailure()) visit(joined(near, far));
      } while (std::next_permutation(far.begin(), far.end()));
    }
  }
}

// Hosts a, b, c, ... with equally many ports.
class JoinedHosts {
 public:
  static Id128 ticket_of(std::size_t host) { return {static_cast<std::uint8_t>(1 + host)}; }
  void open(std::size_t hosts, const Cabling& cabling, Subnets subnets) {
    subnets_ = subnets;
    cabling_ = cabling;
    hosts_.assign(hosts, {});
    for (std::size_t host = 0; host < hosts; ++host) {
      hosts_[host].ticket = ticket_of(host);
      hosts_[host].name = std::string(1, static_cast<char>('a' + host));
      for (std::size_t port = 0; port < cabling.ports; ++port) {
        WireRail& rail = hosts_[host].rails.emplace_back();
        rail.name = fmt::format("n{}", port);
        rail.identity = static_cast<std::uint32_t>(port << 8 | 1);
        rail.guid = 1 + 16 * host + port;
        rail.mtu = 5;
        rail.addresses.resize(1);
        place(rail, 100 + 16 * host + port, 1 + 16 * host + port);  // nobody else is in its subnet
      }
    }
  }
  // Sets the subnet of the port's cable, and its address there.
  void place(WireRail& rail, std::size_t cable, std::size_t address) const {
    const auto byte = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
    const bool own = subnets_ == Subnets::OneForEachCable, local = subnets_ == Subnets::LinkLocal;
    rail.addresses[0] = {.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, byte(local ? 169 : 10),
                                 byte(local ? 254 : 0), byte(own ? cable : 0), byte(address)},
                         .prefix_len = byte(own ? 24 : 16)};
  }
  void join(std::size_t from, std::size_t to, const Wires& wires) {
    for (const topo::WirePair& wire : wires) {
      const std::size_t cable = 16 * from + wire.local, first = 1 + 16 * from + wire.local;
      place(hosts_[from].rails[wire.local], cable, first);
      place(hosts_[to].rails[wire.peer], cable, 1 + 16 * to + wire.peer);
    }
  }
  Hello hello(std::size_t host) const {
    Hello hello;
    hello.host = hosts_[host].name;
    hello.rails = hosts_[host].rails;
    return hello;
  }
  // Returns what datagrams tell of two hosts that are joined like this: those are sent that the
  // acceptor would send.
  topo::CableProof proof_of(const Hello& hello, std::size_t to, const Wires& wires) const {
    topo::CableProof proof{.asked = doubtful_rails(hello, hosts_[to].rails).up, .met = {}};
    std::copy_if(proof.asked.begin(), proof.asked.end(), std::back_inserter(proof.met),
                 [&wires](const topo::WirePair& pair) { return topo::holds(wires, pair); });
    return proof;
  }
  Wires step(const KnownCables& cables, std::size_t from, std::size_t to, Unproven unproven) const {
    const auto ends = [this](std::size_t host) {
      std::vector<topo::RailEnd> all;
      for (const WireRail& rail : hosts_[host].rails) all.push_back(rail_end(rail));
      return all;
    };
    const Id128 &near = hosts_[from].ticket, &far = hosts_[to].ticket;
    Wires met;
    for (const topo::RailPair& pair :
         pairs_of_step(ends(from), ends(to), {&cables, near, far, unproven}))
      met.push_back({pair.local, pair.peer});
    std::sort(met.begin(), met.end());
    return met;
  }
  void note(KnownCables& cables, std::size_t from, std::size_t to, const Wires& wires) const {
    cables.note(ticket_of(from), ticket_of(to), told_cables(proof_of(hello(from), to, wires)));
  }
  static std::string text_of(const Wires& wires) {
    std::string text;
    for (const topo::WirePair& wire : wires) text += fmt::format(" {}-{}", wire.local, wire.peer);
    return text;
  }

 protected:
  Cabling cabling_{};
  std::vector<WireHost> hosts_;

 private:
  Subnets subnets_ = Subnets::OneForEachCable;
};

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

class PortOrders : public testing::Test, public JoinedHosts {
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
