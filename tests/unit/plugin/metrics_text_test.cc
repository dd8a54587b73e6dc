#include "plugin/metrics_text.h"

#include "tests/prelude.h"
#include "tests/unit/plugin/prometheus_text.h"

#include <cctype>

namespace mesh::plugin {
namespace {

using testkit::metric, testkit::MetricLabels, testkit::MetricsPage, testkit::parse_metrics;

EngineSnapshot two_peers() {
  EngineSnapshot shot;
  shot.host = "a";
  shot.stats.contexts = 2;
  shot.stats.errors = 3;
  shot.stalls = {.credit = 4, .queue = 5, .window = 6, .inflight = 7};
  shot.rails.resize(2);
  shot.rails[0].name = "n0:1";
  shot.rails[0].address = "10.0.1.1/24";
  shot.rails[0].speed_mbps = 100'000;
  shot.rails[0].state = "active";
  shot.rails[0].active = true;
  shot.rails[1].name = "n1:1";
  shot.rails[1].address = "10.0.2.1/24";
  shot.rails[1].state = "down";
  PeerSnapshot send;
  send.peer = "b";
  send.sends = true;
  send.links = 1;
  send.messages = 10;
  send.degraded_ns = 2'500'000'000;
  send.without_path_ns = 1'000'000'000;
  send.bytes = (std::uint64_t{1} << 60) + 1;
  send.waits[static_cast<std::size_t>(WaitReason::Credit)] = {.channels = 2,
                                                              .longest_ns = 1'500'000'000};
  PathSnapshot path;
  path.name = "n0:1 10.0.1.1 -> n0:1 10.0.1.2";
  path.rail = "n0:1";
  path.counters = {.bytes_sent = 1,
                   .work_requests = 2,
                   .doorbells = 3,
                   .send_completions = 4,
                   .announcements = 5};
  for (const std::uint64_t ns : {1000u, 1001u, 4'000'000'000u}) path.latency.add(ns);
  path.inflight_bytes = 6;
  path.down = 1;
  path.failures = 7;
  path.last_cause = "a \"bad\"\ncable \\";
  send.paths.push_back(path);
  path.name = "n1:1 10.0.2.1 -> n0:1 10.0.2.2";
  path.last_cause.clear();
  path.routes = {"c", "d and e"};
  send.paths.push_back(path);
  PeerSnapshot receive;
  receive.peer = "b";
  receive.messages = 20;
  shot.peers = {receive, send};
  shot.relay = {.paths = 8,
                .chains = 9,
                .ring_bytes = 10,
                .refused_paths = 11,
                .refused_frames = 12,
                .refused_requests = 13,
                .ways = {}};
  shot.relay.ways = {
      {.from = "n0:1", .rail = "n1:1", .bytes = 14, .work_requests = 15, .ring_full = 16},
      {.from = "n1:1", .rail = "n0:1", .bytes = 17, .work_requests = 18, .ring_full = 19}};
  return shot;
}

MetricsPage page_of(const EngineSnapshot& shot) {
  return parse_metrics(metrics_page(
      shot,
      {.process = 42, .start_s = 100, .now_s = 200, .one_shot_calls = 20, .one_shot_bytes = 21}));
}

TEST(MetricsPage, IsWellFormedAndEverySampleNamesHostAndProcess) {
  for (const auto& [name, family] : page_of(two_peers())) {
    EXPECT_FALSE(family.samples.empty()) << name;
    for (const testkit::MetricSample& sample : family.samples) {
      ASSERT_EQ(sample.labels.at("host"), "a") << name;
      ASSERT_EQ(sample.labels.at("process"), "42") << name;
    }
  }
}

TEST(MetricsPage, IsWellFormedWithoutAnyPeer) {
  EXPECT_EQ(metric(page_of({}), "mesh_contexts"), 0);
}

TEST(MetricsPage, FiguresArriveWhereTheyBelong) {
  const MetricsPage page = page_of(two_peers());
  EXPECT_EQ(metric(page, "mesh_running"), 1);
  EXPECT_EQ(metric(page, "mesh_start_time_seconds"), 100);
  EXPECT_EQ(metric(page, "mesh_page_time_seconds"), 200);
  EXPECT_EQ(metric(page, "mesh_contexts"), 2);
  EXPECT_EQ(metric(page, "mesh_errors_total"), 3);
  EXPECT_EQ(metric(page, "mesh_stalls_total", {{"kind", "credit"}}), 4);
  EXPECT_EQ(metric(page, "mesh_stalls_total", {{"kind", "inflight"}}), 7);
  EXPECT_EQ(metric(page, "mesh_oneshot_all_reduces_total"), 20);
  EXPECT_EQ(metric(page, "mesh_oneshot_bytes_total"), 21);
  EXPECT_EQ(metric(page, "mesh_rail_up", {{"rail", "n0:1"}}), 1);
  EXPECT_EQ(metric(page, "mesh_rail_up", {{"rail", "n1:1"}}), 0);
  EXPECT_EQ(metric(page, "mesh_rail_info", {{"rail", "n1:1"}, {"state", "down"}}), 1);
  EXPECT_EQ(metric(page, "mesh_rail_speed_bytes_per_second", {{"rail", "n0:1"}}), 12.5e9);
  EXPECT_EQ(metric(page, "mesh_messages_total", {{"peer", "b"}, {"direction", "send"}}), 10);
  EXPECT_EQ(metric(page, "mesh_messages_total", {{"peer", "b"}, {"direction", "receive"}}), 20);
  EXPECT_EQ(metric(page, "mesh_degraded_seconds_total", {{"direction", "send"}}), 2.5);
  EXPECT_EQ(metric(page, "mesh_without_path_seconds_total", {{"direction", "send"}}), 1);
  EXPECT_EQ(metric(page, "mesh_waiting_channels", {{"direction", "send"}, {"reason", "credit"}}),
            2);
  EXPECT_EQ(metric(page, "mesh_waiting_seconds", {{"direction", "send"}, {"reason", "credit"}}),
            1.5);
  EXPECT_EQ(metric(page, "mesh_waiting_seconds", {{"direction", "send"}, {"reason", "data"}}), 0);
  const MetricLabels first{
      {"path", "n0:1 10.0.1.1 -> n0:1 10.0.1.2"}, {"rail", "n0:1"}, {"direction", "send"}};
  EXPECT_EQ(metric(page, "mesh_path_bytes_total", first), 1);
  EXPECT_EQ(metric(page, "mesh_path_work_requests_total", first), 2);
  EXPECT_EQ(metric(page, "mesh_path_doorbells_total", first), 3);
  EXPECT_EQ(metric(page, "mesh_path_send_completions_total", first), 4);
  EXPECT_EQ(metric(page, "mesh_path_announcements_total", first), 5);
  EXPECT_EQ(metric(page, "mesh_path_inflight_bytes", first), 6);
  EXPECT_EQ(metric(page, "mesh_path_failures_total", first), 7);
  EXPECT_EQ(metric(page, "mesh_path_links", {{"path", first.at("path")}, {"state", "down"}}), 1);
  EXPECT_EQ(metric(page, "mesh_path_links", {{"path", first.at("path")}, {"state", "up"}}), 0);
}

TEST(MetricsPage, LatencyIsAHistogramOfEachPathOnWhichWeSend) {
  EngineSnapshot shot = two_peers();
  shot.peers[0].paths.push_back(shot.peers[1].paths[0]);  // the same path, on a link that receives
  const MetricsPage page = page_of(shot);
  MetricLabels first{{"path", "n0:1 10.0.1.1 -> n0:1 10.0.1.2"}, {"direction", "send"}};
  EXPECT_EQ(metric(page, "mesh_path_latency_seconds_count", first), 3);
  EXPECT_DOUBLE_EQ(metric(page, "mesh_path_latency_seconds_sum", first), 4.000002001);
  const auto up_to = [&](const char* bound) {
    first["le"] = bound;
    return metric(page, "mesh_path_latency_seconds_bucket", first);
  };
  EXPECT_EQ(up_to("1e-06"), 1) << "a bound belongs to its bucket";
  EXPECT_EQ(up_to("2e-06"), 2);
  EXPECT_EQ(up_to("1"), 2);
  EXPECT_EQ(up_to("+Inf"), 3);
  EXPECT_THROW(metric(page, "mesh_path_latency_seconds_count", {{"direction", "receive"}}),
               std::runtime_error);
}

TEST(MetricsPage, RoutesOfRelayedPathsAreNamed) {
  const MetricsPage page = page_of(two_peers());
  const MetricLabels second{{"path", "n1:1 10.0.2.1 -> n0:1 10.0.2.2"}, {"rail", "n0:1"}};
  EXPECT_EQ(metric(page, "mesh_path_route_info", second), 2);
  EXPECT_EQ(metric(page, "mesh_path_route_info", {{"via", "c"}, {"peer", "b"}}), 1);
  EXPECT_EQ(metric(page, "mesh_path_route_info", {{"via", "d and e"}}), 1);
  EXPECT_EQ(page.at("mesh_path_route_info").samples.size(), 2u) << "a cable has none";
}

TEST(MetricsPage, WhatIsCarriedForOthersIsThere) {
  const MetricsPage page = page_of(two_peers());
  EXPECT_EQ(metric(page, "mesh_relay_paths"), 8);
  EXPECT_EQ(metric(page, "mesh_relay_chains"), 9);
  EXPECT_EQ(metric(page, "mesh_relay_ring_bytes"), 10);
  EXPECT_EQ(metric(page, "mesh_relay_refused_total", {{"kind", "path"}}), 11);
  EXPECT_EQ(metric(page, "mesh_relay_refused_total", {{"kind", "frame"}}), 12);
  EXPECT_EQ(metric(page, "mesh_relay_refused_total", {{"kind", "request"}}), 13);
  EXPECT_EQ(metric(page, "mesh_relay_bytes_total", {{"from", "n0:1"}, {"rail", "n1:1"}}), 14);
  EXPECT_EQ(metric(page, "mesh_relay_work_requests_total", {{"rail", "n1:1"}}), 15);
  EXPECT_EQ(metric(page, "mesh_relay_ring_full_total", {{"rail", "n1:1"}}), 16);
  EXPECT_EQ(metric(page, "mesh_relay_bytes_total", {{"rail", "n0:1"}}), 17);
}

TEST(MetricsPage, QuestionsToNeighboursAreThere) {
  EngineSnapshot shot;
  shot.host = "a";
  shot.neighbours = {
      .asked = 22, .taken = 23, .answered = 24, .malformed = 25, .foreign = 26, .excess = 27};
  const MetricsPage page = page_of(shot);
  EXPECT_EQ(metric(page, "mesh_neighbour_questions_total"), 22);
  EXPECT_EQ(metric(page, "mesh_neighbour_answers_total"), 23);
  EXPECT_EQ(metric(page, "mesh_neighbour_questions_answered_total"), 24);
  EXPECT_EQ(metric(page, "mesh_neighbour_ignored_total", {{"kind", "malformed"}}), 25);
  EXPECT_EQ(metric(page, "mesh_neighbour_ignored_total", {{"kind", "foreign"}}), 26);
  EXPECT_EQ(metric(page, "mesh_neighbour_ignored_total", {{"kind", "excess"}}), 27);
}

TEST(MetricsPage, LargeCountersAreWholeNumbers) {
  EXPECT_NE(metrics_page(two_peers(), {}).find(" 1152921504606846977\n"), std::string::npos);
}

TEST(MetricsPage, TextsAreEscaped) {
  const MetricsPage page = page_of(two_peers());
  ASSERT_EQ(page.at("mesh_path_failure_info").samples.size(), 1u)
      << "a path that never failed has none";
  EXPECT_EQ(page.at("mesh_path_failure_info").samples[0].labels.at("cause"), "a \"bad\"\ncable \\");
}

TEST(MetricsPage, TheLastOneSaysSo) {
  EXPECT_EQ(metric(parse_metrics(metrics_page(two_peers(), {.running = false})), "mesh_running"),
            0);
}

// The alert rules of the plugin's page use metrics, labels and reasons that there are.

std::string text_of(const char* page) {
  std::ifstream file(page);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string word_at(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
    ++end;
  return text.substr(at, end - at);
}

// A metric in the alert rules and the label that selects its samples, empty if none does.
struct Mention {
  std::string metric, label;
};
std::vector<Mention> mentions_in(const std::string& alerts) {
  const std::string prefix = "mesh_";
  std::vector<Mention> found;
  for (std::size_t at = alerts.find(prefix); at != std::string::npos;
       at = alerts.find(prefix, at + 1)) {
    Mention mention{.metric = word_at(alerts, at), .label = {}};
    const std::size_t end = at + mention.metric.size();
    const std::string part = "_bucket";  // of a histogram
    if (mention.metric.ends_with("_seconds" + part))
      mention.metric.resize(mention.metric.size() - part.size());
    if (end < alerts.size() && alerts[end] == '{') mention.label = word_at(alerts, end + 1);
    found.push_back(std::move(mention));
  }
  return found;
}

// Returns the metric's row of the table, or an empty text if there is no such metric.
std::string row_of(const std::string& metric) {
  const std::string table = text_of(MESH_REFERENCE_FILE);
  const std::size_t at = table.find("| `" + metric + "` |");
  return at == std::string::npos ? std::string() : table.substr(at, table.find('\n', at) - at);
}

// Returns the alert rules, or an empty text if the page has none.
std::string alert_rules() {
  const std::string page = text_of(MESH_PLUGIN_PAGE_FILE);
  const std::size_t begin = page.find("groups:\n- name: nccl-mesh\n");
  if (begin == std::string::npos) return {};
  return page.substr(begin, page.find("```", begin) - begin);
}

// Returns the words of the only expression in the rules that begins with `mark`.
std::set<std::string> selected_by(const std::string& alerts, const std::string& mark) {
  const std::size_t at = alerts.find(mark);
  EXPECT_NE(at, std::string::npos) << mark;
  if (at == std::string::npos) return {};
  EXPECT_EQ(alerts.find(mark, at + 1), std::string::npos) << mark << " is there twice";
  const std::size_t from = at + mark.size();
  std::stringstream list(alerts.substr(from, alerts.find('"', from) - from));
  std::set<std::string> words;
  for (std::string word; std::getline(list, word, '|');) words.insert(word);
  return words;
}

TEST(PluginPage, AlertRulesNameMetricsLabelsAndReasonsThatThereAre) {
  const std::string alerts = alert_rules();
  ASSERT_NE(alerts, "") << "no alert rules in " << MESH_PLUGIN_PAGE_FILE;

  const std::vector<Mention> mentions = mentions_in(alerts);
  EXPECT_GE(mentions.size(), 5u);
  int selected = 0;
  for (const auto& [name, label] : mentions) {
    const std::string row = row_of(name);
    EXPECT_NE(row, "") << name;
    if (label.empty()) continue;
    ++selected;
    EXPECT_TRUE(row.find(" " + label + ",") != std::string::npos ||
                row.find(" " + label + " ") != std::string::npos)
        << label;
  }
  EXPECT_EQ(selected, 2);

  std::set<std::string> reasons;
  for (std::size_t i = 0; i < kWaitReasons; ++i)
    reasons.insert(wait_reason_name(static_cast<WaitReason>(i)));
  for (const std::string& reason : selected_by(alerts, "reason!~\""))
    EXPECT_TRUE(reasons.contains(reason)) << reason;
}

// A path that stands by, or that rests beside others, is healthy and raises no alert.
TEST(PluginPage, AlertOfPathsMeansEveryStateButThoseOfHealthyPaths) {
  EngineSnapshot snapshot;
  snapshot.peers.resize(1);
  snapshot.peers[0].paths.resize(1);
  const std::string written = metrics_page(snapshot, {});
  std::set<std::string> states;
  const std::string mark = "state=\"";
  for (std::size_t at = written.find("mesh_path_links{"); at != std::string::npos;
       at = written.find("mesh_path_links{", at + 1)) {
    const std::size_t from = written.find(mark, at) + mark.size();
    states.insert(written.substr(from, written.find('"', from) - from));
  }
  EXPECT_EQ(states.erase("up") + states.erase("standby"), 2u);
  EXPECT_EQ(selected_by(alert_rules(), "state=~\""), states);
}

}  // namespace
}  // namespace mesh::plugin
