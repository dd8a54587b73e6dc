// All-reduce and all-to-all, without a setting, over cables whose addresses do not tell where they
// lead: one subnet on all ports, link-local addresses, and a subnet that comes twice in a ring.
#include "perf/collectives/collective.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr const char* kSoftwareOnly = "its cables are those of a software fabric";
constexpr std::chrono::seconds kTimeout{60};

const Scenario kBoth("shared_subnet", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  for (const perf::Kind kind : {perf::Kind::AllReduce, perf::Kind::AllToAll}) {
    const std::vector<std::size_t> sizes{64, 100'004};
    Rounds rounds(peer, *communicator,
                  {.kind = kind, .type = perf::DataType::Float, .bytes_max = sizes.back()}, 1);
    for (const std::size_t size : sizes) rounds.run(size);
  }
  peer.barrier();
});

struct Host {
  std::vector<std::string> addresses;  // of mesh0, mesh1, ...
  std::string more = {};               // further fields of each port
};
using Cables = std::vector<std::pair<std::string, std::string>>;

std::string fabric_of(const std::vector<Host>& hosts, const Cables& cables) {
  std::vector<std::string> all, links;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    std::vector<std::string> nics;
    for (std::size_t nic = 0; nic < hosts[host].addresses.size(); ++nic)
      nics.push_back(fmt::format(R"({{"name": "mesh{}", "address": "{}"{}}})", nic,
                                 hosts[host].addresses[nic], hosts[host].more));
    all.push_back(fmt::format(R"({{"name": "{}", "nics": [{}]}})", static_cast<char>('a' + host),
                              fmt::join(nics, ", ")));
  }
  for (const auto& [one, other] : cables)
    links.push_back(fmt::format(R"({{"ends": ["{}", "{}"]}})", one, other));
  return fmt::format(R"({{"name": "shared-subnet", "hosts": [{}], "links": [{}]}})",
                     fmt::join(all, ", "), fmt::join(links, ", "));
}

void expect_works(const std::vector<Host>& hosts, const Cables& cables) {
  expect_run(kBoth, {.fabric_text = fabric_of(hosts, cables),
                     .software_only = kSoftwareOnly,
                     .timeout = kTimeout});
}

const Cables kTriangle{{"a/mesh0", "b/mesh1"}, {"a/mesh1", "c/mesh0"}, {"b/mesh0", "c/mesh1"}};
const Cables kStraight{{"a/mesh0", "b/mesh0"}, {"a/mesh1", "b/mesh1"}};
const Cables kCrossed{{"a/mesh0", "b/mesh1"}, {"a/mesh1", "b/mesh0"}};

TEST(SharedSubnet, ATriangleWithLinkLocalAddresses) {
  expect_works({{.addresses = {"169.254.12.1/16", "169.254.13.1/16"}},
                {.addresses = {"169.254.23.2/16", "169.254.12.2/16"}},
                {.addresses = {"169.254.13.3/16", "169.254.23.3/16"}}},
               kTriangle);
}

TEST(SharedSubnet, ATriangleInOneSubnet) {
  expect_works({{.addresses = {"192.168.1.1/24", "192.168.1.2/24"}},
                {.addresses = {"192.168.1.3/24", "192.168.1.4/24"}},
                {.addresses = {"192.168.1.5/24", "192.168.1.6/24"}}},
               kTriangle);
}

TEST(SharedSubnet, TwoCablesInOneSubnet) {
  for (const Cables& cables : {kStraight, kCrossed}) {
    expect_works({{.addresses = {"192.168.1.1/24", "192.168.1.2/24"}},
                  {.addresses = {"192.168.1.3/24", "192.168.1.4/24"}}},
                 cables);
  }
}

TEST(SharedSubnet, ACableWithLinkLocalAddressesBesideAnother) {
  expect_works({{.addresses = {"10.0.12.1/24", "169.254.12.1/16"}},
                {.addresses = {"10.0.12.2/24", "169.254.12.2/16"}}},
               kStraight);
}

TEST(SharedSubnet, ARingWithOneSubnetOnTwoCables) {
  expect_works({{.addresses = {"192.168.1.1/24", "192.168.3.1/24"}},
                {.addresses = {"192.168.1.2/24", "192.168.2.1/24"}},
                {.addresses = {"192.168.2.2/24", "192.168.1.3/24"}},
                {.addresses = {"192.168.1.4/24", "192.168.3.2/24"}}},
               {{"a/mesh0", "b/mesh0"},
                {"b/mesh1", "c/mesh0"},
                {"c/mesh1", "d/mesh0"},
                {"d/mesh1", "a/mesh1"}});
}

// Hosts that are no neighbours share the subnet too, and reach each other over hosts between.
TEST(SharedSubnet, RingsWithLinkLocalAddresses) {
  for (const std::size_t count : {4u, 5u}) {
    std::vector<Host> hosts;
    Cables cables;
    for (std::size_t host = 0; host < count; ++host) {
      hosts.push_back({.addresses = {fmt::format("169.254.{}.1/16", host + 1),
                                     fmt::format("169.254.{}.2/16", host + 1)}});
      cables.emplace_back(fmt::format("{:c}/mesh1", 'a' + host),
                          fmt::format("{:c}/mesh0", 'a' + (host + 1) % count));
    }
    expect_works(hosts, cables);
  }
}

// The host cannot tell from its own address that the others have several ports in its subnet.
TEST(SharedSubnet, AHostWithOnePort) {
  expect_works({{.addresses = {"192.168.1.1/24"}},
                {.addresses = {"192.168.1.2/24", "192.168.1.3/24", "192.168.1.4/24"}},
                {.addresses = {"192.168.1.5/24", "192.168.1.6/24"}}},
               {{"a/mesh0", "b/mesh2"}, {"b/mesh0", "c/mesh1"}, {"b/mesh1", "c/mesh0"}});
}

// Without answers the ports meet by their place, as without datagrams.
TEST(SharedSubnet, StraightCablesBehindAFirewall) {
  const std::string firewall = R"(, "firewall": true)";
  expect_works({{.addresses = {"192.168.1.1/24", "192.168.1.2/24"}, .more = firewall},
                {.addresses = {"192.168.1.3/24", "192.168.1.4/24"}, .more = firewall}},
               kStraight);
}

}  // namespace
}  // namespace mesh::e2e
