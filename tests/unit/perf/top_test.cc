// mesh_top with pages that the plugin's own writer made.
#include "perf/mesh_top/view.h"
#include "plugin/metrics_text.h"

#include <gtest/gtest.h>

namespace mesh::top {
namespace {

constexpr std::uint64_t kStartS = 1000, kNowS = 1010;

EngineSnapshot snapshot_of(std::uint64_t bytes) {
  PathSnapshot path;
  path.name = "mesh0:1 10.0.0.1 -> mesh0:1 \"10.0.0.2\"";
  path.rail = "mesh0:1";
  path.counters.bytes_sent = bytes;
  path.up = 1;
  PathSnapshot relayed;
  relayed.name = "mesh1:1 -> mesh1:1";
  relayed.rail = "mesh1:1";
  relayed.routes = {"c"};
  relayed.quarantined = 1;
  relayed.failures = 2;
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

Page page_of(std::uint64_t bytes, std::uint64_t at_s, bool running = true,
             std::uint64_t interval_s = 10) {
  std::string why;
  auto page = parse_page(plugin::metrics_page(snapshot_of(bytes), {.process = 77,
                                                                   .start_s = kStartS,
                                                                   .now_s = at_s,
                                                                   .interval_s = interval_s,
                                                                   .running = running}),
                         &why);
  EXPECT_TRUE(page.ok()) << why;
  return page.ok() ? *page : Page{};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TopPage, IsWhatThePluginWrites) {
  const Page page = page_of(5'000'000'000, kNowS);
  EXPECT_EQ(page.host(), "a");
  EXPECT_EQ(page.process(), "77");
  EXPECT_EQ(page.value("mesh_page_time_seconds"), 1010);
  const Labels path = {{"path", "mesh0:1 10.0.0.1 -> mesh0:1 \"10.0.0.2\""}};
  EXPECT_EQ(page.value("mesh_path_bytes_total", path), 5e9);
  EXPECT_EQ(page.find("mesh_nothing"), nullptr);
}

TEST(TopPage, NamesALineThatIsNone) {
  for (const std::string text :
       {"", "mesh_running 1\n", "node_load1{host=\"a\" 3\n", "mesh_x{host=\"a\",process=\"1\"} y\n",
        "mesh_x{host=\"a\",process=\"1\n", "{host=\"a\",process=\"1\"} 1\n"}) {
    std::string why;
    EXPECT_EQ(parse_page(text, &why).code(), Errc::Protocol) << text;
    EXPECT_TRUE(why.starts_with("no page of nccl-mesh: ")) << why;
  }
}

TEST(TopView, TellsRatesBetweenTwoPages) {
  const Process process{.now = page_of(9'000'000'000, kNowS),
                        .before = page_of(1'000'000'000, 1006)};
  const std::string text = view({process}, {.now_s = 1012});
  EXPECT_TRUE(
      has(text, "a                77 runs       2 s      7      0  mesh0:1 up  mesh1:1 down"))
      << text;
  EXPECT_TRUE(has(text, "a          to   b              2.000 GB/s       2000 msg/s     3 open"))
      << text;
  EXPECT_TRUE(has(text, "credit for 4 s")) << text;
  EXPECT_TRUE(has(text, "mesh1:1 -> mesh1:1  over c  lost 2 times")) << text;
  EXPECT_TRUE(has(text, "carries        2.000 GB/s  for others, from mesh0:1 to mesh1:1")) << text;
  EXPECT_FALSE(has(text, "\033")) << "no colours were asked for";
}

TEST(TopView, OfOnePageTellsTheRateOfTheWholeRun) {
  EXPECT_TRUE(has(view({{.now = page_of(5'000'000'000, kNowS), .before = {}}}, {.now_s = kNowS}),
                  "0.500 GB/s"));
}

TEST(TopView, AProcessThatWritesNoMoreIsSilentUnlessItEnded) {
  const std::uint64_t later_s = kNowS + 100;
  EXPECT_TRUE(has(view({{.now = page_of(0, kNowS), .before = {}}}, {.now_s = later_s}), "silent"));
  EXPECT_TRUE(
      has(view({{.now = page_of(0, kNowS, false), .before = {}}}, {.now_s = later_s}), "ended"));
}

TEST(TopView, AProcessWithRarePagesIsNotSilentBetweenThem) {
  const auto state_after = [](std::uint64_t age_s) {
    return view({{.now = page_of(0, kNowS, true, 300), .before = {}}}, {.now_s = kNowS + age_s});
  };
  EXPECT_TRUE(has(state_after(299), "runs"));
  EXPECT_TRUE(has(state_after(901), "silent"));
}

TEST(TopView, WhatIsWrongStandsOut) {
  const std::string text =
      view({{.now = page_of(0, kNowS), .before = {}}}, {.now_s = kNowS, .colour = true});
  EXPECT_TRUE(has(text, "\033[1;31mdown\033[0m")) << text;
  EXPECT_TRUE(has(text, "\033[1;31mquarantined\033[0m")) << text;
  EXPECT_FALSE(has(text, "\033[1;31mup")) << text;
}

}  // namespace
}  // namespace mesh::top
