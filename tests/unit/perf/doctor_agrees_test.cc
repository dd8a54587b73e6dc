// mesh_doctor's map of the cables and the pairs of ports that links of the engine use are alike on
// fabrics of the software fabric, whatever addresses their ports have.
#include "perf/mesh_doctor/cable_finder.h"
#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/shared_subnets.h"

#include "engine/data/peer_link.h"
#include "engine/link/cable_message.h"
#include "engine/link/link_setup.h"
#include "src/base/random.h"
#include "src/verbs/discovery.h"
#include "tests/unit/engine/one_subnet.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::doctor {
namespace {

using Pairs = std::set<std::string>;  // "a/n0:1 -- b/n1:1"

// One host as the doctor reads it.
struct Look {
  std::unique_ptr<soft::SoftProvider> provider;
  std::vector<verbs::Rail> found;
  CableEnds ends;
  HostRails rails;
};

Look look_at(const soft::FabricFile& fabric, const std::string& host) {
  Look look;
  soft::SoftOptions options;
  options.fabric = fabric;
  options.host = host;
  look.provider = testkit::open_host(std::move(options));
  auto found = verbs::discover(*look.provider, Settings{});
  if (!found.ok()) throw std::runtime_error("no rails");
  look.found = std::move(*found);
  look.rails.host = host;
  look.rails.host_id = look.provider->host_id();
  look.rails.rails = engine::describe_rails(*look.provider, look.found);
  look.rails.paces.resize(look.found.size());
  look.rails.nonce = random_id();
  for (const verbs::Rail& rail : look.found) {
    look.ends.push_back(look.provider->open_datagrams(rail.context.get(), rail.gids.front(),
                                                      verbs::DatagramEnd::Port));
    look.rails.places.push_back(look.ends.back() == nullptr
                                    ? engine::WirePlace{}
                                    : engine::wire_place_of(look.ends.back()->place()));
  }
  return look;
}

// All hosts look at one time, as the processes of a run do. Returns what rank 0 has found.
Proofs proofs_of(const std::vector<Look>& looks, const std::vector<HostRails>& hosts) {
  Result<driver::Rendezvous> opened = driver::open_loopback_rendezvous();
  if (!opened.ok()) return {};
  driver::Rendezvous rendezvous = std::move(*opened);
  std::vector<Proofs> found(looks.size());
  std::vector<std::thread> ranks;
  const int listening = rendezvous.socket.release();
  for (std::size_t rank = 0; rank < looks.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      auto bootstrap = driver::Bootstrap::join({.rank = static_cast<int>(rank),
                                                .world = static_cast<int>(looks.size()),
                                                .address = rendezvous.address,
                                                .listening_fd = rank == 0 ? listening : -1});
      if (!bootstrap.ok()) return;
      auto proofs = find_cables(*bootstrap, looks[rank].ends, hosts);
      if (proofs.ok()) found[rank] = std::move(*proofs);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return found.front();
}

Pairs doctors_pairs(const std::string& text) {
  const soft::FabricFile fabric = testkit::parsed(text);
  std::vector<Look> looks;
  std::vector<HostRails> hosts;
  for (const soft::HostSpec& host : fabric.hosts) {
    looks.push_back(look_at(fabric, host.name));
    hosts.push_back(looks.back().rails);
  }
  const Proofs proofs = proofs_of(looks, hosts);
  if (proofs.size() != hosts.size()) return {"the hosts do not find one another"};
  std::vector<std::vector<Meeting>> meetings;
  for (std::size_t last = 0; last < hosts.size(); ++last) {
    std::vector<Meeting>& of_host = meetings.emplace_back(last);
    const auto ask = [&](std::size_t rail, std::size_t address, const engine::WireAddress& to) {
      return looks[last].provider->route(looks[last].found[rail].gids[address], engine::gid_of(to));
    };
    for (std::size_t first = 0; first < last; ++first)
      if (!are_cabled_elsewhere(proofs, first, last))
        of_host[first] = meeting_of(hosts[first], hosts[last], ask, &proofs[last][first]);
  }
  const Cabling cabling = cabling_of(hosts, meetings);
  Pairs pairs;
  for (const Cable& cable : cabling.cables)
    for (const Half& half : cable.halves) pairs.insert(cabling.text(half));
  return pairs;
}

class DoctorAndEngine : public testkit::OneSubnet {
 protected:
  // Links between all hosts that have a cable, over all pairs of ports that meet.
  Pairs engines_pairs(const std::string& text) {
    const soft::FabricFile fabric = testkit::parsed(text);
    open_text(text, "all");
    std::set<std::pair<std::size_t, std::size_t>> neighbours;
    for (const soft::LinkSpec& link : fabric.links)
      for (const soft::NicRef& a : link.ends)
        for (const soft::NicRef& b : link.ends)
          if (a.host < b.host)
            neighbours.insert({static_cast<std::size_t>(a.host), static_cast<std::size_t>(b.host)});
    Pairs pairs;
    for (const auto& [from, to] : neighbours) {
      talks_.push_back(talk(from, to));
      talks_.back()->exchange(testkit::kTalkBytes);
      const auto name = [&](std::size_t host, std::size_t rail) {
        return fabric.hosts[host].name + "/" + bed_->hosts[host].engine->rails()[rail].name;
      };
      for (const engine::Path& path : talks_.back()->pair.send->link.paths().all()) {
        if (path.ends.is_place() || path.health.state != engine::PathState::Up) continue;
        pairs.insert(name(from, path.rail) + " -- " + name(to, path.ends.peer_rail));
      }
    }
    end_all();
    bed_.reset();
    return pairs;
  }
  void expect_alike(const std::string& text, std::size_t cables) {
    const Pairs doctors = doctors_pairs(text), engines = engines_pairs(text);
    EXPECT_EQ(doctors, engines) << text;
    EXPECT_EQ(engines.size(), cables) << text;
  }
};

// Hosts a, b, ...: their ports are n0, n1, ... with these addresses.
std::string fabric_of(const std::vector<std::vector<std::string>>& addresses,
                      const std::string& links, std::size_t without_ipv6 = SIZE_MAX) {
  std::vector<std::string> hosts;
  for (std::size_t host = 0; host < addresses.size(); ++host) {
    std::vector<std::string> ports;
    for (std::size_t port = 0; port < addresses[host].size(); ++port)
      ports.push_back(fmt::format(R"({{"name": "n{}", "address": "{}"{}}})", port,
                                  addresses[host][port],
                                  host == without_ipv6 ? R"(, "ipv6": false)" : ""));
    hosts.push_back(fmt::format(R"({{"name": "{:c}", "nics": [{}]}})", 'a' + static_cast<int>(host),
                                fmt::join(ports, ", ")));
  }
  return fmt::format(R"({{"name": "fabric", "hosts": [{}], "links": [{}]}})",
                     fmt::join(hosts, ", "), links);
}

constexpr const char* kStraight = R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]})";
constexpr const char* kCrossed = R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]})";
constexpr const char* kTriangle =
    R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["b/n0", "c/n1"]}, {"ends": ["c/n0", "a/n1"]})";
constexpr const char* kRing = R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["b/n0", "c/n1"]},
                                 {"ends": ["c/n0", "d/n1"]}, {"ends": ["d/n0", "a/n1"]})";
constexpr const char* kLine =
    R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["b/n1", "c/n0"]}, {"ends": ["c/n1", "d/n0"]})";

TEST_F(DoctorAndEngine, AgreeWhereEachCableHasASubnet) {
  const std::vector<std::vector<std::string>> two{{"10.1.0.1/24", "10.2.0.1/24"},
                                                  {"10.1.0.2/24", "10.2.0.2/24"}};
  expect_alike(fabric_of(two, kStraight), 2);
  expect_alike(fabric_of({{"10.1.0.1/24", "10.3.0.2/24"},
                          {"10.2.0.1/24", "10.1.0.2/24"},
                          {"10.3.0.1/24", "10.2.0.2/24"}},
                         kTriangle),
               3);
  expect_alike(fabric_of({{"fd01::1/64", "fd02::1/64"}, {"fd01::2/64", "fd02::2/64"}}, kStraight),
               2);
}

TEST_F(DoctorAndEngine, AgreeWhereOneSubnetIsOnAllCables) {
  const std::vector<std::vector<std::string>> two{{"10.0.0.1/24", "10.0.0.2/24"},
                                                  {"10.0.0.3/24", "10.0.0.4/24"}};
  expect_alike(fabric_of(two, kStraight), 2);
  expect_alike(fabric_of(two, kCrossed), 2);
  expect_alike(fabric_of({two[0], two[1], {"10.0.0.5/24", "10.0.0.6/24"}}, kTriangle), 3);
  expect_alike(
      fabric_of({{"10.0.0.1/24"}, two[1], {"10.0.0.5/24", "10.0.0.6/24"}, {"10.0.0.7/24"}}, kLine),
      3);
}

TEST_F(DoctorAndEngine, AgreeWhereAddressesAreLinkLocal) {
  expect_alike(
      fabric_of({{"169.254.0.1/16", "169.254.0.2/16"}, {"169.254.0.3/16", "169.254.0.4/16"}},
                kCrossed),
      2);
  expect_alike(fabric_of({{"fe80::1/64", "fe80::2/64"}, {"fe80::3/64", "fe80::4/64"}}, kCrossed),
               2);
}

TEST_F(DoctorAndEngine, AgreeWhereAHostHasNoIpv6) {
  const std::vector<std::vector<std::string>> two{{"10.0.0.1/24", "10.0.0.2/24"},
                                                  {"10.0.0.3/24", "10.0.0.4/24"}};
  expect_alike(fabric_of(two, kCrossed, 0), 2);
  expect_alike(fabric_of({two[0], two[1], {"10.0.0.5/24", "10.0.0.6/24"}}, kTriangle, 2), 3);
}

TEST_F(DoctorAndEngine, AgreeWhereHostsHaveEqualAddresses) {
  const std::vector<std::string> each{"10.9.0.1/24", "10.9.0.2/24"};
  expect_alike(fabric_of({each, each}, kCrossed), 2);
  expect_alike(fabric_of({each, each, each}, kTriangle), 3);
  expect_alike(fabric_of({each, each, each, each}, kRing), 4);
}

}  // namespace
}  // namespace mesh::doctor
