// Rings and tori with several cables for each pair of neighbours, ports in any order and GUIDs of
// any kind: each host reaches every other one, over as few hosts as there are.
#include "tests/unit/soft/shapes.h"
#include "tests/unit/engine/open_bed.h"

#include "engine/data/peer_link.h"
#include "tests/prelude.h"

namespace mesh {
namespace {

using testkit::Guids, testkit::Shape, testkit::Talk;

constexpr std::size_t kBytes = 100'000;

class Shapes : public testkit::OpenBed {
 protected:
  Shapes() : OpenBed(kBytes) {}

  void open(const Shape& shape) { OpenBed::open(testkit::fabric_of(shape)); }

  // Makes a link between all hosts that share a cable, so that they know of one another.
  void link_neighbours() {
    for (std::size_t from = 0; from < bed_->hosts.size(); ++from) {
      for (std::size_t to = 0; to < from; ++to) {
        auto each = talk(from, to);
        if (each->pair.send->link.reach().lazy()) {
          end(*each);
        } else {
          talks_.push_back(std::move(each));
        }
      }
    }
  }
  // Returns the number of hosts on the way of the link's path that is up; 0: it is direct.
  static std::uint32_t hosts_between(const Talk& talk) {
    for (const engine::Path& path : talk.pair.send->link.paths().all()) {
      if (path.health.state == engine::PathState::Up) return path.hosts_between;
    }
    return UINT32_MAX;
  }
  bool comes_over(Talk& talk, std::uint32_t hosts) {
    return bed_->until([&] { return hosts_between(talk) == hosts; });
  }
  void ports(std::size_t host, std::size_t other, bool up) {
    for (const auto& [from, to] : {std::pair(host, other), std::pair(other, host)}) {
      for (const std::string& nic : nics_towards(from, to)) bed_->hosts[from].port(nic, up);
    }
  }
  std::vector<std::string> nics_towards(std::size_t from, std::size_t to) {
    const soft::FabricFile file = soft::parse(fabric_).value();
    std::vector<std::string> names;
    for (const soft::NicSpec& nic : file.hosts[from].nics) {
      soft::NicRef other;
      if (file.other_end(file.hosts[from].name, nic.name, &other) &&
          other.host == static_cast<int>(to))
        names.push_back(nic.name);
    }
    return names;
  }
  void expect_all_reach_all(const Shape& shape) {
    SCOPED_TRACE(testkit::text_of(shape));
    open(shape);
    link_neighbours();
    for (std::size_t from = 0; from < bed_->hosts.size(); ++from) {
      for (std::size_t to = 0; to < bed_->hosts.size(); ++to) {
        if (from == to) continue;
        const auto each = talk(from, to);
        ASSERT_TRUE(each->wakes()) << from << " to " << to << "\n" << log_.joined();
        each->exchange(kBytes);
        end(*each);
      }
    }
    EXPECT_TRUE(log_.warned("", 0));
    end_all();
  }
};

TEST_F(Shapes, ARingOfFourWithEightNicsEach) { expect_all_reach_all({.hosts = 4, .cables = 4}); }

TEST_F(Shapes, RingsWhosePortsAllHaveOneGuidOrNone) {
  for (const Guids guids : {Guids::OfHost, Guids::Zero})
    expect_all_reach_all({.hosts = 4, .cables = 2, .seed = 1, .guids = guids});
}

TEST_F(Shapes, ARingOfFiveWithPortsInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    expect_all_reach_all({.hosts = 5, .cables = 3, .seed = seed});
}

TEST_F(Shapes, ATorusOfThreeTimesThree) {
  expect_all_reach_all({.hosts = 9, .columns = 3, .cables = 2, .seed = 4});
}

// Hosts a, b, c, d, e: from a to c over b, or over e and d.
TEST_F(Shapes, TheWayOverFewerHostsIsTakenAndTakenAgain) {
  open({.hosts = 5, .cables = 2, .seed = 5});
  link_neighbours();
  const auto far = talk(0, 2);
  ASSERT_TRUE(far->wakes()) << log_.joined();
  EXPECT_TRUE(comes_over(*far, 1));
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    ports(0, 1, false);
    far->exchange(kBytes);
    EXPECT_TRUE(comes_over(*far, 2)) << log_.joined();
    ports(0, 1, true);
    EXPECT_TRUE(comes_over(*far, 1)) << log_.joined();
    far->exchange(kBytes);
  }
  bed_->tick_ns = 1'000'000;
  bed_->rounds(30'000);
  EXPECT_EQ(hosts_between(*far), 1u) << "it is not left for a longer one";
  bed_->tick_ns = 10'000;
  end_all(*far);
}

// Each cable that is lost moves the path to other rails of both ends. Live credits hold the keys of
// the rails before; none of them is used.
TEST_F(Shapes, APathThatComesBackOverOtherRailsUsesTheirKeys) {
  open({.hosts = 4, .cables = 4, .seed = 6});
  link_neighbours();
  const auto far = talk(0, 2);
  ASSERT_TRUE(far->wakes()) << log_.joined();
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    const auto open_receive = far->receive({.bytes = kBytes});
    bed_->rounds(200);  // its credit holds the key of the rail in use
    for (const engine::Path& path : far->pair.receive->link.paths().all()) {
      if (path.health.state != engine::PathState::Up) continue;
      names.push_back(path.device->name());
      const soft::Fault fault{.kind = soft::FaultKind::PortDown,
                              .nic = names.back().substr(0, names.back().find(':'))};
      EXPECT_TRUE(bed_->hosts[2].provider->faults().arm(fault).ok());
    }
    const auto sending = far->send({.bytes = kBytes});
    ASSERT_TRUE(sending.ok());
    EXPECT_TRUE(bed_->finish_all({*sending, *open_receive}));
    EXPECT_TRUE(far->holds(0, 0, kBytes));
    far->exchange(kBytes);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end()) << "six rails of c";
  EXPECT_TRUE(log_.warned("remote access", 0));
  end_all(*far);
}

}  // namespace
}  // namespace mesh
