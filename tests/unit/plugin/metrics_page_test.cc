// The alert rules of the plugin's page use metrics, labels and reasons that there are.
#include "plugin/metrics_text.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace mesh::plugin {
namespace {

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
