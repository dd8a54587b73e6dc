#pragma once
// Brings a link's queue pairs up: what they look like on the wire, and the verbs states INIT, RTR,
// RTS. Thread: control mutex, or a link's bring-up. modify_qp to RTR may take a second (address
// resolution).

#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "engine/data/peer_link.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace mesh::engine {

WireRail describe_rail(const verbs::Rail& rail);
// With their ports as they are now.
std::vector<WireRail> describe_rails(verbs::Provider& provider, std::span<const verbs::Rail> rails);

ibv_gid gid_of(const WireAddress& address);

// What the settings say about a path of that rail: adaptive routing (which keeps a write with
// immediate in order, and plain writes need not be), and whether devices may agree on options.
void configure_path(PeerLink& link, Path& path, const Settings& settings);

// The path is as fast as our port is now, or the peer's was at the handshake; so much is in flight.
void take_port_speed(PeerLink& link, Path& path);

// This side's queue pairs of one path. written: what the peer writes, which is the connector's
// window words, or the acceptor's memory for probes. The path keeps the LID that the peer is told.
WirePath describe_path(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written);

// The same of a relayed path, as the middle host next to us sees it; and what we learn of that one.
WireHop describe_hop(Path& path, const WirePath& ends);
Status take_hop(Path& path, const WireHop& hop);  // InvalidArgument: it does not fit
// What a bring-up is told of the peer: its memory, and the middle host's queue pairs and address.
WirePath over_hop(WirePath ends, const WireHop& hop);
std::vector<WireRail> with_hop(std::vector<WireRail> peer_rails, const Path& path,
                               const WireHop& hop);

// Acceptor: where the peer counts the announcements of each queue pair of the path.
void set_peer_windows(Path& path, const WirePath& peer);

// Connector: where the probes of the path may write.
void set_probe_target(Path& path, const WirePath& peer);

struct PeerEnd {
  const WireRail* rail = nullptr;
  const WirePath* path = nullptr;  // the peer's queue pairs
  std::uint32_t own_psn = 0;
  const std::atomic<bool>* abandoned =
      nullptr;         // set from another thread: ends before the next try
  bool again = false;  // not the first time: a failure is no news
};

// RESET to RTS for every queue pair of the path; the receive queues are filled before anything can
// arrive. Transport: refused, logged with device, peer address and errno. PeerClosed: abandoned.
Status connect_path(Path& path, const PeerEnd& peer, const Settings& settings);

}  // namespace mesh::engine
