#pragma once
// Host a says HELLO to host b, which asks over its ports where the cables lead. Host c is there for
// triangles. Thread: one.

#include "engine/link/cable_proofs.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/soft/fabric_file.h"
#include "tests/unit/engine/link/fake_host.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::testkit {

using engine::CableProofs, engine::Hello;
using Wires = std::vector<topo::WirePair>;

// Hosts a, b and c with two ports each, all in one subnet. `at_b`: more fields of b's first port.
inline std::string fabric_of(const std::string& links, const std::string& at_b = "") {
  std::string hosts;
  for (int host = 0; host < 3; ++host) {
    const char name = static_cast<char>('a' + host);
    hosts += fmt::format(
        R"({}{{"name": "{}", "nics": [{{"name": "n0", "address": "10.0.0.{}/24"{}}},
           {{"name": "n1", "address": "10.0.0.{}/24"}}]}})",
        host == 0 ? "" : ", ", name, 2 * host + 1, name == 'b' ? at_b : "", 2 * host + 2);
  }
  return fmt::format(R"({{"name": "wires", "hosts": [{}], "links": [{}]}})", hosts, links);
}
inline constexpr const char* kStraight =
    R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]})";
inline constexpr const char* kCrossed = R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]})";
inline constexpr const char* kTriangle =
    R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["b/n0", "c/n1"]}, {"ends": ["c/n0", "a/n1"]})";
inline constexpr const char* kSwitch = R"({"switch": ["a/n0", "a/n1", "b/n0", "b/n1"]})";

struct CableHosts {
  explicit CableHosts(const std::string& text)
      : fabric(soft::parse(text).value()), a(fabric, "a", clock), b(fabric, "b", clock) {}

  Hello hello() {
    Hello said;
    said.host = "a";
    said.rails = engine::describe_rails(*a.provider, a.rails());
    said.proof = of_a.offer();
    return said;
  }
  engine::DoubtfulRails doubtful(const Hello& said) {
    return engine::doubtful_rails(said, {engine::describe_rails(*b.provider, b.rails())});
  }
  std::unique_ptr<CableProofs::Question> ask(const Hello& said) {
    return of_b.ask(said, doubtful(said));
  }
  static void hear(CableProofs& proofs) {
    for (int fd = 0; fd < 1024; ++fd)
      if (proofs.owns(fd)) proofs.on_readable(fd);
  }
  // Takes the datagrams of the first port only, as if the process were stopped after it.
  static void hear_first(CableProofs& proofs) {
    for (int fd = 0; fd < 1024; ++fd)
      if (proofs.owns(fd)) return proofs.on_readable(fd);
  }
  // Sends what is due and carries it there and back. Returns false if the question is over.
  bool turn(CableProofs::Question& question) {
    const bool goes_on = question.tend(clock.load());
    hear(of_a);
    hear(of_b);
    return goes_on;
  }
  // Asks until the question is over. Returns the time that it took.
  std::uint64_t finish(CableProofs::Question& question) {
    const std::uint64_t from_ns = clock.load();
    while (turn(question)) clock.fetch_add(kNsPerMs);
    return clock.load() - from_ns;
  }

  std::atomic<std::uint64_t> clock{kNsPerSecond};
  soft::FabricFile fabric;
  FakeHost a, b;
  CableProofs of_a{a}, of_b{b};
};

}  // namespace mesh::testkit
