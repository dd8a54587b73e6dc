#include "plugin/metrics_text.h"

#include "src/base/check.h"
#include "src/base/snapshot_fields.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mesh::plugin {

namespace {

using fields::About;
using fields::counter;
using fields::gauge;
using fields::Metric;

struct Label {
  std::string_view name, value;
};
using Labels = std::initializer_list<Label>;

// Escapes backslash, quote and newline, as the format requires.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char each : text) {
    if (each == '\n') {
      out += "\\n";
      continue;
    }
    if (each == '\\' || each == '"') out += '\\';
    out += each;
  }
  return out;
}

std::string label_text(Labels labels) {
  std::string text;
  for (const Label& label : labels)
    text += fmt::format(",{}=\"{}\"", label.name, escaped(label.value));
  return text;
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// Objects whose samples have labels.
std::string labels_of(const RailSnapshot& rail) { return label_text({{"rail", rail.name}}); }
std::string labels_of(const PeerSnapshot& peer) {
  return label_text({{"peer", peer.peer}, {"direction", peer.sends ? "send" : "receive"}});
}
std::string labels_of(const PathSnapshot& path) {
  return label_text({{"path", path.name}, {"rail", path.rail}});
}
std::string labels_of(const RelayedSnapshot& way) {
  return label_text({{"rail", way.rail}, {"from", way.from}});
}

// The metrics that are more, or less, than a field of the snapshot. fill() has their samples.
constexpr Metric kOneShotCalls =
    counter(40, "mesh_oneshot_all_reduces_total", "One-shot all-reduces begun.");
constexpr Metric kOneShotBytes =
    counter(41, "mesh_oneshot_bytes_total", "Bytes of one-shot all-reduces begun.");
constexpr Metric kRailInfo = gauge(51, "mesh_rail_info", "1; the port's address and state.");
constexpr Metric kRailSpeed =
    gauge(52, "mesh_rail_speed_bytes_per_second", "Speed that the port reports.");
constexpr Metric kWaitingChannels = gauge(
    70, "mesh_waiting_channels", "Channels whose oldest request is open for a second or more.");
constexpr Metric kLongestWait =
    gauge(71, "mesh_waiting_seconds",
          "Age of the oldest request of channels that wait for a second or more.");
constexpr Metric kLatency{
    .place = 86,
    .name = "mesh_path_latency_seconds",
    .type = "histogram",
    .help = "Time of an empty write from post to completion, up to ten a second while we send."};
constexpr Metric kPathLinks = gauge(
    87, "mesh_path_links", "Links whose path is in this state: up, quarantined, down or standby.");
constexpr Metric kFailureInfo =
    gauge(92, "mesh_path_failure_info", "1; why the path was lost the last time.");
constexpr Metric kRouteInfo =
    gauge(93, "mesh_path_route_info", "1; the hosts over which a relayed path leads.");
constexpr std::array kFilled{kOneShotCalls,    kOneShotBytes, kRailInfo, kRailSpeed,
                             kWaitingChannels, kLongestWait,  kLatency,  kPathLinks,
                             kFailureInfo,     kRouteInfo};

class Page;
void fill(Page& page, const Snapshot& shot);
void fill(Page& page, const RailSnapshot& rail);
void fill(Page& page, const PeerSnapshot& peer);
void fill(Page& page, const PathSnapshot& path);

// The page under construction. It visits the fields of the snapshot, and takes those with a metric.
class Page {
 public:
  explicit Page(Snapshot& shot)
      : labels_(fmt::format("host=\"{}\",process=\"{}\"", escaped(shot.engine.host),
                            shot.process.process)) {
    for (const Metric& metric : kFilled) family(metric);
    descend(shot);
  }

  template <typename Value>
  void operator()(const char* /*name*/, Value& value, const About& about) {
    if constexpr (std::is_arithmetic_v<Value>) {
      if (about.metric.name != nullptr) add_field(about.metric, value);
    } else if constexpr (std::is_class_v<Value> && !std::is_same_v<Value, std::string>) {
      descend(value);
    }
  }
  template <typename Item>
  void operator()(const char* /*name*/, std::vector<Item>& items, const About& /*about*/) {
    if constexpr (!std::is_same_v<Item, std::string>) {
      // A page has each family, also one without samples.
      const bool outer = std::exchange(samples_wanted_, false);
      Item none{};
      descend(none);
      samples_wanted_ = outer;
      for (Item& item : items) descend(item);
    }
  }

  // Appends a sample of the metric, or of a part of it, such as the sum of a histogram.
  template <typename Value>
  void add(const Metric& metric, Labels labels, Value value, const char* part = "") {
    if (!samples_wanted_) return;
    family(metric).samples +=
        fmt::format("{}{}{{{}{}}} {}\n", metric.name, part, labels_, label_text(labels), value);
  }

  std::string text() const {
    std::string text;
    for (const auto& [place, each] : families_) {
      const Metric& metric = each.metric;
      text += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", metric.name, metric.help, metric.name,
                          metric.type, each.samples);
    }
    return text;
  }

 private:
  struct Family {
    Metric metric;
    std::string samples;
  };

  Family& family(const Metric& metric) {
    Family& found = families_.try_emplace(metric.place, Family{metric, {}}).first->second;
    CHECK(std::string_view(found.metric.name) == metric.name);  // one place, one metric
    return found;
  }

  template <typename Value>
  void add_field(const Metric& metric, Value value) {
    family(metric);
    const Label label{metric.label, metric.value};
    const auto number = +value;  // true is 1
    if (metric.from_ns) return add(metric, {}, seconds(static_cast<std::uint64_t>(number)));
    if (label.name.empty()) return add(metric, {}, number);
    add(metric, {label}, number);
  }

  template <typename Value>
  void descend(Value& value) {
    const std::string outer = labels_;
    if constexpr (requires { labels_of(value); }) labels_ += labels_of(value);
    fields::visit(*this, value);
    if constexpr (requires { fill(*this, value); }) fill(*this, value);
    labels_ = outer;
  }

  std::map<int, Family> families_;  // by place
  std::string labels_;              // of the object that is visited and those around it
  bool samples_wanted_ = true;
};

void fill(Page& page, const Snapshot& shot) {
  page.add(kOneShotCalls, {}, shot.process.one_shot_calls);
  page.add(kOneShotBytes, {}, shot.process.one_shot_bytes);
}

void fill(Page& page, const RailSnapshot& rail) {
  page.add(kRailInfo, {{"address", rail.address}, {"state", rail.state}}, 1);
  page.add(kRailSpeed, {}, rail.speed_mbps * 1'000'000 / 8);
}

void fill_latency(Page& page, const PathSnapshot& path) {
  const LatencyHistogram& latency = path.latency;
  const Label name{"path", path.name}, rail{"rail", path.rail};
  std::uint64_t up_to = 0;
  for (std::size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    up_to += latency.counts[i];
    const std::string bound = fmt::format("{}", seconds(LatencyHistogram::kBounds[i]));
    page.add(kLatency, {name, rail, {"le", bound}}, up_to, "_bucket");
  }
  page.add(kLatency, {name, rail, {"le", "+Inf"}}, latency.total(), "_bucket");
  page.add(kLatency, {name, rail}, seconds(latency.sum_ns), "_sum");
  page.add(kLatency, {name, rail}, latency.total(), "_count");
}

void fill(Page& page, const PeerSnapshot& peer) {
  if (peer.sends) {
    for (const PathSnapshot& path : peer.paths) fill_latency(page, path);
  }
  for (std::size_t i = 0; i < kWaitReasons; ++i) {
    const Label reason{"reason", wait_reason_name(static_cast<WaitReason>(i))};
    page.add(kWaitingChannels, {reason}, peer.waits[i].channels);
    page.add(kLongestWait, {reason}, seconds(peer.waits[i].longest_ns));
  }
}

void fill(Page& page, const PathSnapshot& path) {
  page.add(kPathLinks, {{"state", "up"}}, path.up);
  page.add(kPathLinks, {{"state", "quarantined"}}, path.quarantined);
  page.add(kPathLinks, {{"state", "standby"}}, path.standby);
  page.add(kPathLinks, {{"state", "down"}}, path.down);
  if (!path.last_cause.empty()) page.add(kFailureInfo, {{"cause", path.last_cause}}, 1);
  for (const std::string& route : path.routes) page.add(kRouteInfo, {{"via", route}}, 1);
}

}  // namespace

std::string metrics_page(const EngineSnapshot& snapshot, const ProcessFacts& facts) {
  Snapshot shot;
  shot.process = facts;
  shot.engine = snapshot;
  return Page(shot).text();
}

}  // namespace mesh::plugin
