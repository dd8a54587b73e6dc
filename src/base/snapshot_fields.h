#pragma once
// The one table of the snapshot's fields (snapshot_json.h) and of the metrics that are such fields,
// one function for each object. A visitor gets the name of each field, its value and what is said
// About it: visitors write and read the snapshot, write the page of metrics, add links up and write
// the reference page. A field that is of another type in the text passes through a local variable,
// which a reader fills. Thread: any (pure). Bound: the values'.

#include "src/base/field_about.h"
#include "src/base/latency_fields.h"
#include "src/base/relay_fields.h"
#include "src/base/snapshot_json.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace mesh::fields {

// By RefusalKind.
inline constexpr std::array kRefusalNames{"unusable",     "down",      "left-out", "no-address",
                                          "no-partition", "no-memory", "limited",  "iwarp"};

// A reason for which channels wait, of the array of a PeerSnapshot.
struct WaitRow {
  std::string reason;
  WaitSnapshot wait;
};
using Waits = std::array<WaitSnapshot, kWaitReasons>;

inline std::vector<WaitRow> rows_of(const Waits& waits) {
  std::vector<WaitRow> rows;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].channels != 0)
      rows.push_back({wait_reason_name(static_cast<WaitReason>(i)), waits[i]});
  }
  return rows;
}

// Leaves out reasons that this program does not know.
inline Waits waits_of(const std::vector<WaitRow>& rows) {
  Waits waits{};
  for (std::size_t i = 0; i < waits.size(); ++i) {
    for (const WaitRow& row : rows) {
      if (row.reason == wait_reason_name(static_cast<WaitReason>(i))) waits[i] = row.wait;
    }
  }
  return waits;
}

template <typename Visitor>
void visit(Visitor& field, SettingSnapshot& setting) {
  field("name", setting.name, "Environment variable.");
  field("value", setting.value, "Value in use.");
}

template <typename Visitor>
void visit(Visitor& field, AddressSnapshot& address) {
  field("address", address.address, "Address with its prefix.");
  field("gid_index", address.gid_index, "Index in the port's GID table at the start.");
}

template <typename Visitor>
void visit(Visitor& field, RailSnapshot& rail) {
  field("name", rail.name, "Device and port.");
  field("offered", rail.offered, "NCCL has the rail as a device; the others were down at start.");
  field("active", rail.active,
        {"The port is active.", gauge(50, "mesh_rail_up", "1 where the port is active.")});
  field("state", rail.state, "State of the port, in the device's words.");
  field("speed_mbps", rail.speed_mbps, "Speed that the port reported last; 0: it never was up.");
  field("address", rail.address, "Preferred address.");
  field("addresses", rail.addresses, "All addresses, the preferred one first.");
  field("gid_type", rail.gid_type, "Type of its GIDs.");
  field("mtu", rail.mtu, "Bytes of an RDMA packet.");
  field("numa_node", rail.numa_node, "NUMA node; -1: not known.");
  field("pci", rail.pci, "PCI address; empty: no PCI parent.");
  field("port_downs", rail.port_downs, "Times the device told that the port went down.");
}

template <typename Visitor>
void visit(Visitor& field, RefusedPort& port) {
  std::string kind = kRefusalNames[static_cast<std::size_t>(port.kind)];
  field("port", port.port, "Device and port, or a device for all its ports.");
  field("kind", kind,
        "`down`, `left-out` (by NCCL_IB_HCA), `no-address`, `no-partition`, `no-memory` (see "
        "ulimit -l), "
        "`limited` (the device grants too little), `iwarp`, or else `unusable`.");
  field("reason", port.reason, "Reason, for people.");
  for (std::size_t i = 0; i < kRefusalNames.size(); ++i) {
    if (kind == kRefusalNames[i]) port.kind = static_cast<RefusalKind>(i);
  }
}

template <typename Visitor>
void visit(Visitor& field, EngineStats& stats) {
  field("contexts", stats.contexts, gauge(20, "mesh_contexts", "Communicators."));
  field("links", stats.links, "Peer links.");
  field("channels", stats.channels, "Channels.");
  field("queue_pairs", stats.queue_pairs, gauge(21, "mesh_queue_pairs", "Queue pairs."));
  field("completion_queues", stats.completion_queues,
        gauge(22, "mesh_completion_queues", "Completion queues."));
  field("registrations", stats.registrations,
        gauge(23, "mesh_registrations", "Registered memory ranges."));
  field("messages_sent", stats.messages_sent, "Messages posted whole.");
  field("messages_received", stats.messages_received, "Messages received.");
  field("bytes_sent", stats.bytes_sent, "Bytes of messages posted.");
  field("bytes_received", stats.bytes_received, "Bytes of messages received.");
  field("work_requests", stats.work_requests, "Work requests of living links.");
  field("doorbells", stats.doorbells, "Doorbells of living links.");
  field("send_completions", stats.send_completions, "Completions of living links' posted work.");
  field("announcements", stats.announcements, "Write-with-immediate completions of living links.");
  field("late_announcements", stats.late_announcements,
        counter(27, "mesh_late_announcements_total",
                "Write-with-immediate completions that matched no open receive."));
  field("revokes", stats.revokes,
        counter(25, "mesh_revokes_total",
                "Times memory was taken back from a peer while receives were open."));
  field("resumes", stats.resumes,
        counter(26, "mesh_resumes_total",
                "Control connections that were lost and came back, counted on both sides."));
  field("errors", stats.errors,
        counter(24, "mesh_errors_total", "Links that failed and messages that were too large."));
  field("pending_answers", stats.pending_answers, "Peers' requests that wait for completions.");
}

template <typename Visitor>
void visit(Visitor& field, StallCounts& stalls) {
  constexpr Metric kStalls = counter(
      30, "mesh_stalls_total", "Visits to a channel that could not post, by what was missing.");
  field("credit", stalls.credit,
        {"Visits to a channel without a posted receive of the peer.",
         kStalls.with("kind", "credit")});
  field("queue", stalls.queue, {"Visits with a full send queue.", kStalls.with("kind", "queue")});
  field("window", stalls.window,
        {"Visits without receive credits.", kStalls.with("kind", "window")});
  field(
      "inflight", stalls.inflight,
      {"Visits with all bytes in flight that a path may have.", kStalls.with("kind", "inflight")});
}

template <typename Visitor>
void visit(Visitor& field, WaitRow& row) {
  field("reason", row.reason, "Reason, as in `mesh_waiting_seconds`.");
  field("channels", row.wait.channels, "Channels that wait for it.");
  field("longest_ns", row.wait.longest_ns, "Age of the oldest request.");
}

template <typename Visitor>
void visit(Visitor& field, PathCounters& counters) {
  field("bytes_sent", counters.bytes_sent,
        counter(80, "mesh_path_bytes_total", "Bytes of messages posted on the path."));
  field("work_requests", counters.work_requests,
        counter(81, "mesh_path_work_requests_total",
                "Work requests posted, credits and counters included."));
  field("doorbells", counters.doorbells,
        counter(82, "mesh_path_doorbells_total", "Doorbells rung."));
  field("send_completions", counters.send_completions,
        counter(83, "mesh_path_send_completions_total", "Completions of posted work."));
  field("announcements", counters.announcements,
        counter(84, "mesh_path_announcements_total", "Write-with-immediate completions received."));
}

template <typename Visitor>
void visit(Visitor& field, PathSnapshot& path) {
  field("name", path.name, "Ports and addresses of both ends, ours first.");
  field("rail", path.rail, "Our rail.");
  field("up", path.up, {"Links that use the path.", Sum::Now});
  field("quarantined", path.quarantined, {"Links that have just lost it.", Sum::Now});
  field("down", path.down, {"Links that try to open it again.", Sum::Now});
  field("standby", path.standby, {"Links for which it stands by.", Sum::Now});
  field("counters", path.counters, "Counts since the start.");
  field("latency", path.latency,
        "Times of empty writes from post to completion, up to ten a second while we send.");
  field("inflight_bytes", path.inflight_bytes,
        gauge(85, "mesh_path_inflight_bytes",
              "Bytes of large messages posted and not acknowledged."));
  field("epoch", path.epoch,
        highest(
            gauge(88, "mesh_path_epoch",
                  "How often the path's queue pairs were made anew, also by tries that failed: the "
                  "count of the link that has the largest.")));
  field("failures", path.failures,
        counter(89, "mesh_path_failures_total", "Times the path was lost."));
  field("replayed_stripes", path.replayed_stripes,
        counter(90, "mesh_path_replayed_stripes_total",
                "Stripes that were lost with the path and sent again."));
  field("reopen_tries", path.reopen_tries,
        counter(91, "mesh_path_reopen_tries_total", "Tries to open the path again."));
  field("black_holes", path.black_holes,
        {"Times small packets came through and full ones did not: an MTU on the way is too small.",
         Sum::Ever});
  field("last_cause", path.last_cause, "Why it was lost the last time, for people.");
  field("routes", path.routes, "Hosts over which it leads; empty: a cable.");
}

template <typename Visitor>
void visit(Visitor& field, PeerSnapshot& peer) {
  std::string direction = peer.sends ? "send" : "receive";
  std::vector<WaitRow> waits = rows_of(peer.waits);
  field("host", peer.peer, "Host of the peer; `(others)`: all beyond the bound.");
  field("direction", direction, "`send` or `receive`.");
  field("links", peer.links, gauge(60, "mesh_links", "Peer links."));
  field("spent_links", peer.spent_links,
        {"Links that have failed or have no open channel.", Sum::Now});
  field("channels", peer.channels, gauge(61, "mesh_channels", "Channels."));
  field("open_requests", peer.open_requests,
        gauge(62, "mesh_open_requests",
              "Open requests; in a group, each receive whose message has not come."));
  field("messages", peer.messages,
        counter(63, "mesh_messages_total", "Messages posted whole, or received."));
  field("bytes", peer.bytes,
        counter(64, "mesh_bytes_total", "Bytes of messages posted, or received."));
  field("degraded_ns", peer.degraded_ns,
        from_ns(counter(65, "mesh_degraded_seconds_total",
                        "Time with some path not up, as seen once a second.")));
  field("without_path_ns", peer.without_path_ns,
        from_ns(counter(66, "mesh_without_path_seconds_total",
                        "Time with no path up, as seen once a second.")));
  field("waits", waits, "Channels whose oldest request is open for a second, by reason.");
  field("paths", peer.paths, "Paths, past and present.");
  peer.sends = direction == "send";
  peer.waits = waits_of(waits);
}

template <typename Visitor>
void visit(Visitor& field, Snapshot& shot) {
  field("schema", shot.schema, "Version of this table. Fields may be added without a new one.");
  field("plugin", shot.plugin, "Version of nccl-mesh.");
  field("host", shot.engine.host, "This host's name.");
  field("process", shot.process.process, "Number of the process.");
  field("start_s", shot.process.start_s,
        gauge(11, "mesh_start_time_seconds", "When the plugin was started, since the epoch."));
  field("now_s", shot.process.now_s,
        gauge(12, "mesh_page_time_seconds", "When this page was written, since the epoch."));
  field("interval_s", shot.process.interval_s,
        {"Seconds between two pages; 0: none is written.",
         gauge(13, "mesh_page_interval_seconds", "Seconds between two pages.")});
  field("running", shot.process.running,
        {"The plugin is in use; false on its last page.",
         gauge(10, "mesh_running", "1 while the plugin is in use, 0 on its last page.")});
  field("fabric", shot.fabric, "`rdma` or `soft`.");
  field("no_rdma", shot.no_rdma, "Why libibverbs cannot be used, for people; empty: it can.");
  field("start", shot.start, "Result of the latest start: `ok`, or an error's name.");
  field("start_lines", shot.start_lines, "Why the start failed, for people.");
  field("settings", shot.settings, "All settings.");
  field("rails", shot.engine.rails, "Rails: first those that NCCL has, in NCCL's order.");
  field("refused_ports", shot.engine.refused_ports, "Ports that are no rails.");
  field("notes", shot.engine.notes, "Remarks about rails, for people.");
  field("warnings", shot.warnings, "Newest warnings of the log, for people.");
  field("counters", shot.engine.stats, "Counts of the process.");
  field("stalls", shot.engine.stalls, "Visits to a channel that could not post.");
  field("peers", shot.engine.peers, "One entry for each peer and direction.");
  field("relay", shot.engine.relay, "What is carried for other hosts.");
  field("neighbours", shot.engine.neighbours, "Questions over the cables for hosts between.");
}

}  // namespace mesh::fields
