// Events that devices report reach the control pass, and its log lines name the rail.

#include "engine/data/peer_link.h"
#include "tests/device_memory/device_memory.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;
const soft::Fault kSecondPortDown{.kind = soft::FaultKind::PortDown, .nic = "n1"};

class PortEvents : public testing::Test {
 protected:
  explicit PortEvents(const testkit::BedOptions& options = {.fabric = testkit::kHalves})
      : bed_(options) {
    set_log_level(LogLevel::Info);
  }

  // Lets the time pass in at most 1,000 rounds; later rounds take 1 ms.
  void pass_ms(std::uint64_t ms) {
    constexpr std::uint64_t kRoundsMax = 1'000;
    const std::uint64_t round_ms = std::max<std::uint64_t>(1, ms / kRoundsMax);
    bed_.tick_ns = round_ms * 1'000'000;
    bed_.rounds(static_cast<int>(ms / round_ms));
    bed_.tick_ns = 1'000'000;
  }
  // Sends a message, which a fault at these hosts meets before the NIC has taken a byte.
  void send_into(const soft::Fault& fault, const std::vector<std::size_t>& hosts, Talk& talk) {
    std::fill(talk.target.begin(), talk.target.end(), std::byte{0xa5});
    const auto receiving = talk.receive({.bytes = kBytes});
    bed_.rounds(2);  // its credit has arrived
    const auto sending = talk.send({.bytes = kBytes});
    const std::uint64_t began_ns = bed_.now_ns();
    for (const std::size_t host : hosts) bed_.hosts[host].fault(fault);
    ASSERT_TRUE(bed_.finish_all({*sending, *receiving}));
    EXPECT_TRUE(talk.holds(0, 0, kBytes));
    EXPECT_LT(bed_.now_ns() - began_ns, 50'000'000u) << "the retries alone would take 1.9 s";
  }
  bool back_on_both(const LogCapture& log) {
    return bed_.until([&] { return log.count(LogLevel::Info, "is back after") == 2; });
  }
  void expect_a_share_of_n1(Talk& talk) {
    const std::uint64_t before = bed_.hosts[0].provider->counters("n1").bytes;
    talk.exchange(kBytes);
    EXPECT_GE(bed_.hosts[0].provider->counters("n1").bytes - before, kBytes / 4);
  }

  static constexpr std::size_t kBytes = 4 << 20;
  Bed bed_;
};

TEST_F(PortEvents, APortThatGoesDownAndUpIsSaidOfItsRailOnly) {
  const LogCapture log;
  bed_.hosts[0].fault(kSecondPortDown);
  bed_.rounds(10);
  EXPECT_TRUE(log.said(LogLevel::Info, "rail 1 n1:1: its port is down"));
  bed_.hosts[0].fault(kSecondPortDown, false);
  bed_.rounds(10);
  EXPECT_TRUE(log.said(LogLevel::Info, "rail 1 n1:1: its port is up"));
  EXPECT_TRUE(log.said(LogLevel::Info, "its port is", 2));
  EXPECT_EQ(bed_.hosts[0].engine->snapshot().rails.at(0).port_downs, 0u);
  EXPECT_EQ(bed_.hosts[0].engine->snapshot().rails.at(1).port_downs, 1u);
}

TEST_F(PortEvents, APulledCableCostsNoRetriesAndIsUsedAgainWhenItIsBack) {
  Talk talk(bed_, kA, kB, kBytes);
  talk.exchange(kBytes);
  const LogCapture log;
  send_into(kSecondPortDown, {0, 1}, talk);
  EXPECT_GE(log.count(LogLevel::Warn, "is lost: our port is down; 1 of 2 paths carry on"), 1)
      << log.joined();
  EXPECT_TRUE(log.warned("1 of 2 paths carry on", 2));
  bed_.tick_ns = 100'000;
  bed_.rounds(20'000);  // two seconds with many failed tries
  for (testkit::BedHost& host : bed_.hosts) host.fault(kSecondPortDown, false);
  const std::uint64_t lifted_ns = bed_.now_ns();
  ASSERT_TRUE(back_on_both(log)) << log.joined();
  EXPECT_LT(bed_.now_ns() - lifted_ns, 3'000'000'000u);
  expect_a_share_of_n1(talk);
}

// The ends of a real cable come up some time apart: the later end, and nothing else, ends the wait.
// Prints a row for each case.
TEST_F(PortEvents, ACableIsUsedAgainSoonAfterItsLaterEnd) {
  constexpr std::size_t kBytes = 64 << 10;
  Talk talk(bed_, kA, kB, kBytes);
  talk.exchange(kBytes);
  std::printf("cable: | later end | ms later | ms cut | ms until it is used again |\n");
  for (const std::uint64_t down_ms : {100u, 3'000u, 20'000u, 60'000u}) {
    for (const std::uint64_t apart_ms : {0u, 1u, 50u, 250u, 2'000u}) {
      for (const std::size_t first : {0u, 1u}) {
        SCOPED_TRACE("down " + std::to_string(down_ms) + " ms, host " + std::to_string(first) +
                     " first, " + std::to_string(apart_ms) + " ms apart");
        const LogCapture log;
        for (testkit::BedHost& host : bed_.hosts) host.fault(kSecondPortDown);
        pass_ms(down_ms);
        bed_.hosts[first].fault(kSecondPortDown, false);
        pass_ms(apart_ms);
        bed_.hosts[1 - first].fault(kSecondPortDown, false);
        const std::uint64_t both_ns = bed_.now_ns();
        ASSERT_TRUE(back_on_both(log)) << log.joined();
        const std::uint64_t back_ns = bed_.now_ns() - both_ns;
        EXPECT_LE(back_ns, 300'000'000u) << log.joined();
        std::printf("cable: | %s | %4u | %5u | %3u |\n", first == 0 ? "b" : "a",
                    static_cast<unsigned>(apart_ms), static_cast<unsigned>(down_ms),
                    static_cast<unsigned>(back_ns / 1'000'000));
        talk.exchange(kBytes);
        pass_ms(11'000);  // a later loss is a new trouble
      }
    }
  }
}

constexpr const char* kWithPlaces = R"({"name": "places",
  "hosts": [{"name": "a", "nics": [
              {"name": "n0", "address": "10.0.1.1/24",
               "pci": "/sys/devices/pci0000:00/0000:01:00.0"},
              {"name": "n1", "address": "10.0.2.1/24",
               "pci": "/sys/devices/pci0000:00/0000:02:00.0"}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/24"},
                                   {"name": "n1", "address": "10.0.2.2/24"}]}],
  "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})";

class PortEventsOfCards : public PortEvents {
 protected:
  PortEventsOfCards() : PortEvents({.fabric = kWithPlaces, .stall_seconds = 2}) {}
  void take_card(const char* nic) {
    bed_.hosts[0].fault({.kind = soft::FaultKind::CardLeft, .nic = nic});
    bed_.hosts[1].port(nic, false);
  }
};

TEST_F(PortEventsOfCards, ACardThatLeavesIsNotTakenForAPortThatIsDown) {
  Talk talk(bed_, kA, kB, kBytes);
  talk.exchange(kBytes);
  const LogCapture log;
  take_card("n1");
  bed_.rounds(10);
  EXPECT_TRUE(log.warned("rail 1: the card left: rail n1:1, PCI 0000:02:00.0"));
  EXPECT_TRUE(
      log.warned("is lost: the card left: rail n1:1, PCI 0000:02:00.0; 1 of 2 paths carry on"));
  EXPECT_TRUE(log.warned("is lost: our port is down"))
      << "which is what the other end of the cable sees";
  talk.exchange(kBytes);
}

TEST_F(PortEventsOfCards, WhatWaitsForTheCardSaysSo) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  take_card("n0");
  take_card("n1");
  const auto sending = talk.send({.bytes = 4096});
  const LogCapture log;
  bed_.tick_ns = 10'000'000;
  const char* const line =
      "waits for a path: none is up; n0:1 -> n0:1: the card left: rail n0:1, PCI 0000:01:00.0";
  EXPECT_TRUE(bed_.until([&] { return log.count(LogLevel::Warn, line) != 0; })) << log.joined();
  static_cast<void>(sending);
}

constexpr const char* kInfiniBand = R"({"name": "ib",
  "hosts": [{"name": "a", "nics": [
              {"name": "n0", "layer": "infiniband", "address": "fec0:0:0:1::a/64"},
              {"name": "n1", "layer": "infiniband", "address": "fec0:0:0:2::a/64"}]},
            {"name": "b", "nics": [
              {"name": "n0", "layer": "infiniband", "address": "fec0:0:0:1::b/64",
               "device_memory": "both"},
              {"name": "n1", "layer": "infiniband", "address": "fec0:0:0:2::b/64",
               "device_memory": "both"}]}],
  "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})";
const soft::Fault kSecondLidChanges{.kind = soft::FaultKind::LidChange, .nic = "n1"};

class PortEventsInfiniBand : public PortEvents {
 protected:
  PortEventsInfiniBand() : PortEvents({.fabric = kInfiniBand}) {}
};

TEST_F(PortEventsInfiniBand, ANewLidCostsNoRetriesAndThePeerIsToldIt) {
  Talk talk(bed_, kA, kB, kBytes);
  talk.exchange(kBytes);
  const LogCapture log;
  send_into(kSecondLidChanges, {1}, talk);
  EXPECT_TRUE(log.said(LogLevel::Info, "rail 1 n1:1: the LID of its port is 4098"));
  EXPECT_GE(log.count(LogLevel::Warn, "is lost: our port has another LID"), 1) << log.joined();
  bed_.tick_ns = 100'000;
  ASSERT_TRUE(back_on_both(log)) << log.joined();
  expect_a_share_of_n1(talk);
}

// The queue pair that flushes GPU memory is connected to its own port, so it uses the LID.
TEST_F(PortEventsInfiniBand, ANewLidDoesNotEndALinkWithDeviceMemory) {
  Talk talk(bed_, kA, kB, 4096);
  testkit::DeviceMemory device(4096);
  const UniqueFd buffer = device.export_buffer();
  const MemoryRange range{device.address(), 4096, MemoryType::Device, buffer.get()};
  Registration* const target = register_memory(*talk.pair.receive, range).value();
  talk.exchange(4096);
  const LogCapture log;
  bed_.hosts[1].fault(kSecondLidChanges);
  bed_.tick_ns = 1'000'000;
  ASSERT_TRUE(back_on_both(log)) << log.joined();
  EXPECT_EQ(talk.pair.receive->link.failure(), Errc::Ok) << log.joined();
  talk.exchange(4096);
  deregister_memory(*talk.pair.receive, target);
}

TEST_F(PortEventsInfiniBand, ALidThatIsStillTheSameCostsNothing) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  const LogCapture log;
  bed_.hosts[1].fault(kSecondLidChanges);
  bed_.hosts[1].fault(kSecondLidChanges, false);
  bed_.rounds(10);
  EXPECT_TRUE(log.said(LogLevel::Info, "the LID of its port is 2", 2));
  EXPECT_TRUE(log.warned("is lost", 0));
  talk.exchange(4096);
}

TEST_F(PortEvents, AQueuePairThatFailsIsSaidWithItsNumber) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  const LogCapture log;
  EXPECT_EQ(bed_.hosts[0].provider->fail_queue_pairs("n1", 0), 1u);
  bed_.rounds(10);
  EXPECT_TRUE(log.said(LogLevel::Info, "rail 1 n1:1: queue pair 0x"));
}

TEST_F(PortEvents, AnEngineThatEndsLeavesNothingToHear) {
  bed_.close_context(kA);
  bed_.hosts[0].engine.reset();
  bed_.hosts[0].fault(kSecondPortDown);
}

}  // namespace
}  // namespace mesh
