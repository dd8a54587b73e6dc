#pragma once
// The fields of what is carried for other hosts and of the questions for such hosts, as in
// snapshot_fields.h. Thread: any (pure). Bound: the values'.

#include <mesh/snapshot.h>

namespace mesh::fields {

template <typename Visitor>
void visit(Visitor& field, RelayedSnapshot& way) {
  field("from", way.from, "Rail over which it comes.");
  field("rail", way.rail, "Rail over which it leaves.");
  field("bytes", way.bytes, "Bytes relayed.");
  field("work_requests", way.work_requests, "Work requests relayed.");
  field("ring_full", way.ring_full, "Polls that found the next host's ring full.");
}

template <typename Visitor>
void visit(Visitor& field, RelaySnapshot& relay) {
  field("paths", relay.paths, "Paths of other hosts that this process relays.");
  field("chains", relay.chains, "Chains of queue pairs of these.");
  field("ring_bytes", relay.ring_bytes, "Memory of their rings.");
  field("refused_paths", relay.refused_paths, "Relay requests that were refused.");
  field("refused_frames", relay.refused_frames, "Malformed frames about paths.");
  field("refused_requests", relay.refused_requests, "Malformed work requests.");
  field("ways", relay.ways, "Traffic by pair of rails.");
}

template <typename Visitor>
void visit(Visitor& field, NeighbourCounts& neighbours) {
  field("asked", neighbours.asked, "Questions sent over our ports.");
  field("taken", neighbours.taken, "Answers to these that named a host.");
  field("answered", neighbours.answered, "Questions of others that were answered.");
  field("malformed", neighbours.malformed, "Datagrams that are neither question nor answer.");
  field(
      "foreign", neighbours.foreign,
      "Those made without the job's secret (another job, a forgery), and answers that came late.");
  field("excess", neighbours.excess, "Those above a bound, as in a flood.");
}

}  // namespace mesh::fields
