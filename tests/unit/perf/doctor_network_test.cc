// mesh_doctor reads the kernel's answers about a host's network, and names a host between two
// others that forwards no packets.
#include "perf/mesh_doctor/checks.h"
#include "perf/mesh_doctor/kernel_network.h"
#include "tests/prelude.h"

#include <linux/dcbnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

namespace mesh::doctor {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Value>
Bytes bytes_of(const Value& value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes attribute(int type, const Bytes& value) {
  const nlattr head{.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + value.size()),
                    .nla_type = static_cast<std::uint16_t>(type)};
  Bytes bytes = joined({bytes_of(head), value});
  bytes.resize(NLA_ALIGN(bytes.size()));
  return bytes;
}

Bytes message(int type, const Bytes& content) {
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + content.size());
  head.nlmsg_type = static_cast<std::uint16_t>(type);
  Bytes bytes = joined({bytes_of(head), content});
  bytes.resize(NLMSG_ALIGN(bytes.size()));
  return bytes;
}

Bytes port_answer() {
  ieee_maxrate limits{};
  limits.tc_maxrate[3] = 10'000'000;  // kbit/s
  ieee_ets ets{};
  for (std::uint8_t priority = 0; priority < 8; ++priority) ets.prio_tc[priority] = priority / 2;
  const dcb_app of_dscp{.selector = IEEE_8021QAZ_APP_SEL_DSCP, .priority = 6, .protocol = 26};
  const dcb_app of_port{.selector = IEEE_8021QAZ_APP_SEL_ANY, .priority = 1, .protocol = 4791};
  const Bytes table = joined({attribute(DCB_ATTR_IEEE_APP, bytes_of(of_port)),
                              attribute(DCB_ATTR_IEEE_APP, bytes_of(of_dscp))});
  const Bytes ieee = joined({attribute(DCB_ATTR_IEEE_ETS, bytes_of(ets)),
                             attribute(DCB_ATTR_IEEE_MAXRATE, bytes_of(limits)),
                             attribute(DCB_ATTR_IEEE_APP_TABLE | NLA_F_NESTED, table)});
  const dcbmsg head{.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET, .dcb_pad = 0};
  return message(RTM_GETDCB, joined({bytes_of(head), attribute(DCB_ATTR_IFNAME, Bytes(16)),
                                     attribute(DCB_ATTR_IEEE | NLA_F_NESTED, ieee)}));
}

TEST(KernelNetwork, TheLimitsOfAPortAreReadByTrafficClass) {
  const TrafficClasses classes = traffic_classes_from(port_answer());
  EXPECT_EQ(classes.limit_mbps, (std::vector<int>{0, 0, 0, 10'000, 0, 0, 0, 0}));
  EXPECT_EQ(classes.of_priority, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(classes.priority_of_dscp, (std::map<int, int>{{26, 6}}));
  const Bytes refused = message(NLMSG_ERROR, bytes_of(nlmsgerr{.error = -95, .msg = {}}));
  EXPECT_TRUE(traffic_classes_from(refused).limit_mbps.empty());
  EXPECT_TRUE(traffic_classes("no-such-netdev").limit_mbps.empty());
}

struct Chain {
  std::uint8_t family = NFPROTO_IPV4;
  std::uint32_t hook = NF_INET_FORWARD, policy = NF_DROP;
};

Bytes chain_answer(const Chain& chain) {
  const nfgenmsg head{.nfgen_family = chain.family, .version = NFNETLINK_V0, .res_id = 0};
  const Bytes hook = attribute(NFTA_HOOK_HOOKNUM, bytes_of(htonl(chain.hook)));
  return message(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN,
                 joined({bytes_of(head), attribute(NFTA_CHAIN_HOOK | NLA_F_NESTED, hook),
                         attribute(NFTA_CHAIN_POLICY, bytes_of(htonl(chain.policy)))}));
}

TEST(KernelNetwork, OnlyAForwardChainThatDropsCounts) {
  const Bytes regular = message(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN, Bytes(4));
  const Bytes input = chain_answer({.hook = NF_INET_LOCAL_IN});
  const Bytes accepts = chain_answer({.policy = NF_ACCEPT});
  const Bytes bridge = chain_answer({.family = NFPROTO_BRIDGE});
  EXPECT_EQ(forward_policy_from(joined({regular, input, accepts, bridge})), "");
  EXPECT_EQ(forward_policy_from(joined({accepts, chain_answer({})})), "drop");
  EXPECT_EQ(forward_policy_from(chain_answer({.family = NFPROTO_INET})), "drop");
}

TEST(KernelNetwork, AnAnswerThatIsCutIsReadNoFurther) {
  for (const Bytes& whole : {port_answer(), chain_answer({})}) {
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      (void)traffic_classes_from(part);
      EXPECT_EQ(forward_policy_from(part), "");
    }
  }
}

HostFacts host(const std::string& name, const std::vector<std::string>& addresses) {
  HostFacts facts;
  facts.host = name;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    RailFacts& rail = facts.rails.emplace_back();
    rail.name = "p" + std::to_string(i) + ":1";
    rail.addresses = {{.text = addresses[i], .gid_index = 1}};
  }
  facts.machine.ip_forward = 1;
  facts.machine.forward_policy = "accept";
  return facts;
}

// Packets between a and c are routed by b.
std::vector<HostFacts> line() {
  return {host("a", {"10.0.1.1/24"}), host("b", {"10.0.1.2/24", "10.0.2.2/24"}),
          host("c", {"10.0.2.3/24"})};
}

Finding silent(const std::string& about) {
  return finding("silent-cable", "a and c", {.about = about, .evidence = "e", .remedy = "r"});
}

TEST(Forwarding, AHostBetweenThatDropsOrDoesNotRouteIsNamedInsteadOfTheSilentCable) {
  std::vector<HostFacts> hosts = line();
  const Finding cable = silent("a/p0:1 -- c/p0:1");
  EXPECT_EQ(explain_silence({cable}, hosts)[0].name, "silent-cable");
  hosts[1].machine.forward_policy = "drop";
  const Findings found = explain_silence({cable}, hosts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "forward-drop");
  EXPECT_EQ(found[0].host, "b");
  EXPECT_EQ(found[0].about, cable.about);
  EXPECT_NE(found[0].evidence.find("the policy drop"), std::string::npos) << found[0].evidence;
  EXPECT_NE(found[0].remedy.find("--dport 4791"), std::string::npos) << found[0].remedy;
  hosts[1].machine.ip_forward = 0;
  const Findings unrouted = explain_silence({cable}, hosts);
  EXPECT_EQ(unrouted[0].name, "forward-drop");
  EXPECT_NE(unrouted[0].evidence.find("ip_forward is 0"), std::string::npos);
}

TEST(Forwarding, AHostThatIsNotBetweenIsNoCause) {
  std::vector<HostFacts> hosts = line();
  hosts[0].machine.forward_policy = hosts[2].machine.forward_policy = "drop";
  hosts.push_back(host("d", {"10.0.1.4/24", "10.0.4.4/24"}));
  hosts[3].machine.ip_forward = 0;
  EXPECT_EQ(explain_silence({silent("a/p0:1 -- c/p0:1")}, hosts)[0].name, "silent-cable");
  hosts[1].machine.forward_policy = "drop";
  EXPECT_EQ(explain_silence({silent("a/p0:1 -- b/p0:1")}, hosts)[0].name, "silent-cable")
      << "a cable within a subnet needs no forwarding";
  const Finding other = finding("cable-down", "a and c", {"a/p0:1 -- c/p0:1", "e", "r"});
  EXPECT_EQ(explain_silence({other}, hosts)[0].name, "cable-down");
}

}  // namespace
}  // namespace mesh::doctor
