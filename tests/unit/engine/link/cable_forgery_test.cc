// Datagrams of a neighbour that knows no nonce, or has only heard a question: they prove nothing.
#include "engine/link/cable_message.h"
#include "src/base/byte_order.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/soft/datagrams.h"
#include "tests/unit/engine/link/cable_hosts.h"

#include <gtest/gtest.h>

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::CableHosts, testkit::fabric_of, testkit::FakeHost, testkit::kTriangle;
using testkit::Wires;

// Host c is cabled to both, and sends what it likes to the places that it may know.
struct Forger {
  explicit Forger(CableHosts& hosts) : c(hosts.fabric, "c", hosts.clock) {
    for (const verbs::Rail& rail : c.rails())
      ends.push_back(c.provider->open_datagrams(rail.context.get(), rail.gids.front(),
                                                verbs::DatagramEnd::Port));
  }
  // A datagram as the engine makes them, from each port of c.
  void send(const WirePlace& to, std::uint8_t kind, const Id128& nonce) {
    std::array<std::byte, CableMessage::kBytes> bytes;
    ByteWriter writer(bytes);
    writer.put_u32(CableMessage::kMagic);
    writer.put_u8(kind);
    writer.put_u8(0);
    writer.put_u8(0);
    writer.put_bytes(std::as_bytes(std::span(nonce)));
    for (const auto& end : ends) end->send({.address = to.address, .port = to.port}, bytes);
  }
  FakeHost c;
  std::vector<std::unique_ptr<verbs::CableDatagrams>> ends;
};

TEST(CableForgery, ForgedAnswersAreCountedAndProveNothing) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  Hello other;  // b's own HELLO tells its places, to whoever is its acceptor
  other.proof = hosts.of_b.offer();
  const auto question = hosts.ask(said);
  ASSERT_TRUE(question->tend(hosts.clock.load()));
  constexpr std::uint8_t kAnswer = 2;
  forger.send(other.proof.places[0], kAnswer, random_id());
  forger.send(other.proof.places[0], kAnswer, said.proof.ask);  // it has heard the question
  forger.send(other.proof.places[0], 7, said.proof.answer);
  forger.ends[1]->send(
      {.address = other.proof.places[0].address, .port = other.proof.places[0].port}, {});
  CableHosts::hear(hosts.of_b);
  EXPECT_EQ(hosts.of_b.ignored(), 4u);
  EXPECT_EQ(question->proof().met, Wires{});
}

TEST(CableForgery, AQuestionOfNobodysHandshakeGetsNoAnswer) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  constexpr std::uint8_t kQuestion = 1;
  for (int i = 0; i < 1000; ++i) forger.send(said.proof.places[1], kQuestion, random_id());
  for (int pass = 0; pass < 100; ++pass) CableHosts::hear(hosts.of_a);
  EXPECT_EQ(hosts.of_a.ignored(), soft::kDatagramsMax) << "the rest was lost on the way";
  for (const auto& end : forger.ends) EXPECT_FALSE(end->next().has_value());
}

// 10,000 forged questions and 10,000 forged answers a second.
TEST(CableForgery, AFloodMakesNoHandshakeSlowerAndTakesNoMemory) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  const WireProof of_b = hosts.of_b.offer();
  const auto question = hosts.ask(said);
  constexpr std::uint8_t kQuestion = 1, kAnswer = 2;
  constexpr std::uint64_t kEachMs = 10;
  const auto flood_for_a_ms = [&] {
    for (std::uint64_t i = 0; i < kEachMs; ++i) {
      forger.send(said.proof.places[1], kQuestion, random_id());
      forger.send(of_b.places[0], kAnswer, random_id());
    }
    hosts.clock.fetch_add(kNsPerMs);
  };
  std::uint64_t passed_ms = 1;
  for (flood_for_a_ms(); hosts.turn(*question); ++passed_ms) flood_for_a_ms();
  EXPECT_LE(passed_ms * kNsPerMs, kProofToSettledNs + 2 * kNsPerMs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));

  const auto heap_bytes = [] { return ::mallinfo2().uordblks; };
  const std::size_t before = heap_bytes();
  constexpr std::uint64_t kLongMs = 2000;
  for (std::uint64_t ms = 0; ms < kLongMs; ++ms) {
    flood_for_a_ms();
    CableHosts::hear(hosts.of_a);
    CableHosts::hear(hosts.of_b);
  }
  EXPECT_EQ(hosts.of_a.ignored(), (passed_ms + kLongMs) * kEachMs);
  EXPECT_EQ(hosts.of_b.ignored(), (passed_ms + kLongMs) * kEachMs);
  constexpr std::size_t kRoundingBytes = 4096;
  EXPECT_LE(heap_bytes(), before + kRoundingBytes);
}

}  // namespace
}  // namespace mesh::engine
