// The snapshot's JSON: what is written is read again. A text that cannot be read is refused by
// name.
#include "src/base/snapshot_json.h"

#include "src/base/json_fields.h"
#include "tests/prelude.h"

#include <nlohmann/json.hpp>

namespace mesh {
namespace {

PeerSnapshot busy_peer() {
  PathSnapshot path;
  path.name = "n0:1 10.0.1.1 -> n0:1 \"10.0.1.2\"\n";
  path.rail = "n0:1";
  path.counters = {.bytes_sent = (std::uint64_t{1} << 63) + 1,
                   .work_requests = 2,
                   .doorbells = 3,
                   .send_completions = 4,
                   .announcements = 5};
  path.latency.add(1500);
  path.latency.add(2'000'000'000);  // above all bounds
  path.up = 6;
  path.quarantined = 7;
  path.down = 8;
  path.standby = 9;
  path.black_holes = 10;
  path.last_cause = "our port is down";
  path.routes = {"c", "d and e"};
  PeerSnapshot peer;
  peer.peer = "b";
  peer.sends = true;
  peer.bytes = 11;
  peer.waits[static_cast<std::size_t>(WaitReason::Tag)] = {.channels = 12, .longest_ns = 13};
  peer.waits[static_cast<std::size_t>(WaitReason::QueuePairs)] = {.channels = 14};
  peer.paths = {path};
  return peer;
}

// Every list has an item, so that every field is written.
Snapshot full_snapshot() {
  Snapshot shot;
  shot.plugin = "0.1.0";
  shot.process = {.process = 77, .start_s = 1, .now_s = 2, .interval_s = 3, .running = false};
  shot.fabric = "rdma";
  shot.no_rdma = "no libibverbs";
  shot.start = "not found";
  shot.start_lines = {"no usable rail"};
  shot.settings = {{.name = "NCCL_MESH_QPS", .value = "4"}};
  shot.warnings = {"peer b: a path is lost"};
  shot.engine.host = "a";
  shot.engine.stats.messages_sent = 15;
  shot.engine.stalls.window = 16;
  shot.engine.rails = {{.name = "n0:1",
                        .address = "10.0.1.1/24",
                        .speed_mbps = 100'000,
                        .state = "active",
                        .active = true,
                        .offered = true,
                        .addresses = {{.address = "10.0.1.1/24", .gid_index = 3}},
                        .gid_type = "RoCE v2",
                        .mtu = 4096,
                        .numa_node = -1,
                        .pci = "0000:01:00.0",
                        .port_downs = 17}};
  shot.engine.refused_ports = {
      {.port = "n1", .kind = RefusalKind::LeftOut, .reason = "left out by NCCL_IB_HCA"}};
  shot.engine.notes = {"rails n0:1, n2:1 are in one subnet"};
  shot.engine.peers = {busy_peer()};
  shot.engine.relay.ways = {
      {.from = "n0:1", .rail = "n1:1", .bytes = 18, .work_requests = 19, .ring_full = 20}};
  shot.engine.neighbours = {
      .asked = 21, .taken = 22, .answered = 23, .malformed = 24, .foreign = 25, .excess = 26};
  return shot;
}

TEST(SnapshotJson, WhatIsWrittenIsRead) {
  const std::string text = to_json(full_snapshot());
  std::string why;
  const Result<Snapshot> read = snapshot_from(text, &why);
  ASSERT_TRUE(read.ok()) << why;
  EXPECT_EQ(to_json(*read), text);
  ASSERT_EQ(read->engine.peers.size(), 1u);
  const PeerSnapshot& peer = read->engine.peers[0];
  EXPECT_TRUE(peer.sends);
  EXPECT_EQ(peer.waits[static_cast<std::size_t>(WaitReason::Tag)].longest_ns, 13u);
  EXPECT_EQ(peer.waits[static_cast<std::size_t>(WaitReason::QueuePairs)].channels, 14u);
  EXPECT_EQ(peer.waits[static_cast<std::size_t>(WaitReason::Credit)].channels, 0u);
  ASSERT_EQ(peer.paths.size(), 1u);
  EXPECT_EQ(peer.paths[0].name, busy_peer().paths[0].name);
  EXPECT_EQ(peer.paths[0].counters.bytes_sent, (std::uint64_t{1} << 63) + 1);
  EXPECT_EQ(peer.paths[0].latency.counts, busy_peer().paths[0].latency.counts);
  EXPECT_EQ(peer.paths[0].latency.sum_ns, 2'000'001'500u);
  ASSERT_EQ(read->engine.refused_ports.size(), 1u);
  EXPECT_EQ(read->engine.refused_ports[0].kind, RefusalKind::LeftOut);
  EXPECT_EQ(read->engine.rails[0].numa_node, -1);
  EXPECT_EQ(read->engine.neighbours.asked, 21u);
  EXPECT_EQ(read->engine.neighbours.excess, 26u);
}

TEST(SnapshotJson, AnEmptyOneIsOneLineOfJson) {
  const std::string text = to_json({});
  EXPECT_TRUE(nlohmann::json::parse(text).is_object());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

TEST(SnapshotJson, BytesThatAreNoTextAreReplaced) {
  Snapshot shot;
  shot.engine.host = "a\xff";
  EXPECT_EQ(nlohmann::json::parse(to_json(shot))["host"], "a\xef\xbf\xbd");
}

TEST(SnapshotJson, AnotherSchemaAndOtherTextsAreRefused) {
  const std::pair<const char*, const char*> cases[]{
      {"", "it is not JSON"},
      {"mesh_running{} 1", "it is not JSON"},
      {"[1]", "wanted: an object"},
      {"{}", "its schema is 0; this program reads schema 1"},
      {R"({"schema":2})", "its schema is 2; this program reads schema 1"},
      {R"({"schema":1,"rails":{}})", "rails is {}; wanted: a list"},
      {R"({"schema":1,"rails":[{"mtu":"x"}]})", "mtu is \"x\"; wanted: a whole number"},
      {R"({"schema":1,"rails":[{"mtu":-1}]})", "mtu is -1; wanted: a whole number"},
      {R"({"schema":1,"peers":[7]})", "peers is 7; wanted: an object"},
      {R"({"schema":1,"running":1})", "running is 1; wanted: true or false"}};
  for (const auto& [text, reason] : cases) {
    std::string why;
    EXPECT_EQ(snapshot_from(text, &why).code(), Errc::Protocol) << text;
    EXPECT_TRUE(why.starts_with("no snapshot of nccl-mesh: ")) << why;
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  }
}

TEST(SnapshotJson, FieldsThatOneSideLacksAreNoMistake) {
  std::string why;
  const Result<Snapshot> read =
      snapshot_from(R"({"schema":1,"later":[1],"rails":[{"name":"n0:1","new":{}}]})", &why);
  ASSERT_TRUE(read.ok()) << why;
  EXPECT_EQ(read->engine.rails[0].name, "n0:1");
  EXPECT_EQ(read->engine.rails[0].numa_node, -1);
}

// Reads {"name", "parts": [{"gbps"}]} and returns what is wrong with the text.
std::string wrong_with(const std::string& text) {
  return read_json(text, {.bytes = 200, .depth = 4}, [](const Json& root) {
    check_keys(root, "the file", {"name", "parts"});
    static_cast<void>(name_of(root, "the file"));
    for (const Json& entry : list_of(root, "the file", "parts")) {
      read_object(entry, [](const Json& object) {
        check_keys(object, "a part", {"gbps"});
        if (number_of(object, "a part", "gbps", {0, 9, 0}) == 0) fail("a part does nothing");
      });
    }
  });
}

TEST(JsonFields, ARefusalNamesPlaceKeyValueAndRange) {
  for (const auto& [text, says] : {
           std::pair("{\"name\": \"a\", \"parts\": [{\"gbps\": 1.5}]}", ""),
           std::pair("", "line 1, column 1: it is not JSON"),
           std::pair("{\"name\":\n1e999}", "line 2, column 1: it is not JSON"),
           std::pair("\xef\xbb\xbf[7]", "line 1, column 4: the file is [7]; wanted: an object"),
           std::pair("{\n \"parts\": []}", "line 1, column 1: the file: name is missing"),
           std::pair("{\"name\": \"a \\\" b\"}",
                     "line 1, column 10: the file: name is \"a \\\" b\"; wanted: 1 to 32 letters, "
                     "digits, '_', '-' or '.'"),
           std::pair("{\"name\": \"a\",\n  \"parts\": {}}",
                     "line 2, column 12: the file: parts is {}; wanted: a list"),
           std::pair("{\"name\": \"a\",\n\"parts\": [{}, [{\"\":-1}]]}",
                     "line 2, column 11: a part does nothing"),
           std::pair("{\"parts\": [{\"gbps\": 1},\n\n {\"gbps\" : 10}], \"name\": \"a\"}",
                     "line 3, column 12: a part: gbps is 10; wanted: 0..9"),
           std::pair(
               "{\"name\": \"a\", \"more\":\t[1, 2]}",
               "line 1, column 23: the file has the unknown key \"more\"; wanted: name, parts"),
           std::pair("{\"name\": \"a\",\n\n  \"name\": 1}",
                     "line 3, column 3: the key \"name\" stands twice in one object"),
           std::pair("{\"name\": [[[[\n[]]]]]}",
                     "line 2, column 1: it is nested deeper than 4 levels"),
       }) {
    EXPECT_EQ(wrong_with(text), says);
  }
  EXPECT_EQ(wrong_with(std::string(201, ' ')), "it has 201 bytes; wanted: up to 200");
}

}  // namespace
}  // namespace mesh
