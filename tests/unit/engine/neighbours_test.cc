// Hosts that no rail joins, and that nobody has a link with: the first message finds those between
// by a question over the cables.

#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/open_bed.h"

#include "engine/data/peer_link.h"
#include "src/base/clock.h"
#include "src/base/timeouts.h"

namespace mesh {
namespace {

using testkit::row, testkit::Talk;

constexpr std::size_t kBeyondBytes = 100'000;
constexpr std::uint64_t kBeyondTickNs = 100'000;

// Host a in the middle of a star with `leaves` cables, each a subnet of its own.
std::string star(int leaves) {
  std::string nics, hosts, links;
  for (int leaf = 1; leaf <= leaves; ++leaf) {
    const char* const comma = leaf == 1 ? "" : ", ";
    nics += fmt::format(R"({}{{"name": "n{}", "address": "10.0.{}.1/24"}})", comma, leaf, leaf);
    hosts +=
        fmt::format(R"(, {{"name": "{}", "nics": [{{"name": "n0", "address": "10.0.{}.2/24"}}]}})",
                    static_cast<char>('a' + leaf), leaf);
    links += fmt::format(R"({}{{"ends": ["a/n{}", "{}/n0"]}})", comma, leaf,
                         static_cast<char>('a' + leaf));
  }
  return fmt::format(
      R"({{"name": "star", "hosts": [{{"name": "a", "nics": [{}]}}{}], "links": [{}]}})", nics,
      hosts, links);
}

class NeighboursBed : public testkit::OpenBed {
 protected:
  NeighboursBed() : OpenBed(kBeyondBytes, kBeyondTickNs) {}

  void open(const std::string& fabric, const std::string& job) {
    OpenBed::open(fabric, {.rails = "auto", .job = job});
  }
  void carries(Talk& talk) {
    ASSERT_TRUE(talk.wakes()) << log_.joined();
    talk.exchange(8);
    talk.exchange(kBeyondBytes);
  }
  // Returns the time that a message waits before it fails.
  std::uint64_t fails_after(Talk& talk) {
    const std::uint64_t from_ns = bed_->now_ns();
    EXPECT_FALSE(talk.wakes());
    return bed_->now_ns() - from_ns;
  }
  NeighbourCounts counts(std::size_t host) {
    return bed_->hosts[host].engine->snapshot().neighbours;
  }
};

TEST_F(NeighboursBed, GroupsOfHostsThatAreNotNeighboursAreTheFirstOfTheJob) {
  open(row(4, true), "a secret");
  const auto even = talk(0, 2), odd = talk(1, 3);
  carries(*even);
  carries(*odd);
  EXPECT_TRUE(log_.warned("", 0));
  EXPECT_GE(counts(0).asked, 2u) << "over each of its ports";
  EXPECT_GE(counts(0).taken, 1u);
  EXPECT_GE(counts(1).answered + counts(3).answered, 1u);
  EXPECT_EQ(counts(1).malformed + counts(1).foreign + counts(1).excess, 0u);
  end(*even);
  end_all(*odd);
}

TEST_F(NeighboursBed, LeavesOfAStarFindItsHub) {
  open(star(4), "a secret");
  const auto leaves = talk(1, 2);
  carries(*leaves);
  end(*leaves);
}

TEST_F(NeighboursBed, HostsOnTheWayAskTheirOwnNeighbours) {
  for (const std::size_t hosts : {5u, 6u, 8u}) {
    SCOPED_TRACE(hosts);
    open(row(static_cast<int>(hosts), true), "a secret");
    const auto far = talk(0, hosts / 2);
    carries(*far);
    end(*far);
  }
}

// Each host on the way tells of the next one at once: neither a try without a route, nor a question
// to a host, nor the path over more hosts waits for its pause.
TEST_F(NeighboursBed, NewsOfHostsEndsThePauseBeforeTheNextTry) {
  for (const std::size_t to : {2u, 3u, 4u}) {
    SCOPED_TRACE(to);
    open(row(12, true), "a secret");
    const auto far = talk(0, to);
    const std::uint64_t from_ns = bed_->now_ns();
    ASSERT_TRUE(far->wakes()) << log_.joined();
    EXPECT_LT(bed_->now_ns() - from_ns, kTryPauseMinNs);
    end(*far);
  }
}

TEST_F(NeighboursBed, AlsoWhereAddressesDoNotTellTheCablesApart) {
  std::string fabric = row(4, true);
  for (std::size_t at = fabric.find("10.0."); at != std::string::npos;
       at = fabric.find("10.0.", at + 1)) {
    const std::size_t subnet = at + 5, dot = fabric.find('.', subnet);
    const std::size_t slash = fabric.find('/', dot);
    const int number = std::stoi(fabric.substr(subnet, dot - subnet));
    const int host = std::stoi(fabric.substr(dot + 1, slash - dot - 1));
    fabric.replace(subnet, slash - subnet, fmt::format("0.{}", 16 * number + host));
  }
  open(fabric, "a secret");
  const auto even = talk(0, 2), odd = talk(1, 3);
  carries(*even);
  carries(*odd);
  end(*even);
  end(*odd);
}

TEST_F(NeighboursBed, NothingIsAskedWhereThereIsARoute) {
  open(row(4, true), "a secret");
  const auto first = talk(0, 1), second = talk(1, 2), far = talk(0, 2);
  carries(*far);
  EXPECT_TRUE(log_.said(LogLevel::Info, "may carry messages for us", 0));
  EXPECT_EQ(counts(0).asked, 0u);
  for (const auto& each : {&first, &second, &far}) end(**each);
}

TEST_F(NeighboursBed, WithoutASecretTheLineNamesTheCures) {
  open(row(4, true), "");
  const auto even = talk(0, 2);
  EXPECT_LT(fails_after(*even), kStallToNoRouteNs + kNsPerSecond);
  EXPECT_TRUE(log_.warned("peer c: no path leads to it; set NCCL_MESH_JOB alike on all hosts"));
  end(*even);
}

TEST_F(NeighboursBed, WhereNobodyAnswersTheLineSaysWhatMustBeThere) {
  open(row(4, true), "a secret");
  bed_->tick_ns = kNsPerMs;
  for (const std::size_t host : {1u, 3u}) bed_->hosts[host].close();
  const auto even = talk(0, 2);
  EXPECT_GE(fails_after(*even), kStallToNobodyNs - kNsPerSecond);
  EXPECT_TRUE(log_.warned("no neighbour answered", 2));
  EXPECT_TRUE(log_.warned("start the job on the hosts between, too", 2));
  end(*even);
}

// The processes of b and d begin three seconds after the first message.
TEST_F(NeighboursBed, AHostThatBeginsLateIsFound) {
  open(row(4, true), "a secret");
  for (const std::size_t host : {1u, 3u}) bed_->hosts[host].control_stands = true;
  const auto even = talk(0, 2);
  const std::uint64_t late_ns = bed_->now_ns() + 3 * kNsPerSecond;
  bed_->each_round = [&] {
    if (bed_->now_ns() < late_ns) return;
    for (const std::size_t host : {1u, 3u}) bed_->hosts[host].control_stands = false;
  };
  carries(*even);
  bed_->each_round = {};
  end(*even);
}

}  // namespace
}  // namespace mesh
