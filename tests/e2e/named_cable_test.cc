// The cable that NCCL names carries its bytes, and others stand in for it while it is cut.
#include "perf/collectives/collective.h"
#include "tests/e2e/fabric_door.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr const char* kSoftwareOnly = "its ports are broken through the software fabric's own door";

// Returns a fabric with `count` cables between a and b.
std::string cables(int count) {
  std::string nics[2], links;
  for (int i = 0; i < count; ++i) {
    const char* const comma = i == 0 ? "" : ", ";
    for (int host = 0; host < 2; ++host) {
      nics[host] += fmt::format(R"({}{{"name": "mesh{}", "address": "10.0.{}.{}/24"}})", comma, i,
                                i + 1, host + 1);
    }
    links += fmt::format(R"({}{{"ends": ["a/mesh{}", "b/mesh{}"]}})", comma, i, i);
  }
  return fmt::format(
      R"({{"name": "cables", "hosts": [{{"name": "a", "nics": [{}]}},
        {{"name": "b", "nics": [{}]}}],
        "links": [{}]}})",
      nics[0], nics[1], links);
}

// The argument is the number of cables. NCCL names the last device on both sides.
const Scenario kNamedDevice("named_device", [](Peer& peer) {
  const int count = std::stoi(peer.argument());
  const auto api = peer.load();
  driver::Communicator communicator(*api, {.id = 1, .device = count - 1});
  require_success(communicator.open(), "init");
  Line line(peer, communicator, {.bytes = kBytes});
  stream(line, {.count = 100, .bytes = kBytes});
  peer.barrier();
  if (peer.rank() == 0) {
    double named = 0, all = 0;
    for (int i = 0; i < count; ++i) {
      const soft::FaultOrder look{.verb = soft::FaultVerb::Look,
                                  .fault = {.nic = fmt::format("mesh{}", i)}};
      const auto bytes = static_cast<double>(tell("a", look).bytes);
      all += bytes;
      if (i == count - 1) named = bytes;
    }
    report_figure("percent_on_named", 100 * named / all);
    require(named >= 100.0 * kBytes, "the bytes of the messages are not in the count");
    require(named >= 0.99 * all, "less than 99 % of the bytes on the cable that NCCL named");
  }
  peer.barrier();
  line.close();
});

TEST(NamedCable, TheCableThatNcclNamesCarriesTheBytes) {
  for (const char* count : {"2", "4", "8"}) {
    expect_run(kNamedDevice, {.fabric_text = cables(std::stoi(count)),
                              .argument = count,
                              .software_only = kSoftwareOnly});
  }
}

// Cuts the named cable, which is the first one, at both ends under a verified all-reduce, and mends
// it. The argument is the number of cables.
const Scenario kNamedIsCut("named_is_cut", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Rounds rounds(peer, *communicator, {.bytes_max = kBytes});
  const auto posted = [](int cable) {
    return tell("a",
                {.verb = soft::FaultVerb::Look, .fault = {.nic = fmt::format("mesh{}", cable)}})
        .bytes;
  };
  // The second cable stands in, or the third one if that takes long on a busy machine.
  const auto others = [&] {
    std::uint64_t bytes = 0;
    for (int cable = 1; cable < std::stoi(peer.argument()); ++cable) bytes += posted(cable);
    return bytes;
  };
  const auto port = [](soft::FaultVerb verb) {
    for (const char* host : {"a", "b"})
      tell(host, {.verb = verb, .fault = {.kind = soft::FaultKind::PortDown, .nic = "mesh0"}});
  };
  rounds.run(kBytes);
  for (int time = 0; time < 3; ++time) {
    const std::uint64_t before = peer.rank() == 0 ? others() : 0;
    peer.barrier();
    if (peer.rank() == 0) port(soft::FaultVerb::Arm);
    const auto cut = std::chrono::steady_clock::now();
    rounds.run(kBytes);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - cut;
    if (peer.rank() == 0) {
      report_figure("ms_until_standby_carried_a_round", took.count());
      require(others() >= before + kBytes / 2, "no other cable stands in");
      port(soft::FaultVerb::Lift);
    }
    const auto end = std::chrono::steady_clock::now() + patience();
    for (bool back = false; !back;) {
      const std::uint64_t start = peer.rank() == 0 ? posted(0) : 0;
      rounds.run(kBytes);
      const bool seen = peer.rank() == 0 && posted(0) >= start + kBytes / 2;
      back = peer.all_gather(seen ? "1" : "0").front() == "1";
      require(back || std::chrono::steady_clock::now() < end, "the cable named does not come back");
    }
  }
  peer.barrier();
});

TEST(NamedCable, OthersStandInForTheCableThatNcclNamesWhileItIsCut) {
  for (const char* count : {"2", "8"})
    expect_run(kNamedIsCut, {.fabric_text = cables(std::stoi(count)),
                             .argument = count,
                             .software_only = kSoftwareOnly});
}

}  // namespace
}  // namespace mesh::e2e
