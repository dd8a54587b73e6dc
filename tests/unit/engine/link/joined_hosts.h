#pragma once
// Hosts whose ports are joined in every way, with what the engine knows of them: rails, frames, and
// what datagrams tell. Thread: one. Bound: 15 ports of each of six hosts.

#include "engine/control/relay_frames.h"
#include "engine/link/path_choice.h"
#include "engine/link/relay/known_cables.h"
#include "tests/unit/soft/shapes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace mesh::testkit {

using Ports = std::vector<std::size_t>;
using Wires = std::vector<topo::WirePair>;

// A host's ports, and how many of them lead to one neighbour.
struct Cabling {
  std::size_t ports = 2, cables = 1;
};
// Returns each choice of `cables` ports, in ascending order.
inline std::vector<Ports> places_of(const Cabling& cabling) {
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
inline Wires joined(const Ports& one, const Ports& other) {
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
  static engine::Id128 ticket_of(std::size_t host) { return {static_cast<std::uint8_t>(1 + host)}; }
  void open(std::size_t hosts, const Cabling& cabling, Subnets subnets) {
    subnets_ = subnets;
    cabling_ = cabling;
    hosts_.assign(hosts, {});
    for (std::size_t host = 0; host < hosts; ++host) {
      hosts_[host].ticket = ticket_of(host);
      hosts_[host].name = std::string(1, static_cast<char>('a' + host));
      for (std::size_t port = 0; port < cabling.ports; ++port) {
        engine::WireRail& rail = hosts_[host].rails.emplace_back();
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
  void place(engine::WireRail& rail, std::size_t cable, std::size_t address) const {
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
  engine::Hello hello(std::size_t host) const {
    engine::Hello hello;
    hello.host = hosts_[host].name;
    hello.rails = hosts_[host].rails;
    return hello;
  }
  // Returns what datagrams tell of two hosts that are joined like this: those are sent that the
  // acceptor would send.
  topo::CableProof proof_of(const engine::Hello& hello, std::size_t to, const Wires& wires) const {
    topo::CableProof proof{.asked = engine::doubtful_rails(hello, hosts_[to].rails).up, .met = {}};
    std::copy_if(proof.asked.begin(), proof.asked.end(), std::back_inserter(proof.met),
                 [&wires](const topo::WirePair& pair) { return topo::holds(wires, pair); });
    return proof;
  }
  Wires step(const engine::KnownCables& cables, std::size_t from, std::size_t to,
             engine::Unproven unproven) const {
    const auto ends = [this](std::size_t host) {
      std::vector<topo::RailEnd> all;
      for (const engine::WireRail& rail : hosts_[host].rails) all.push_back(engine::rail_end(rail));
      return all;
    };
    const engine::Id128 &near = hosts_[from].ticket, &far = hosts_[to].ticket;
    Wires met;
    for (const topo::RailPair& pair :
         engine::pairs_of_step(ends(from), ends(to), {&cables, near, far, unproven}))
      met.push_back({pair.local, pair.peer});
    std::sort(met.begin(), met.end());
    return met;
  }
  void note(engine::KnownCables& cables, std::size_t from, std::size_t to,
            const Wires& wires) const {
    cables.note(ticket_of(from), ticket_of(to),
                engine::told_cables(proof_of(hello(from), to, wires)));
  }
  static std::string text_of(const Wires& wires) {
    std::string text;
    for (const topo::WirePair& wire : wires) text += fmt::format(" {}-{}", wire.local, wire.peer);
    return text;
  }

 protected:
  Cabling cabling_{};
  std::vector<engine::WireHost> hosts_;

 private:
  Subnets subnets_ = Subnets::OneForEachCable;
};

}  // namespace mesh::testkit
