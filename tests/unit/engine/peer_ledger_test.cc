#include "engine/peer_ledger.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

PeerSnapshot link_to(const std::string& peer, bool sends = true) {
  PeerSnapshot link;
  link.peer = peer;
  link.sends = sends;
  link.links = 1;
  link.channels = 2;
  link.open_requests = 3;
  link.messages = 100;
  link.bytes = 1000;
  link.waits[0] = {.channels = 1, .longest_ns = 5};
  PathSnapshot path;
  path.name = fmt::format("x -> {}", peer);
  path.rail = std::string("x");
  path.counters = {.bytes_sent = 1000,
                   .work_requests = 10,
                   .doorbells = 9,
                   .send_completions = 8,
                   .announcements = 7};
  path.inflight_bytes = 6;
  path.up = 1;
  path.epoch = 2;
  path.failures = 3;
  path.last_cause = std::string("first");
  link.paths.push_back(path);
  return link;
}

TEST(PeerLedger, LinksOfOnePeerAndDirectionAreOneRow) {
  PeerLedger ledger;
  ledger.add(link_to("b"));
  PeerSnapshot second = link_to("b");
  second.waits[0].longest_ns = 50;
  second.paths[0].epoch = 1;
  second.paths[0].last_cause.clear();
  ledger.add(second);
  ledger.add(link_to("b", false));
  ASSERT_EQ(ledger.rows().size(), 2u);
  const PeerSnapshot row = ledger.rows()[1];
  EXPECT_TRUE(row.sends);
  EXPECT_EQ(row.links, 2u);
  EXPECT_EQ(row.messages, 200u);
  EXPECT_EQ(row.waits[0].channels, 2u);
  EXPECT_EQ(row.waits[0].longest_ns, 50u);
  ASSERT_EQ(row.paths.size(), 1u);
  EXPECT_EQ(row.paths[0].counters.work_requests, 20u);
  EXPECT_EQ(row.paths[0].counters.announcements, 14u);
  EXPECT_EQ(row.paths[0].up, 2u);
  EXPECT_EQ(row.paths[0].epoch, 2u);
  EXPECT_EQ(row.paths[0].failures, 6u);
  EXPECT_EQ(row.paths[0].last_cause, "first");
}

TEST(PeerLedger, RoutesOfLivingLinksReplaceThoseOfLinksThatHaveEnded) {
  using Routes = std::vector<std::string>;
  const auto over = [](const char* route) {
    PeerSnapshot link = link_to("b");
    link.paths[0].routes = {route};
    return link;
  };
  PeerLedger ledger;
  ledger.add_ended(over("c"));
  EXPECT_EQ(ledger.rows()[0].paths[0].routes, Routes{"c"});
  ledger.add_ended(over("d"));
  EXPECT_EQ(ledger.rows()[0].paths[0].routes, Routes{"d"}) << "the last one";
  ledger.add(over("e"));
  ledger.add(over("f and g"));
  ledger.add(over("e"));
  ledger.add(link_to("b"));
  EXPECT_EQ(ledger.rows()[0].paths[0].routes, (Routes{"e", "f and g"}));
}

TEST(PeerLedger, WhatEndedKeepsItsCountsOnly) {
  PeerLedger ledger;
  ledger.add_ended(link_to("b"));
  const PeerSnapshot row = ledger.rows().at(0);
  EXPECT_EQ(row.links + row.channels + row.open_requests + row.waits[0].channels +
                row.waits[0].longest_ns,
            0u);
  EXPECT_EQ(row.messages, 100u);
  EXPECT_EQ(row.bytes, 1000u);
  EXPECT_EQ(row.paths[0].inflight_bytes + row.paths[0].up + row.paths[0].epoch, 0u);
  EXPECT_EQ(row.paths[0].counters.bytes_sent, 1000u);
  EXPECT_EQ(row.paths[0].failures, 3u);
}

TEST(PeerLedger, PeersBeyondTheBoundShareARow) {
  PeerLedger ledger;
  for (std::size_t i = 0; i < 2 * PeerLedger::kPeersMax; ++i)
    ledger.add(link_to(fmt::format("host{}", i), i % 2 == 0));
  const std::vector<PeerSnapshot> rows = ledger.rows();
  EXPECT_EQ(rows.size(), PeerLedger::kPeersMax);
  std::uint64_t messages = 0;
  for (const PeerSnapshot& row : rows) {
    messages += row.messages;
    EXPECT_EQ(row.paths.size(), 1u) << row.peer;
  }
  EXPECT_EQ(messages, 200 * PeerLedger::kPeersMax) << "nothing is lost";
  EXPECT_EQ(rows[0].peer, PeerLedger::kOthers);
}

}  // namespace
}  // namespace mesh::engine
