// The rails that carry a connection of NCCL's, by the device that it names at connect and the one
// that its peer named at listen.

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/cables.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::bytes_by_cable, testkit::cables, testkit::kA, testkit::kB,
    testkit::Talk;

// Connects each of four devices to a listener on each of four, waits for all channels, and returns
// the number of links.
std::uint64_t links_of_sixteen(Bed& bed) {
  struct Under {
    HandleBytes handle{};
    Listener* listener = nullptr;
    int device = 0;
    testkit::Pair pair;
  };
  std::vector<Under> all(16);
  const auto connect = [&bed](Under& each) {
    return bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], each.device, each.handle);
  };
  for (int i = 0; i < 16; ++i) {
    Under& each = all[static_cast<std::size_t>(i)];
    each.device = i / 4;
    each.listener =
        bed.hosts[1].engine->listen(*bed.hosts[1].contexts[0], i % 4, each.handle).value();
    EXPECT_EQ(connect(each).code(), Errc::WouldBlock);
  }
  EXPECT_TRUE(bed.until([&] {
    bool done = true;
    for (Under& each : all) {
      if (each.pair.send == nullptr) each.pair.send = connect(each).value();
      if (each.pair.receive == nullptr)
        each.pair.receive = bed.hosts[1].engine->accept(*each.listener).value();
      done = done && each.pair.send != nullptr && each.pair.receive != nullptr;
    }
    return done;
  }));
  const std::uint64_t links = bed.stats(0).links;
  EXPECT_EQ(bed.stats(1).links, links);
  for (Under& each : all) {
    Talk talk(bed, each.pair, 70'000);
    talk.exchange(70'000);
    talk.end();
    bed.hosts[1].engine->close_listener(each.listener);
  }
  EXPECT_TRUE(bed.empties());
  return links;
}

TEST(Rails, SixteenCombinationsWithOneSetOfPathsAreOneLink) {
  const std::string fabric = cables(4);
  Bed all({.fabric = fabric.c_str(), .rails = "all"});
  EXPECT_EQ(links_of_sixteen(all), 1u);
  Bed by_cable({.fabric = fabric.c_str(), .rails = "auto"});
  EXPECT_EQ(links_of_sixteen(by_cable), 4u) << "one for each cable that is asked for";
}

TEST(Rails, TheDeviceThatNcclNamesCarriesTheBytes) {
  for (const int count : {2, 4, 8}) {
    const std::string fabric = cables(count);
    for (const char* rails : {"auto", "asked"}) {
      for (const int device : {0, 1, count - 1}) {
        Bed bed({.fabric = fabric.c_str(), .rails = rails});
        Talk talk(bed, bed.connect(kA, kB, {.connects = device, .listens = device}), 1 << 20);
        for (int i = 0; i < 4; ++i) talk.exchange(1 << 20);
        const std::vector<std::uint64_t> bytes = bytes_by_cable(bed, count);
        for (int i = 0; i < count; ++i)
          EXPECT_EQ(bytes[static_cast<std::size_t>(i)] == 0, i != device)
              << count << " cables, " << rails << ", " << i;
        talk.end();
        EXPECT_TRUE(bed.empties());
      }
    }
  }
}

TEST(Rails, AllOfThemCarryWhereTheSettingSaysSo) {
  const std::string fabric = cables(2);
  Bed bed({.fabric = fabric.c_str(), .rails = "all"});
  Talk talk(bed, bed.connect(kA, kB, {.connects = 1, .listens = 1}), 1 << 20);
  talk.exchange(1 << 20);
  for (const std::uint64_t bytes : bytes_by_cable(bed, 2)) EXPECT_GT(bytes, 1u << 18);
  talk.end();
  EXPECT_TRUE(bed.empties());
}

}  // namespace
}  // namespace mesh
