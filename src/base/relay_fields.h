#pragma once
// The fields of what is carried for other hosts and of the questions for such hosts, as in
// snapshot_fields.h. Thread: any (pure). Bound: the values'.

#include <mesh/snapshot.h>

#include "src/base/field_about.h"

namespace mesh::fields {

template <typename Visitor>
void visit(Visitor& field, RelayedSnapshot& way) {
  field("from", way.from, "Rail over which it comes.");
  field("rail", way.rail, "Rail over which it leaves.");
  field("bytes", way.bytes,
        counter(103, "mesh_relay_bytes_total",
                "Bytes relayed for other hosts, by the rails on which they leave and arrive."));
  field("work_requests", way.work_requests,
        counter(104, "mesh_relay_work_requests_total", "Work requests relayed for other hosts."));
  field("ring_full", way.ring_full,
        counter(105, "mesh_relay_ring_full_total",
                "Polls that had something to send and found the next host's ring full."));
}

template <typename Visitor>
void visit(Visitor& field, RelaySnapshot& relay) {
  constexpr Metric kRefused =
      counter(106, "mesh_relay_refused_total",
              "Relay requests, control messages and work requests that were refused.");
  field("paths", relay.paths,
        gauge(100, "mesh_relay_paths", "Paths of other hosts that this process relays."));
  field("chains", relay.chains,
        gauge(101, "mesh_relay_chains", "Chains of queue pairs of the relayed paths."));
  field("ring_bytes", relay.ring_bytes,
        gauge(102, "mesh_relay_ring_bytes", "Memory of the rings of the relayed paths."));
  field("refused_paths", relay.refused_paths,
        {"Relay requests that were refused.", kRefused.with("kind", "path")});
  field("refused_frames", relay.refused_frames,
        {"Malformed frames about paths.", kRefused.with("kind", "frame")});
  field("refused_requests", relay.refused_requests,
        {"Malformed work requests.", kRefused.with("kind", "request")});
  field("ways", relay.ways, "Traffic by pair of rails.");
}

template <typename Visitor>
void visit(Visitor& field, NeighbourCounts& neighbours) {
  constexpr Metric kIgnored =
      counter(113, "mesh_neighbour_ignored_total",
              "Datagrams that were no question or answer (malformed), made without the job's "
              "secret or late (foreign), or above a bound (excess).");
  field("asked", neighbours.asked,
        counter(110, "mesh_neighbour_questions_total",
                "Questions for hosts between, sent over our ports."));
  field("taken", neighbours.taken,
        counter(111, "mesh_neighbour_answers_total", "Answers to these that named a host."));
  field("answered", neighbours.answered,
        counter(112, "mesh_neighbour_questions_answered_total",
                "Questions of other hosts that were answered."));
  field("malformed", neighbours.malformed,
        {"Datagrams that are neither question nor answer.", kIgnored.with("kind", "malformed")});
  field(
      "foreign", neighbours.foreign,
      {"Those made without the job's secret (another job, a forgery), and answers that came late.",
       kIgnored.with("kind", "foreign")});
  field("excess", neighbours.excess,
        {"Those above a bound, as in a flood.", kIgnored.with("kind", "excess")});
}

}  // namespace mesh::fields
