// One subnet on all ports, and odd cables and hosts: cables that carry one way, hosts without a
// cable between them, and clones.
#include "tests/unit/engine/one_subnet.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::Talk, testkit::one_subnet, testkit::kTalkBytes, testkit::kTwoCables;

constexpr const char* kFirewall = R"("name": "n1", "address": "10.0.0.4/24")";

constexpr const char* kRing = R"({"ends": ["a/n1", "b/n0"]}, {"ends": ["b/n1", "c/n0"]},
                                 {"ends": ["c/n1", "d/n0"]}, {"ends": ["d/n1", "a/n0"]})";

class NoNeighbours : public testkit::OneSubnet {};
class Clones : public testkit::OneSubnet {};

class OneWay : public testkit::OneSubnet {
 protected:
  // b hears nothing over n1, whose cable carries its own datagrams and all messages.
  void open_one_way() {
    std::string text = one_subnet({2, 2}, kTwoCables);
    const std::size_t at = text.find(kFirewall);
    ASSERT_NE(at, std::string::npos);
    text.insert(at, R"("firewall": true, )");
    open_text(text, "auto");
  }
  int warned() const { return log_.count(LogLevel::Warn, "one way only"); }
};

TEST_F(OneWay, ACableThatAnswersInOneDirectionIsNamedAndStandsBy) {
  open_one_way();
  const auto both = talk(0, 1);
  both->exchange(kTalkBytes);
  EXPECT_TRUE(log_.warned("peer b: datagrams of its n1:1 come in at our n1:1"));
  EXPECT_EQ(path_in_use(*both), "n0:1 10.0.0.1 -> n0:1 10.0.0.3");
  ports_of_both({0}, false);
  both->exchange(kTalkBytes);
  EXPECT_EQ(path_in_use(*both), "n1:1 10.0.0.2 -> n1:1 10.0.0.4") << log_.joined();
  EXPECT_EQ(warned(), 1) << log_.joined();
  end_all(*both);
}

// Nothing that a sends over n1 arrives.
TEST_F(OneWay, ACableThatCarriesNothingInOneDirectionIsNamedAndNotUsed) {
  open({2, 2}, kTwoCables, "auto");
  bed_->hosts[0].fault({.kind = soft::FaultKind::PeerLost, .nic = "n1", .peer_host = "b"});
  const auto both = talk(0, 1);
  both->exchange(kTalkBytes);
  EXPECT_EQ(warned(), 1) << log_.joined();
  EXPECT_EQ(path_in_use(*both), "n0:1 10.0.0.1 -> n0:1 10.0.0.3");
  EXPECT_TRUE(log_.warned(""));
  end_all(*both);
}

// a and c are no neighbours. Datagrams have told so, as far as silence tells anything.
TEST_F(NoNeighbours, WarnOfNothingIfAWayOverOthersIsFound) {
  open({2, 2, 2, 2}, kRing, "auto");
  std::vector<std::unique_ptr<Talk>> all;
  for (const auto& [from, to] :
       {std::pair(0, 1), std::pair(1, 2), std::pair(2, 3), std::pair(3, 0)})
    all.push_back(talk(static_cast<std::size_t>(from), static_cast<std::size_t>(to)));
  all.push_back(talk(0, 2));
  for (const auto& each : all) each->exchange(kTalkBytes);
  EXPECT_TRUE(log_.warned("", 0));
  EXPECT_TRUE(log_.said(LogLevel::Info, "could not be brought up", 0));
  EXPECT_TRUE(log_.said(LogLevel::Info, "queue pair to RTR", 0));
  EXPECT_TRUE(log_.said(LogLevel::Info, "peer c: messages go over"));
  for (const auto& each : all) end(*each);
  EXPECT_TRUE(bed_->empties());
}

TEST_F(NoNeighbours, WarnIfNobodyKnowsAWay) {
  open({2, 2, 2, 2}, kRing, "auto");
  const auto alone = talk(0, 2);
  const auto sending = alone->send({.bytes = 8});
  ASSERT_TRUE(sending.ok());
  EXPECT_FALSE(bed_->finish(*sending).ok());
  EXPECT_TRUE(log_.warned("peer c: none of"));
  EXPECT_TRUE(log_.warned("peer a: its end of the link failed: none of its "));
  EXPECT_TRUE(log_.warned("", 2));
  end_all(*alone);
}

// b and c are leaves of a, each with one port in the subnet of all cables. c has another port,
// which leads to d. By their addresses these ports of b and c make the one pair of their subnet.
TEST_F(NoNeighbours, ALeafWithAPortElsewhereIsReachedOverTheHub) {
  open_text(R"({"name": "star", "hosts": [
                {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                                       {"name": "n1", "address": "10.0.0.2/24"}]},
                {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.3/24"}]},
                {"name": "c", "nics": [{"name": "n0", "address": "10.0.0.4/24"},
                                       {"name": "n1", "address": "10.99.0.1/24"}]},
                {"name": "d", "nics": [{"name": "n0", "address": "10.99.0.2/24"}]}],
                "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "c/n0"]},
                          {"ends": ["c/n1", "d/n0"]}]})",
            "auto");
  const auto first = talk(1, 0), second = talk(0, 2), leaves = talk(1, 2);
  for (const auto* const each : {&first, &second, &leaves}) (*each)->exchange(kTalkBytes);
  EXPECT_TRUE(log_.warned("", 0)) << log_.joined();
  EXPECT_TRUE(log_.said(LogLevel::Info, "peer c: messages go over host a"));
  for (const auto* const each : {&first, &second}) end(**each);
  end_all(*leaves);
}

// A firewall drops all datagrams that come to c. Its link with b shows where its cable leads.
TEST_F(NoNeighbours, ALeafThatHearsNoDatagramIsReachedOverItsNeighbour) {
  open_text(R"({"name": "line", "hosts": [
                {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
                {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"},
                                       {"name": "n1", "address": "10.0.0.3/24"}]},
                {"name": "c", "nics": [{"name": "n0", "address": "10.0.0.4/24",
                                        "firewall": true}]}],
                "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["b/n1", "c/n0"]}]})",
            "auto");
  const auto first = talk(0, 1), second = talk(1, 2), ends = talk(0, 2);
  for (const auto* const each : {&first, &second, &ends}) (*each)->exchange(kTalkBytes);
  EXPECT_TRUE(log_.said(LogLevel::Info, "peer c: messages go over host b"));
  for (const auto* const each : {&first, &second}) end(**each);
  end_all(*ends);
}

// b and c are leaves of a. The port of a at b's cable has the address of c, and the one at c's
// cable that of b, so that a port of a takes what b sends to c, and answers nothing.
TEST_F(Clones, ALeafWithTheAddressOfTheHubIsReachedOverIt) {
  open_text(R"({"name": "star", "hosts": [
                {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                                       {"name": "n1", "address": "10.0.0.2/24"}]},
                {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}]},
                {"name": "c", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]}],
                "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "c/n0"]}]})",
            "auto");
  const auto first = talk(1, 0), second = talk(0, 2), leaves = talk(1, 2);
  for (const auto* const each : {&first, &second, &leaves}) (*each)->exchange(kTalkBytes);
  EXPECT_TRUE(log_.said(LogLevel::Info, "peer c: messages go over host a"));
  for (const auto* const each : {&first, &second}) end(**each);
  end_all(*leaves);
}

// Each host of a ring has the same addresses on its ports.
TEST_F(Clones, HostsWithEqualAddressesFindTheirCablesAndTheWayOverOthers) {
  std::string hosts;
  for (const char name : {'a', 'b', 'c', 'd'})
    hosts += fmt::format(R"({}{{"name": "{}", "nics": [
                           {{"name": "n0", "address": "10.9.0.1/24"}},
                           {{"name": "n1", "address": "10.9.0.2/24"}}]}})",
                         hosts.empty() ? "" : ", ", name);
  open_text(fmt::format(R"({{"name": "ring", "hosts": [{}], "links": [
                           {{"ends": ["a/n0", "b/n1"]}}, {{"ends": ["b/n0", "c/n1"]}},
                           {{"ends": ["c/n0", "d/n1"]}}, {{"ends": ["d/n0", "a/n1"]}}]}})",
                        hosts),
            "all");
  const auto first = talk(0, 1), second = talk(1, 2);
  for (const auto* const each : {&first, &second}) (*each)->exchange(kTalkBytes);
  EXPECT_EQ(path_in_use(*first), "n0:1 10.9.0.1 -> n1:1 10.9.0.2");
  EXPECT_TRUE(log_.warned("", 0)) << log_.joined();
  const auto far = talk(0, 2);
  far->exchange(kTalkBytes);
  for (const auto* const each : {&first, &second}) end(**each);
  end_all(*far);
}

// a is cabled to a host and to its clone, whose names, addresses and net devices are alike.
TEST_F(Clones, AHostAndItsCloneGetTheirOwnMessages) {
  constexpr const char* kPort = R"("nics": [{"name": "n0", "address": "10.0.0.3/24"}])";
  open_text(fmt::format(R"({{"name": "clones", "hosts": [
                {{"name": "a", "nics": [{{"name": "n0", "address": "10.0.0.1/24"}},
                                       {{"name": "n1", "address": "10.0.0.2/24"}}]}},
                {{"name": "b", {}}}, {{"name": "c", "clone_of": "b", {}}}],
                "links": [{{"ends": ["a/n0", "b/n0"]}}, {{"ends": ["a/n1", "c/n0"]}}]}})",
                        kPort, kPort),
            "auto");
  EXPECT_EQ(bed_->hosts[2].provider->host_name(), "b");
  std::vector<std::unique_ptr<Talk>> all;
  for (const auto& [from, to] :
       {std::pair(1, 0), std::pair(2, 0), std::pair(0, 1), std::pair(0, 2)})
    all.push_back(talk(static_cast<std::size_t>(from), static_cast<std::size_t>(to)));
  for (const auto& each : all) each->exchange(kTalkBytes);
  EXPECT_EQ(path_in_use(*all[0]), "n0:1 10.0.0.3 -> n0:1 10.0.0.1");
  EXPECT_EQ(path_in_use(*all[1]), "n0:1 10.0.0.3 -> n1:1 10.0.0.2");
  EXPECT_EQ(path_in_use(*all[2]), "n0:1 10.0.0.1 -> n0:1 10.0.0.3");
  EXPECT_EQ(path_in_use(*all[3]), "n1:1 10.0.0.2 -> n0:1 10.0.0.3");
  EXPECT_TRUE(log_.warned("peer b: hosts at"));
  EXPECT_TRUE(log_.warned(""));
  for (const auto& each : all) end(*each);
  EXPECT_TRUE(bed_->empties());
}

// Without the ids of the hosts, equal addresses of all ports would be those of one host.
TEST_F(Clones, AHostAndItsCloneReachEachOtherOverTheirCables) {
  constexpr const char* kPorts = R"("nics": [{"name": "n0", "address": "10.0.0.1/24"},
                                             {"name": "n1", "address": "10.0.0.2/24"}])";
  open_text(fmt::format(R"({{"name": "clones", "hosts": [
                {{"name": "a", {}}}, {{"name": "b", "clone_of": "a", {}}}],
                "links": [{{"ends": ["a/n0", "b/n1"]}}, {{"ends": ["a/n1", "b/n0"]}}]}})",
                        kPorts, kPorts),
            "all");
  const auto both = talk(0, 1);
  both->exchange(kTalkBytes);
  EXPECT_EQ(path_in_use(*both), "n0:1 10.0.0.1 -> n1:1 10.0.0.2");
  EXPECT_TRUE(log_.warned("peer a: hosts at", 2)) << "of each side";
  end_all(*both);
}

}  // namespace
}  // namespace mesh
