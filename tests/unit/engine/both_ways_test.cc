// NCCL_MESH_BOTH_WAYS: a large message to a neighbour goes in part over the cable between them, and
// in part the other way round a ring.

#include "engine/data/peer_link.h"
#include "tests/prelude.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/engine/open_bed.h"

namespace mesh {
namespace {

using testkit::row, testkit::Talk;

constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kSizes[] = {0, 1, 8, 220, 8192, 65536, 300'000, std::size_t{1} << 20, kBytes};
constexpr int kEnough = 8;  // large messages, after which the other way is open

class BothWays : public testkit::OpenBed {
 protected:
  BothWays() : OpenBed(kBytes) {}

  // Opens a ring of hosts with a channel from each host to the next one, as NCCL's rings have.
  void open(int hosts, int both_ways = 1) { open(row(hosts, true), both_ways); }
  void open(std::string ring, int both_ways = 1) {
    OpenBed::open(std::move(ring), {.rails = "auto", .both_ways = both_ways});
    for (std::size_t i = 0; i < bed_->hosts.size(); ++i)
      talks_.push_back(talk(i, (i + 1) % bed_->hosts.size()));
  }
  static bool both(const Talk& talk) {
    return talk.pair.send->link.paths().usable_count() == 2 &&
           talk.pair.receive->link.paths().usable_count() == 2;
  }
  bool opens(Talk& talk) {
    for (int i = 0; i < kEnough; ++i) talk.exchange(kBytes);
    return bed_->until([&] { return both(talk); });
  }
  bool all_open() {
    bool all = true;
    for (const auto& each : talks_) all = opens(*each) && all;
    return all;
  }
  std::uint64_t sent(std::size_t host, const char* nic) const {
    return bed_->hosts[host].provider->counters(nic).bytes;
  }
  void exchange_all_sizes(Talk& talk) {
    for (const std::size_t bytes : kSizes) talk.exchange(bytes);
  }
};

TEST_F(BothWays, LargeMessagesGoRoundBothWays) {
  for (const int hosts : {3, 4}) {
    SCOPED_TRACE(hosts);
    open(hosts);
    Talk& talk = *talks_[0];
    ASSERT_TRUE(opens(talk)) << log_.joined();
    const std::uint64_t direct = sent(0, "n1"), round = sent(0, "n0");
    for (int i = 0; i < kEnough; ++i) exchange_all_sizes(talk);
    EXPECT_GT(sent(0, "n1") - direct, kBytes * kEnough / 2) << "over the cable between the two";
    EXPECT_GT(sent(0, "n0") - round, kBytes * kEnough / 4) << "the other way round";
    EXPECT_TRUE(log_.warned("", 0));
    end_all();
  }
}

TEST_F(BothWays, SmallMessagesAndCreditsKeepToTheCable) {
  open(3);
  Talk& talk = *talks_[0];
  ASSERT_TRUE(opens(talk)) << log_.joined();
  const std::uint64_t round = sent(0, "n0"), back = sent(1, "n1");
  for (int i = 0; i < 1000; ++i) talk.exchange(8192);
  EXPECT_EQ(sent(0, "n0"), round);
  EXPECT_EQ(sent(1, "n1"), back);
  end_all();
}

TEST_F(BothWays, NothingIsOpenedBeforeMuchWasSentNorWhereOneSideDoesNotWishIt) {
  open(3);
  for (const auto& each : talks_) each->exchange(kBytes);
  bed_->tick_ns = 1'000'000;
  bed_->rounds(1000);
  for (const testkit::BedHost& host : bed_->hosts) EXPECT_FALSE(host.engine->carries_for_others());
  end_all();
  open(3, 0);
  for (int i = 0; i < kEnough; ++i) talks_[0]->exchange(kBytes);
  bed_->tick_ns = 1'000'000;
  bed_->rounds(1000);
  EXPECT_EQ(talks_[0]->pair.send->link.paths().primary_count(), 1u);
  EXPECT_EQ(talks_[0]->pair.send->link.paths().usable_count(), 1u);
  end_all();
}

// Returns a ring of three in which the NICs of one host share a slot.
std::string ring_with_slot(char host, int gbps) {
  std::string ring = row(3, true);
  const std::string begin = fmt::format(R"("name":"{}",)", host);
  const std::size_t at = ring.find(begin) + begin.size();
  const std::size_t end = ring.find("]}", at);
  std::string nics = ring.substr(at, end - at);
  for (std::size_t nic = 0; (nic = nics.find(R"("address")", nic)) != std::string::npos; nic += 24)
    nics.insert(nic, R"("slot":"x4",)");
  return ring.replace(at, end - at,
                      fmt::format(R"("slots":[{{"name":"x4","gbps":{}}}],{})", gbps, nics));
}

// Two ports of 100 Gb/s: the slot of either end, and that of the host between.
TEST_F(BothWays, NothingIsOpenedWhereASlotHasNoRoom) {
  const char* const kSays =
      "NCCL_MESH_BOTH_WAYS=1 has no effect on this host: PCIe slot x4 carries 199 Gb/s each way, "
      "and its ports 200";
  int said = 0;
  for (const char host : {'a', 'b', 'c'}) {
    SCOPED_TRACE(host);
    open(ring_with_slot(host, 199));
    EXPECT_EQ(log_.count(LogLevel::Info, kSays), ++said);
    Talk& talk = *talks_[0];
    for (int i = 0; i < kEnough; ++i) talk.exchange(kBytes);
    bed_->tick_ns = 1'000'000;
    bed_->rounds(1000);
    EXPECT_EQ(talk.pair.send->link.paths().usable_count(), 1u);
    for (const testkit::BedHost& each : bed_->hosts)
      EXPECT_FALSE(each.engine->carries_for_others());
    end_all();
    open(ring_with_slot(host, 200));
    EXPECT_TRUE(opens(*talks_[0])) << log_.joined();
    end_all();
  }
}

TEST_F(BothWays, AllNeighboursAtOnce) {
  open(3);
  ASSERT_TRUE(all_open()) << log_.joined();
  for (int round = 0; round < 10; ++round) {
    std::vector<Request*> requests;
    for (const auto& each : talks_) {
      const Talk::Part part{.bytes = kBytes - static_cast<std::size_t>(round)};
      requests.push_back(each->receive(part).value());
      requests.push_back(each->send(part).value());
    }
    for (Request* const request : requests) EXPECT_TRUE(bed_->finish(request).ok());
    for (const auto& each : talks_) EXPECT_TRUE(each->holds(0, 0, kBytes - 10));
  }
  EXPECT_TRUE(log_.warned("", 0));
  end_all();
}

TEST_F(BothWays, MoreThanTwoHostsOnTheWayAreLeftInPeace) {
  open(5);
  Talk& talk = *talks_[0];
  for (int i = 0; i < kEnough; ++i) talk.exchange(kBytes);
  bed_->tick_ns = 1'000'000;
  bed_->rounds(30'000);
  EXPECT_EQ(talk.pair.send->link.paths().usable_count(), 1u);
  EXPECT_TRUE(talk.pair.send->link.paths().all_up()) << "it rests, and is not missed";
  for (const testkit::BedHost& host : bed_->hosts) EXPECT_FALSE(host.engine->carries_for_others());
  bed_->tick_ns = 10'000;
  for (const std::size_t bytes : kSizes) talk.exchange(bytes);
  EXPECT_TRUE(log_.warned("", 0));
  end_all();
}

TEST_F(BothWays, MoreThanTwoHostsOnTheWayCarryTheLinkWhereItsCableIsLost) {
  open(5);
  Talk& talk = *talks_[0];
  for (int i = 0; i < kEnough; ++i) talk.exchange(kBytes);
  port(0, "n1", false), port(1, "n0", false);
  exchange_all_sizes(talk);
  EXPECT_TRUE(log_.said(LogLevel::Detail, "over hosts e and d and c carries", 2));
  port(0, "n1", true), port(1, "n0", true);
  const std::uint64_t before = sent(0, "n1");
  bed_->tick_ns = 1'000'000;
  ASSERT_TRUE(bed_->until([&] { return both(talk); })) << log_.joined();
  bed_->tick_ns = 10'000;
  exchange_all_sizes(talk);
  EXPECT_GT(sent(0, "n1") - before, kBytes / 2) << "its own cable carries again";
  end_all();
}

// Either way may be lost. The remaining one carries its part, and the lost one comes back.
TEST_F(BothWays, TheOtherWayCarriesAloneWhileOneIsLost) {
  open(4);
  ASSERT_TRUE(all_open()) << log_.joined();
  Talk& talk = *talks_[0];
  struct Cable {
    std::size_t host;
    std::size_t next;
  };
  for (const Cable cable : {Cable{0, 1}, Cable{2, 3}}) {
    SCOPED_TRACE(cable.host);
    Request* const receive = talk.receive({.bytes = kBytes}).value();
    Request* const send = talk.send({.bytes = kBytes}).value();
    bed_->rounds(3);
    port(cable.host, "n1", false), port(cable.next, "n0", false);
    EXPECT_TRUE(bed_->finish_all({receive, send})) << log_.joined();
    EXPECT_TRUE(talk.holds(0, 0, kBytes));
    EXPECT_EQ(talk.pair.send->link.paths().usable_count(), 1u);
    exchange_all_sizes(talk);
    port(cable.host, "n1", true), port(cable.next, "n0", true);
    bed_->tick_ns = 1'000'000;
    ASSERT_TRUE(bed_->until([&] { return both(talk); })) << log_.joined();
    bed_->tick_ns = 10'000;
    exchange_all_sizes(talk);
  }
  end_all();
}

// A cable of the way round is cut. Both sides go on without that way, and it comes back.
TEST_F(BothWays, TheOtherWayRestsOnBothSidesWhileThereIsNone) {
  open(4);
  ASSERT_TRUE(all_open()) << log_.joined();
  Talk& talk = *talks_[0];
  const auto rests = [&talk] {
    return talk.pair.send->link.paths().all_up() && talk.pair.receive->link.paths().all_up() &&
           talk.pair.send->link.paths().usable_count() == 1;
  };
  port(2, "n1", false), port(3, "n0", false);
  bed_->tick_ns = 1'000'000;
  ASSERT_TRUE(bed_->until(rests)) << log_.joined();
  exchange_all_sizes(talk);
  port(2, "n1", true), port(3, "n0", true);
  ASSERT_TRUE(bed_->until([&] { return both(talk); })) << log_.joined();
  bed_->tick_ns = 10'000;
  exchange_all_sizes(talk);
  end_all();
}

}  // namespace
}  // namespace mesh
