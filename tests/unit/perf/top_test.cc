// mesh_top: its table and its JSON.
#include "perf/mesh_top/view.h"

#include "tests/prelude.h"

#include <nlohmann/json.hpp>

namespace mesh::top {
namespace {

constexpr std::uint64_t kStartS = 1000, kNowS = 1010;

EngineSnapshot snapshot_of(std::uint64_t bytes) {
  PathSnapshot path;
  path.name = "mesh0:1 10.0.0.1 -> mesh0:1 \"10.0.0.2\"";
  path.rail = "mesh0:1";
  path.counters.bytes_sent = bytes;
  for (std::uint64_t i = 0; i < bytes / 10'000'000; ++i)  // the newest ones are slow
    path.latency.add(i < 100 ? 15'000 : 300'000);
  path.up = 1;
  PathSnapshot relayed;
  relayed.name = "mesh1:1 -> mesh1:1";
  relayed.rail = "mesh1:1";
  relayed.routes = {"c"};
  relayed.quarantined = 1;
  relayed.failures = 2;
  relayed.last_cause = "retries exceeded";
  PeerSnapshot peer;
  peer.peer = "b";
  peer.sends = true;
  peer.links = 1;
  peer.channels = 2;
  peer.open_requests = 3;
  peer.bytes = bytes;
  peer.messages = bytes / 1'000'000;
  peer.waits[static_cast<std::size_t>(WaitReason::Credit)] = {.channels = 1,
                                                              .longest_ns = 4'000'000'000};
  peer.paths = {path, relayed};
  EngineSnapshot shot;
  shot.host = "a";
  shot.stats.queue_pairs = 7;
  shot.rails.resize(2);
  shot.rails[0].name = "mesh0:1";
  shot.rails[0].active = true;
  shot.rails[1].name = "mesh1:1";
  shot.peers = {peer};
  shot.relay.ways = {{.from = "mesh0:1", .rail = "mesh1:1", .bytes = bytes}};
  return shot;
}

Snapshot shot_of(std::uint64_t bytes, std::uint64_t at_s, bool running = true,
                 std::uint64_t interval_s = 10) {
  Snapshot shot;
  shot.process = {.process = 77,
                  .start_s = kStartS,
                  .now_s = at_s,
                  .interval_s = interval_s,
                  .running = running};
  shot.engine = snapshot_of(bytes);
  return shot;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TopView, TellsRatesBetweenTwoSnapshots) {
  const Process process{.now = shot_of(9'000'000'000, kNowS),
                        .before = shot_of(1'000'000'000, 1006)};
  const std::string text = view({process}, {.now_s = 1012});
  EXPECT_TRUE(has(text, "a                77 runs       2 s      7      0\n")) << text;
  EXPECT_TRUE(has(text, "a          mesh0:1    up\n")) << text;
  EXPECT_TRUE(has(text, "a          to   b              2.000 GB/s       2000 msg/s     3 open"))
      << text;
  EXPECT_TRUE(has(text, "credit for 4 s")) << text;
  EXPECT_TRUE(has(text, "mesh1:1 -> mesh1:1  over c  lost 2 times, last: retries exceeded"))
      << text;
  EXPECT_TRUE(has(text, "carries        2.000 GB/s  for others, from mesh0:1 to mesh1:1")) << text;
  EXPECT_FALSE(has(text, "\033")) << "no colours were asked for";
}

// 800 of the 900 samples are newer than the older snapshot, and all of these are in the bucket from
// 200 to 500 us.
TEST(TopView, TellsALatencyThatIsOfTheTimeBetweenTwoSnapshots) {
  const Snapshot now = shot_of(9'000'000'000, kNowS);
  const Process process{.now = now, .before = shot_of(1'000'000'000, 1006)};
  EXPECT_TRUE(has(view({process}, {.now_s = 1012}), "p50 350 us, p99 497 us"))
      << view({process}, {.now_s = 1012});
  EXPECT_TRUE(has(view({{.now = now, .before = {}}}, {.now_s = 1012}), "p50 331 us, p99 497 us"));
  EXPECT_TRUE(has(view({{.now = now, .before = now}}, {.now_s = 1012}), "p50 331 us, p99 497 us"))
      << "without a newer sample the whole run is shown";
  EXPECT_FALSE(has(view({{.now = shot_of(0, kNowS), .before = {}}}, {.now_s = kNowS}), "p50"));
}

// Eight processes of one host have lost their paths over a cable, and one has ended before.
TEST(TopView, ACutCableIsOneLineOfAHost) {
  std::vector<Process> processes(8, {.now = shot_of(0, kNowS), .before = {}});
  processes.push_back({.now = shot_of(0, kNowS, false), .before = {}});
  processes[0].now.engine.rails[1].active = true;  // it hears of it a little later
  const std::string text = view(processes, {.now_s = kNowS});
  EXPECT_TRUE(has(text,
                  "a          mesh1:1    down in 7 of 8 processes  8 paths not up  paths lost 16 "
                  "times in 8 of 8 processes: retries exceeded\n"))
      << text;
  EXPECT_EQ(text.find("retries exceeded"), text.rfind("retries exceeded")) << text;
  processes[3].now.engine.peers[0].paths[1].last_cause = "our port is down";
  EXPECT_TRUE(has(view(processes, {.now_s = kNowS}), ": retries exceeded (and others)\n"));
}

TEST(TopView, OfOneSnapshotTellsTheRateOfTheWholeRun) {
  EXPECT_TRUE(has(view({{.now = shot_of(5'000'000'000, kNowS), .before = {}}}, {.now_s = kNowS}),
                  "0.500 GB/s"));
}

// Files come every 300 s.
TEST(TopView, AProcessThatWritesNoMoreIsSilentUnlessItEnded) {
  const auto view_after = [](std::uint64_t age_s, bool running = true) {
    return view({{.now = shot_of(0, kNowS, running, 300), .before = {}}}, {.now_s = kNowS + age_s});
  };
  EXPECT_TRUE(has(view_after(299), "runs"));
  EXPECT_TRUE(has(view_after(901), "silent"));
  EXPECT_TRUE(has(view_after(901, false), "ended"));
}

TEST(TopJson, HoldsSnapshotsStatesAndRates) {
  const Process process{.now = shot_of(9'000'000'000, kNowS),
                        .before = shot_of(1'000'000'000, 1006)};
  const std::string text = json({process, process}, 1012);
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line for each look";
  const nlohmann::json root = nlohmann::json::parse(text);
  ASSERT_EQ(root["processes"].size(), 2u);
  const nlohmann::json& shown = root["processes"][0];
  EXPECT_EQ(shown["host"], "a");
  EXPECT_EQ(shown["state"], "runs");
  EXPECT_EQ(shown["age_s"], 2);
  EXPECT_EQ(shown["peers"][0]["bytes_per_s"], 2e9);
  EXPECT_EQ(shown["peers"][0]["messages_per_s"], 2000);
  EXPECT_EQ(shown["peers"][0]["paths"][0]["bytes_per_s"], 2e9);
  const nlohmann::json& latency = shown["peers"][0]["paths"][0]["latency"];
  EXPECT_EQ(latency["samples"], 900);
  EXPECT_EQ(latency["p50_ns"], 331'250);
  EXPECT_EQ(latency["recent_p50_ns"], 350'000);
  EXPECT_EQ(latency["recent_p99_ns"], 497'000);
  EXPECT_EQ(shown["peers"][0]["paths"][1]["routes"][0], "c");
  EXPECT_EQ(shown["relay"]["ways"][0]["bytes_per_s"], 2e9);
  EXPECT_EQ(json({}, 1012), "{\"processes\":[]}\n");
}

TEST(TopView, WhatIsWrongStandsOut) {
  const std::string text =
      view({{.now = shot_of(0, kNowS), .before = {}}}, {.now_s = kNowS, .colour = true});
  EXPECT_TRUE(has(text, "\033[1;31mdown\033[0m")) << text;
  EXPECT_TRUE(has(text, "\033[1;31mquarantined\033[0m")) << text;
  EXPECT_FALSE(has(text, "\033[1;31mup")) << text;
}

}  // namespace
}  // namespace mesh::top
