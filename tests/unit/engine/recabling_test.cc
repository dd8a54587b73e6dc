// Cables of one subnet that are not where they were, or not up, when the hosts shook hands.
#include "tests/unit/engine/one_subnet.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Talk, testkit::kTalkBytes, testkit::kTwoCables;

constexpr const char* kLastTwoCrossed =
    R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n2"]}, {"ends": ["a/n2", "b/n1"]})";
// a is the middle.
constexpr const char* kStar = R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "c/n0"]})";

class Recabling : public testkit::OneSubnet {};

TEST_F(Recabling, MessagesGoOverCablesThatHaveMoved) {
  for (const char* const rails : {"all", "auto"}) {
    SCOPED_TRACE(rails);
    open({2, 2}, kTwoCables, rails);
    const auto both = talk(0, 1);
    both->exchange(kTalkBytes);
    for (int i = 0; i < 3; ++i) {
      ports_of_both({0, 1}, false);
      for (testkit::BedHost& host : bed_->hosts) host.provider->swap_plugs({1, 0}, {1, 1});
      bed_->rounds(1000);
      ports_of_both({0, 1}, true);
      both->exchange(kTalkBytes);
      const std::string path = path_in_use(*both);
      const bool crossed = path.find("n0:1") == path.rfind("n0:1");
      EXPECT_TRUE(path != "none" && crossed == (i % 2 == 0)) << path << "\n" << log_.joined();
    }
    end(*both);
    EXPECT_TRUE(bed_->empties());
  }
}

// The second connect finds the link of the first one, whatever the cables do between the two.
TEST_F(Recabling, AConnectAfterCablesHaveMovedUsesTheLinkThatIsThere) {
  for (const char* const rails : {"all", "auto"}) {
    SCOPED_TRACE(rails);
    open({2, 2}, kTwoCables, rails);
    const auto first = talk(0, 1);
    first->exchange(kTalkBytes);
    ports_of_both({0, 1}, false);
    for (testkit::BedHost& host : bed_->hosts) host.provider->swap_plugs({1, 0}, {1, 1});
    bed_->rounds(1000);
    ports_of_both({0, 1}, true);
    const auto second = talk(0, 1);
    EXPECT_EQ(&second->pair.send->link, &first->pair.send->link);
    EXPECT_EQ(bed_->stats(0).links, 1u) << log_.joined();
    second->exchange(kTalkBytes);
    first->exchange(kTalkBytes);
    end(*second);
    end(*first);
    EXPECT_TRUE(bed_->empties());
  }
}

// NCCL names the other device at the second connect. Its link is a second one, over the cable that
// leads from that device now, and a line names it.
TEST_F(Recabling, AConnectByTheOtherDeviceAfterCablesHaveMovedIsToldInALine) {
  open({2, 2}, kTwoCables, "auto");
  const auto first = talk(0, 1);
  first->exchange(kTalkBytes);
  ports_of_both({0, 1}, false);
  for (testkit::BedHost& host : bed_->hosts) host.provider->swap_plugs({1, 0}, {1, 1});
  bed_->rounds(1000);
  ports_of_both({0, 1}, true);
  const testkit::Devices devices{.connects = 1, .listens = 0};
  Talk second(*bed_, bed_->connect({0, 0}, {1, 0}, devices), kTalkBytes);
  Talk third(*bed_, bed_->connect({0, 0}, {1, 0}, devices), kTalkBytes);
  EXPECT_NE(&second.pair.send->link, &first->pair.send->link);
  EXPECT_EQ(&third.pair.send->link, &second.pair.send->link) << "by its own WELCOME";
  EXPECT_EQ(path_in_use(second), "n1:1 10.0.0.2 -> n0:1 10.0.0.3");
  EXPECT_TRUE(log_.said(LogLevel::Info, "peer b: n1:1 10.0.0.2 -> n0:1 10.0.0.3"));
  for (Talk* const each : {first.get(), &second, &third}) each->exchange(kTalkBytes);
  for (Talk* const each : {&third, &second, first.get()}) end(*each);
  EXPECT_TRUE(bed_->empties());
}

// Their places say n1 to n1, and n2 to n2.
TEST_F(Recabling, ACableWhosePortsWereDownCarriesWhenTheyAreUp) {
  open({3, 3}, kLastTwoCrossed);
  ports_of_both({1, 2}, false);
  const auto both = talk(0, 1);
  both->exchange(kTalkBytes);
  ports_of_both({1, 2}, true);
  bed_->rounds(20'000);
  ports_of_both({0}, false);
  both->exchange(kTalkBytes);
  EXPECT_TRUE(path_in_use(*both) == "n1:1 10.0.0.2 -> n2:1 10.0.0.6" ||
              path_in_use(*both) == "n2:1 10.0.0.3 -> n1:1 10.0.0.5")
      << path_in_use(*both) << "\n"
      << log_.joined();
  end_all(*both);
}

// Places of ports would fill all eight paths of the link, and all but one of these are no cables.
TEST_F(Recabling, OfEightCablesOneCarriesWhoseEndsArePortsOfOtherPlaces) {
  std::string links = R"({"ends": ["a/n0", "b/n0"]})";
  for (int i = 1; i < 8; ++i)
    links += fmt::format(R"(, {{"ends": ["a/n{}", "b/n{}"]}})", i, 1 + i % 7);
  open({8, 8}, links.c_str());
  const std::vector<int> others{1, 2, 3, 4, 5, 6, 7};
  ports_of_both(others, false);
  const auto both = talk(0, 1);
  both->exchange(kTalkBytes);
  ports_of_both(others, true);
  bed_->rounds(20'000);
  ports_of_both({0}, false);
  both->exchange(kTalkBytes);
  const std::string path = path_in_use(*both);
  EXPECT_TRUE(path != "none" && path.find("n0:1") == std::string::npos) << path << "\n"
                                                                        << log_.joined();
  end_all(*both);
}

// All ports are down for 20 ms while b asks, and then its first two plugs have changed places.
TEST_F(Recabling, CablesThatMoveWhileTheHostsShakeHandsAreAllUsed) {
  open({3, 3}, kLastTwoCrossed);
  int rounds = 0;
  bed_->each_round = [&] {
    ++rounds;
    if (rounds == 300) {
      ports_of_both({0, 1, 2}, false);
      for (testkit::BedHost& host : bed_->hosts) host.provider->swap_plugs({1, 0}, {1, 1});
    }
    if (rounds == 500) ports_of_both({0, 1, 2}, true);
  };
  const auto both = talk(0, 1);
  EXPECT_GT(rounds, 500) << "b has asked while they moved";
  both->exchange(kTalkBytes);
  std::vector<std::string> up;
  for (const engine::Path& path : both->pair.send->link.paths().all())
    if (path.health.state == engine::PathState::Up) up.push_back(path.name);
  EXPECT_EQ(up, (std::vector<std::string>{"n0:1 10.0.0.1 -> n1:1 10.0.0.5",
                                          "n1:1 10.0.0.2 -> n2:1 10.0.0.6",
                                          "n2:1 10.0.0.3 -> n0:1 10.0.0.4"}))
      << log_.joined();
  EXPECT_TRUE(log_.warned("", 0));
  end_all(*both);
}

TEST_F(Recabling, WhereAddressesLeaveNoDoubtALinkHasItsCablesAlone) {
  bed_ = std::make_unique<Bed>(testkit::BedOptions{.fabric = testkit::kThreeCables});
  const auto both = talk(0, 1);
  EXPECT_EQ(both->pair.send->link.paths().count(), 3u);
  end(*both);
}

// Each leaf has one port, and takes the other's address for a neighbour's.
TEST_F(Recabling, LeavesOfAStarInOneSubnetTalkOverItsMiddle) {
  open({2, 1, 1}, kStar, "auto");
  const auto one = talk(0, 1), other = talk(0, 2);
  const auto leaves = talk(1, 2);
  leaves->exchange(kTalkBytes);
  EXPECT_TRUE(bed_->hosts[0].engine->carries_for_others()) << log_.joined();
  EXPECT_TRUE(log_.warned("", 0));
  for (Talk* const each : {leaves.get(), one.get(), other.get()}) end(*each);
  EXPECT_TRUE(bed_->empties());
}

}  // namespace
}  // namespace mesh
