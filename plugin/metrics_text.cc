#include "plugin/metrics_text.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string_view>

namespace mesh::plugin {

namespace {

struct Label {
  std::string_view name, value;
};

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

// The page under construction. add() appends a sample of the family that begin() has named, or of a
// part of that, such as the sum of a histogram.
class Page {
 public:
  Page(const EngineSnapshot& snapshot, const ProcessFacts& facts_of)
      : shot(snapshot),
        facts(facts_of),
        common_(
            fmt::format("host=\"{}\",process=\"{}\"", escaped(snapshot.host), facts_of.process)) {}

  void begin(const char* name, const char* type, const char* help) {
    family_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <typename Value>
  void add(std::initializer_list<Label> labels, Value value, const char* part = "") {
    text_ += fmt::format("{}{}{{{}", family_, part, common_);
    for (const Label& label : labels)
      text_ += fmt::format(",{}=\"{}\"", label.name, escaped(label.value));
    text_ += fmt::format("}} {}\n", value);
  }
  std::string take() { return std::move(text_); }

  const EngineSnapshot& shot;
  const ProcessFacts& facts;

 private:
  const std::string common_;
  const char* family_ = "";
  std::string text_;
};

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
const char* direction(const PeerSnapshot& peer) { return peer.sends ? "send" : "receive"; }

template <auto Member>
void of_engine(Page& page) {
  page.add({}, page.shot.stats.*Member);
}

template <auto Member>
void of_peer(Page& page) {
  for (const PeerSnapshot& peer : page.shot.peers)
    page.add({{"peer", peer.peer}, {"direction", direction(peer)}}, peer.*Member);
}

template <auto Member>
void seconds_of_peer(Page& page) {
  for (const PeerSnapshot& peer : page.shot.peers) {
    page.add({{"peer", peer.peer}, {"direction", direction(peer)}}, seconds(peer.*Member));
  }
}

template <typename Emit>
void each_path(Page& page, Emit&& emit) {
  for (const PeerSnapshot& peer : page.shot.peers) {
    for (const PathSnapshot& path : peer.paths) emit(peer, path);
  }
}

template <auto Member>
void of_path(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    page.add({{"peer", peer.peer},
              {"direction", direction(peer)},
              {"path", path.name},
              {"rail", path.rail}},
             path.*Member);
  });
}

template <auto Member>
void of_traffic(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    page.add({{"peer", peer.peer},
              {"direction", direction(peer)},
              {"path", path.name},
              {"rail", path.rail}},
             path.counters.*Member);
  });
}

void path_latency(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    if (!peer.sends) return;
    const LatencyHistogram& latency = path.latency;
    const auto add_bucket = [&](const std::string& bound, std::uint64_t count) {
      page.add({{"peer", peer.peer},
                {"direction", direction(peer)},
                {"path", path.name},
                {"rail", path.rail},
                {"le", bound}},
               count, "_bucket");
    };
    std::uint64_t up_to = 0;
    for (std::size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
      up_to += latency.counts[i];
      add_bucket(fmt::format("{}", seconds(LatencyHistogram::kBounds[i])), up_to);
    }
    const std::uint64_t total = latency.total();
    add_bucket("+Inf", total);
    const auto add = [&](auto value, const char* part) {
      page.add({{"peer", peer.peer},
                {"direction", direction(peer)},
                {"path", path.name},
                {"rail", path.rail}},
               value, part);
    };
    add(seconds(latency.sum_ns), "_sum");
    add(total, "_count");
  });
}

template <typename Emit>
void each_wait(Page& page, Emit&& emit) {
  for (const PeerSnapshot& peer : page.shot.peers) {
    for (std::size_t i = 0; i < kWaitReasons; ++i)
      emit(peer, wait_reason_name(static_cast<WaitReason>(i)), peer.waits[i]);
  }
}

void waiting_channels(Page& page) {
  each_wait(page, [&page](const PeerSnapshot& peer, const char* reason, const WaitSnapshot& wait) {
    page.add({{"peer", peer.peer}, {"direction", direction(peer)}, {"reason", reason}},
             wait.channels);
  });
}

void waiting_seconds(Page& page) {
  each_wait(page, [&page](const PeerSnapshot& peer, const char* reason, const WaitSnapshot& wait) {
    page.add({{"peer", peer.peer}, {"direction", direction(peer)}, {"reason", reason}},
             seconds(wait.longest_ns));
  });
}

void stalls(Page& page) {
  page.add({{"kind", "credit"}}, page.shot.stalls.credit);
  page.add({{"kind", "queue"}}, page.shot.stalls.queue);
  page.add({{"kind", "window"}}, page.shot.stalls.window);
  page.add({{"kind", "inflight"}}, page.shot.stalls.inflight);
}

void rail_up(Page& page) {
  for (const RailSnapshot& rail : page.shot.rails)
    page.add({{"rail", rail.name}}, rail.active ? 1 : 0);
}

void rail_info(Page& page) {
  for (const RailSnapshot& rail : page.shot.rails) {
    page.add({{"rail", rail.name}, {"address", rail.address}, {"state", rail.state}}, 1);
  }
}

void rail_speed(Page& page) {
  for (const RailSnapshot& rail : page.shot.rails)
    page.add({{"rail", rail.name}}, rail.speed_mbps * 1'000'000 / 8);
}

void links_by_path_state(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    const auto add = [&](const char* state, std::uint64_t links) {
      page.add({{"peer", peer.peer},
                {"direction", direction(peer)},
                {"path", path.name},
                {"rail", path.rail},
                {"state", state}},
               links);
    };
    add("up", path.up);
    add("quarantined", path.quarantined);
    add("standby", path.standby);
    add("down", path.down);
  });
}

void path_failure_info(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    if (path.last_cause.empty()) return;
    page.add({{"peer", peer.peer},
              {"direction", direction(peer)},
              {"path", path.name},
              {"rail", path.rail},
              {"cause", path.last_cause}},
             1);
  });
}

void path_route_info(Page& page) {
  each_path(page, [&page](const PeerSnapshot& peer, const PathSnapshot& path) {
    for (const std::string& route : path.routes) {
      page.add({{"peer", peer.peer},
                {"direction", direction(peer)},
                {"path", path.name},
                {"rail", path.rail},
                {"via", route}},
               1);
    }
  });
}

template <auto Member>
void of_relay(Page& page) {
  page.add({}, page.shot.relay.*Member);
}

template <auto Member>
void of_way(Page& page) {
  for (const RelayedSnapshot& way : page.shot.relay.ways)
    page.add({{"rail", way.rail}, {"from", way.from}}, way.*Member);
}

void relay_refusals(Page& page) {
  page.add({{"kind", "path"}}, page.shot.relay.refused_paths);
  page.add({{"kind", "frame"}}, page.shot.relay.refused_frames);
  page.add({{"kind", "request"}}, page.shot.relay.refused_requests);
}

template <auto Member>
void of_neighbours(Page& page) {
  page.add({}, page.shot.neighbours.*Member);
}

void ignored_datagrams(Page& page) {
  page.add({{"kind", "malformed"}}, page.shot.neighbours.malformed);
  page.add({{"kind", "foreign"}}, page.shot.neighbours.foreign);
  page.add({{"kind", "excess"}}, page.shot.neighbours.excess);
}

struct Family {
  const char* name;
  const char* type;
  const char* help;
  void (*emit)(Page& page);
};

// The metrics in the order of the page. Counters of peers and paths include links that have ended.
constexpr std::array kFamilies{
    Family{"mesh_running", "gauge", "1 while the plugin is in use, 0 on its last page.",
           [](Page& page) { page.add({}, page.facts.running ? 1 : 0); }},
    Family{"mesh_start_time_seconds", "gauge", "When the plugin was started, since the epoch.",
           [](Page& page) { page.add({}, page.facts.start_s); }},
    Family{"mesh_page_time_seconds", "gauge", "When this page was written, since the epoch.",
           [](Page& page) { page.add({}, page.facts.now_s); }},
    Family{"mesh_page_interval_seconds", "gauge", "Seconds between two pages.",
           [](Page& page) { page.add({}, page.facts.interval_s); }},
    Family{"mesh_contexts", "gauge", "Communicators.", of_engine<&EngineStats::contexts>},
    Family{"mesh_queue_pairs", "gauge", "Queue pairs.", of_engine<&EngineStats::queue_pairs>},
    Family{"mesh_completion_queues", "gauge", "Completion queues.",
           of_engine<&EngineStats::completion_queues>},
    Family{"mesh_registrations", "gauge", "Registered memory ranges.",
           of_engine<&EngineStats::registrations>},
    Family{"mesh_errors_total", "counter", "Links that failed and messages that were too large.",
           of_engine<&EngineStats::errors>},
    Family{"mesh_revokes_total", "counter",
           "Times memory was taken back from a peer while receives were open.",
           of_engine<&EngineStats::revokes>},
    Family{"mesh_resumes_total", "counter",
           "Control connections that were lost and came back, counted on both sides.",
           of_engine<&EngineStats::resumes>},
    Family{"mesh_late_announcements_total", "counter",
           "Write-with-immediate completions that matched no open receive.",
           of_engine<&EngineStats::late_announcements>},
    Family{"mesh_stalls_total", "counter",
           "Visits to a channel that could not post, by what was missing.", stalls},
    Family{"mesh_oneshot_all_reduces_total", "counter", "One-shot all-reduces begun.",
           [](Page& page) { page.add({}, page.facts.one_shot_calls); }},
    Family{"mesh_oneshot_bytes_total", "counter", "Bytes of one-shot all-reduces begun.",
           [](Page& page) { page.add({}, page.facts.one_shot_bytes); }},
    Family{"mesh_rail_up", "gauge", "1 where the port is active.", rail_up},
    Family{"mesh_rail_info", "gauge", "1; the port's address and state.", rail_info},
    Family{"mesh_rail_speed_bytes_per_second", "gauge", "Speed that the port reports.", rail_speed},
    Family{"mesh_links", "gauge", "Peer links.", of_peer<&PeerSnapshot::links>},
    Family{"mesh_channels", "gauge", "Channels.", of_peer<&PeerSnapshot::channels>},
    Family{"mesh_open_requests", "gauge",
           "Open requests; in a group, each receive whose message has not come.",
           of_peer<&PeerSnapshot::open_requests>},
    Family{"mesh_messages_total", "counter", "Messages posted whole, or received.",
           of_peer<&PeerSnapshot::messages>},
    Family{"mesh_bytes_total", "counter", "Bytes of messages posted, or received.",
           of_peer<&PeerSnapshot::bytes>},
    Family{"mesh_degraded_seconds_total", "counter",
           "Time with some path not up, as seen once a second.",
           seconds_of_peer<&PeerSnapshot::degraded_ns>},
    Family{"mesh_without_path_seconds_total", "counter",
           "Time with no path up, as seen once a second.",
           seconds_of_peer<&PeerSnapshot::without_path_ns>},
    Family{"mesh_waiting_channels", "gauge",
           "Channels whose oldest request is open for a second or more.", waiting_channels},
    Family{"mesh_waiting_seconds", "gauge",
           "Age of the oldest request of channels that wait for a second or more.",
           waiting_seconds},
    Family{"mesh_path_bytes_total", "counter", "Bytes of messages posted on the path.",
           of_traffic<&PathCounters::bytes_sent>},
    Family{"mesh_path_work_requests_total", "counter",
           "Work requests posted, credits and counters included.",
           of_traffic<&PathCounters::work_requests>},
    Family{"mesh_path_doorbells_total", "counter", "Doorbells rung.",
           of_traffic<&PathCounters::doorbells>},
    Family{"mesh_path_send_completions_total", "counter", "Completions of posted work.",
           of_traffic<&PathCounters::send_completions>},
    Family{"mesh_path_announcements_total", "counter", "Write-with-immediate completions received.",
           of_traffic<&PathCounters::announcements>},
    Family{"mesh_path_inflight_bytes", "gauge",
           "Bytes of large messages posted and not acknowledged.",
           of_path<&PathSnapshot::inflight_bytes>},
    Family{"mesh_path_latency_seconds", "histogram",
           "Time of an empty write from post to completion, ten a second while we send.",
           path_latency},
    Family{"mesh_path_links", "gauge",
           "Links whose path is in this state: up, quarantined, down or standby.",
           links_by_path_state},
    Family{"mesh_path_epoch", "gauge",
           "How often the path was opened again: the count of the link that has the largest.",
           of_path<&PathSnapshot::epoch>},
    Family{"mesh_path_failures_total", "counter", "Times the path was lost.",
           of_path<&PathSnapshot::failures>},
    Family{"mesh_path_replayed_stripes_total", "counter",
           "Stripes that were lost with the path and sent again.",
           of_path<&PathSnapshot::replayed_stripes>},
    Family{"mesh_path_reopen_tries_total", "counter", "Tries to open the path again.",
           of_path<&PathSnapshot::reopen_tries>},
    Family{"mesh_path_failure_info", "gauge", "1; why the path was lost the last time.",
           path_failure_info},
    Family{"mesh_path_route_info", "gauge", "1; the hosts over which a relayed path leads.",
           path_route_info},
    Family{"mesh_relay_paths", "gauge", "Paths of other hosts that this process relays.",
           of_relay<&RelaySnapshot::paths>},
    Family{"mesh_relay_chains", "gauge", "Chains of queue pairs of the relayed paths.",
           of_relay<&RelaySnapshot::chains>},
    Family{"mesh_relay_ring_bytes", "gauge", "Memory of the rings of the relayed paths.",
           of_relay<&RelaySnapshot::ring_bytes>},
    Family{"mesh_relay_bytes_total", "counter",
           "Bytes relayed for other hosts, by the rails on which they leave and arrive.",
           of_way<&RelayedSnapshot::bytes>},
    Family{"mesh_relay_work_requests_total", "counter", "Work requests relayed for other hosts.",
           of_way<&RelayedSnapshot::work_requests>},
    Family{"mesh_relay_ring_full_total", "counter",
           "Polls that had something to send and found the next host's ring full.",
           of_way<&RelayedSnapshot::ring_full>},
    Family{"mesh_relay_refused_total", "counter",
           "Relay requests, control messages and work requests that were refused.", relay_refusals},
    Family{"mesh_neighbour_questions_total", "counter",
           "Questions for hosts between, sent over our ports.",
           of_neighbours<&NeighbourCounts::asked>},
    Family{"mesh_neighbour_answers_total", "counter", "Answers to these that named a host.",
           of_neighbours<&NeighbourCounts::taken>},
    Family{"mesh_neighbour_questions_answered_total", "counter",
           "Questions of other hosts that were answered.",
           of_neighbours<&NeighbourCounts::answered>},
    Family{
        "mesh_neighbour_ignored_total", "counter",
        "Datagrams that were no question or answer (malformed), made without the job's secret or "
        "late (foreign), or above a bound (excess).",
        ignored_datagrams},
};

}  // namespace

std::string metrics_page(const EngineSnapshot& snapshot, const ProcessFacts& facts) {
  Page page(snapshot, facts);
  for (const Family& family : kFamilies) {
    page.begin(family.name, family.type, family.help);
    family.emit(page);
  }
  return page.take();
}

}  // namespace mesh::plugin
