#include "src/base/socket.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mesh {
namespace {

std::vector<InterfaceAddress> machine() {
  std::vector<InterfaceAddress> all;
  const auto add = [&](const char* name, const char* text) {
    all.push_back({name, *SocketAddress::from_text(text), 24});
  };
  add("lo", "127.0.0.1");
  add("lo", "::1");
  add("docker0", "172.17.0.1");
  add("virbr0", "192.168.122.1");
  add("eth0", "fe80::5");
  add("eth0", "10.0.0.5");
  add("eth1", "10.1.0.5");
  add("eth1", "2001:db8::5");
  return all;
}

std::vector<std::string> chosen(const std::vector<InterfaceAddress>& candidates,
                                const InterfaceRule& rule) {
  std::vector<std::string> texts;
  for (const InterfaceAddress& entry : choose_interfaces(candidates, rule))
    texts.push_back(entry.name + " " + entry.address.text());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Interfaces, UnsetLeavesOutLoopbackAndBridgesAndPutsLinkLocalLast) {
  EXPECT_EQ(chosen(machine(), {}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5", "eth1 2001:db8::5", "eth0 fe80::5"}));
}

TEST(Interfaces, FamilyIsASieve) {
  EXPECT_EQ(chosen(machine(), {.names = "", .family = "AF_INET"}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5"}));
  EXPECT_EQ(chosen(machine(), {.names = "", .family = "AF_INET6"}),
            (Texts{"eth1 2001:db8::5", "eth0 fe80::5"}));
}

TEST(Interfaces, NamedOnesAreTakenWhateverTheyAre) {
  EXPECT_EQ(chosen(machine(), {.names = "docker", .family = ""}), (Texts{"docker0 172.17.0.1"}));
  EXPECT_EQ(chosen(machine(), {.names = "=lo", .family = "AF_INET"}), (Texts{"lo 127.0.0.1"}));
  EXPECT_EQ(chosen(machine(), {.names = "=eth", .family = ""}), Texts{});
}

// NCCL takes a text of one character for none, so a bare "^" is no rule here.
TEST(Interfaces, OneCharacterIsUnsetAsInNccl) {
  for (const char* const names : {"^", "e"})
    EXPECT_EQ(chosen(machine(), {.names = names, .family = "AF_INET"}),
              (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5"}));
  EXPECT_EQ(chosen(machine(), {.names = "^=", .family = ""}), Texts{});
}

TEST(Interfaces, ExcludingAsksForNothingSoLoopbackStaysOut) {
  EXPECT_EQ(chosen(machine(), {.names = "^eth0", .family = "AF_INET"}),
            (Texts{"docker0 172.17.0.1", "virbr0 192.168.122.1", "eth1 10.1.0.5"}));
}

TEST(Interfaces, LoopbackOnlyWhenNothingElseIsUp) {
  std::vector<InterfaceAddress> bare = machine();
  bare.resize(4);
  EXPECT_EQ(chosen(bare, {.names = "", .family = "AF_INET"}), (Texts{"lo 127.0.0.1"}));
}

// Each of these is on many hosts with one address, and a peer that dials it meets another host.
TEST(Interfaces, UnsetLeavesOutTheBridgesOfContainersAndVirtualMachines) {
  std::vector<InterfaceAddress> crowd = machine();
  for (const char* const name : {"br-0123456789ab", "lxcbr0", "lxdbr0", "veth12ab", "cni0", "cali0",
                                 "flannel.1", "cilium_host", "podman0", "tmfifo_net0"})
    crowd.push_back({name, *SocketAddress::from_text("192.168.100.1"), 24});
  EXPECT_EQ(chosen(crowd, {}), chosen(machine(), {}));
  crowd.push_back({"br-ex", *SocketAddress::from_text("10.2.0.5"), 24});
  EXPECT_EQ(chosen(crowd, {.names = "", .family = "AF_INET"}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5", "br-ex 10.2.0.5"}))
      << "a bridge that may be the host's own network";
}

TEST(Interfaces, ATunnelIsForHostsThatShareNothingElse) {
  std::vector<InterfaceAddress> all = machine();
  all.push_back({"tailscale0", *SocketAddress::from_text("100.64.0.5"), 32});
  EXPECT_EQ(chosen(all, {}), chosen(machine(), {}));
  std::vector<InterfaceAddress> bare = machine();
  bare.resize(4);
  bare.push_back(all.back());
  EXPECT_EQ(chosen(bare, {.names = "", .family = "AF_INET"}), (Texts{"tailscale0 100.64.0.5"}));
}

TEST(Interfaces, ThisHostHasLoopbackByName) {
  bool found = false;
  for (const InterfaceAddress& entry : interfaces({.names = "=lo", .family = "AF_INET"}))
    found = found || (entry.address.loopback() && entry.prefix_len == 8);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace mesh
