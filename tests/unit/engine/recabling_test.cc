// Cables of one subnet that are not where they were, or not up, when the hosts shook hands.
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

#include "engine/data/peer_link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mesh {
namespace {

using testkit::Bed, testkit::Seat, testkit::Talk, testkit::LogCapture;

constexpr std::size_t kTalkBytes = 100'000;

// Returns a fabric of hosts a, b, ... with so many ports each, all in one subnet.
std::string fabric_of(const std::vector<int>& ports, const std::string& links) {
  std::vector<std::string> hosts;
  int address = 0;
  for (std::size_t host = 0; host < ports.size(); ++host) {
    std::vector<std::string> nics;
    nics.reserve(static_cast<std::size_t>(ports[host]));
    for (int port = 0; port < ports[host]; ++port)
      nics.push_back(
          fmt::format(R"({{"name": "n{}", "address": "10.0.0.{}/24"}})", port, ++address));
    hosts.push_back(fmt::format(R"({{"name": "{:c}", "nics": [{}]}})", 'a' + static_cast<int>(host),
                                fmt::join(nics, ", ")));
  }
  return fmt::format(R"({{"name": "one-subnet", "hosts": [{}], "links": [{}]}})",
                     fmt::join(hosts, ", "), links);
}

constexpr const char* kTwoCables = R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]})";
constexpr const char* kLastTwoCrossed =
    R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n2"]}, {"ends": ["a/n2", "b/n1"]})";
// a is the middle.
constexpr const char* kStar = R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "c/n0"]})";

class Recabling : public testing::Test {
 protected:
  void open(const std::vector<int>& ports, const char* links, const char* rails = "all") {
    fabric_ = fabric_of(ports, links);
    bed_ = std::make_unique<Bed>(
        testkit::BedOptions{.fabric = fabric_.c_str(), .path_timeout_s = 8, .rails = rails});
    bed_->tick_ns = 100'000;
    set_log_level(LogLevel::Info);
  }
  std::unique_ptr<Talk> talk(std::size_t from, std::size_t to) {
    return std::make_unique<Talk>(*bed_, Seat{from, 0}, Seat{to, 0}, kTalkBytes);
  }
  void port(std::size_t host, int nic, bool up) {
    const soft::Fault fault{.kind = soft::FaultKind::PortDown, .nic = fmt::format("n{}", nic)};
    soft::FaultPlan& faults = bed_->hosts[host].provider->faults();
    if (up) return faults.lift(fault);
    EXPECT_TRUE(faults.arm(fault).ok());
  }
  void ports_of_both(const std::vector<int>& nics, bool up) {
    for (const std::size_t host : {0u, 1u})
      for (const int nic : nics) port(host, nic, up);
  }
  // Names the path of the link that is up.
  static std::string path_in_use(const Talk& talk) {
    for (const engine::Path& path : talk.pair.send->link.paths().all())
      if (path.health.state == engine::PathState::Up) return path.name;
    return "none";
  }
  void end(Talk& talk) { talk.release(), talk.close_both(); }

  LogCapture log_;
  std::string fabric_;
  std::unique_ptr<Bed> bed_;
};

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
  end(*both);
  EXPECT_TRUE(bed_->empties());
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
  for (Talk* const each : {leaves.get(), one.get(), other.get()}) end(*each);
  EXPECT_TRUE(bed_->empties());
}

}  // namespace
}  // namespace mesh
