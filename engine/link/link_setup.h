#pragma once
// Brings a link's queue pairs up: describes them in frames, and takes them through INIT, RTR and
// RTS. Thread: control mutex, or a link's bring-up. modify_qp to RTR may take a second (address
// resolution).

#include <mesh/config.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "engine/data/link_memory.h"
#include "engine/data/peer_link.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

// ---- Limits and timers of a link between two sites, whose paths are long. Thread: any (pure).
// A link between two sites, as one side sees it.
struct SiteCrossing {
  std::string own, peer;            // site names; empty: unknown, or the host names none
  std::uint64_t round_trip_ns = 0;  // the longest one measured; 0: none was
  bool apart() const noexcept { return !own.empty() && !peer.empty() && own != peer; }
};

// Returns why these hosts may not connect, which is that one names no site; empty if they may.
std::string site_refusal(const std::string& own_host, const std::string& own_site,
                         const std::string& peer_host, const std::string& peer_site);

// Returns how many announcements or work requests may be outstanding on a queue pair. `limit` is
// the device's; 0 means unknown.
std::uint32_t long_depth(std::uint32_t usual, int limit);

// Returns the bytes in flight on a path: those of a path within a site, plus a round trip's worth
// at the port's speed. Only the usual ones if the job has set them, or if speed or round trip are
// not known.
struct LongPath {
  std::uint32_t speed_mbps = 0;
  std::uint64_t round_trip_ns = 0;
  std::uint64_t usual_inflight_bytes = 0;
};
std::uint64_t long_inflight_bytes(const TransferPolicy& policy, const LongPath& path);

// Returns NCCL_IB_TIMEOUT, or if that is less, the least value with which a try outlasts eight
// round trips. 0, which means for ever, stays 0.
int long_ack_timer(int usual, std::uint64_t round_trip_ns);

// Returns NCCL_MESH_PATH_TIMEOUT plus a hundred round trips.
std::uint64_t long_path_timeout_ns(std::uint64_t usual_ns, std::uint64_t round_trip_ns);

// ---- Set-up.
WireRail describe_rail(const verbs::Rail& rail);
// Describes the rails with their ports as they are now.
std::vector<WireRail> describe_rails(verbs::Provider& provider, std::span<const verbs::Rail> rails);

// Returns true if the PCIe slots of all rails carry their ports at full speed, both ways at once.
bool slots_have_room(std::span<const WireRail> rails) noexcept;
// Returns, as a clause, why they do not; empty if they do.
std::string narrow_slot_text(verbs::Provider& provider, std::span<const verbs::Rail> rails);

ibv_gid gid_of(const WireAddress& address);

// Sets what the settings say about a path of that rail: adaptive routing, which keeps a write with
// immediate in order but not plain writes, and whether the devices may agree on options (ECE).
void configure_path(PeerLink& link, Path& path, const Settings& settings);

// Sets the path's speed and bytes in flight: our port's speed now, or the peer's at the handshake.
void take_port_speed(PeerLink& link, Path& path);

// Asks the device for the options of a path; one of its queue pairs tells, as all are made alike. A
// new queue pair tells what the device offers, a connected one what was accepted, or nothing.
void note_ece(Path& path, const QueuePair& one);

// Describes this side's queue pairs of one path. `written` is the memory that the peer writes: the
// connector's window words, or the acceptor's memory for probes. The path keeps the LID told.
WirePath describe_path(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written);

// Connector: describes our queue pairs of a path, with its part of the window words, which the peer
// writes.
WirePath offer_path(PeerLink& link, std::uint32_t index, const PeerWritable& window_words,
                    std::uint32_t psn);

// Both as above, for the path's late queue pairs.
WirePath describe_late(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written);
WirePath offer_late(PeerLink& link, Path& path, const PeerWritable& window_words,
                    std::uint32_t psn);

// Allows more bytes in flight than usual on the path if the link is between two sites.
void set_inflight(Path& path, const SiteCrossing& crossing, const TransferPolicy& policy);

// Describes our queue pairs of a relayed path to the middle host next to us; takes that host's.
WireHop describe_hop(Path& path, const WirePath& ends);
Status take_hop(Path& path, const WireHop& hop);  // InvalidArgument: another number of queue pairs
// Both make what a relayed path's bring-up is told: the peer's memory, the middle host's queue
// pairs and address.
WirePath over_hop(WirePath ends, const WireHop& hop);
std::vector<WireRail> with_hop(std::vector<WireRail> peer_rails, const Path& path,
                               const WireHop& hop);

// Acceptor: sets the peer's window words of each of these queue pairs of one path.
void set_peer_windows(std::span<const std::unique_ptr<QueuePair>> queue_pairs,
                      const WirePath& peer);

// Connector: sets the memory that the path's probes may write.
void set_probe_target(Path& path, const WirePath& peer);

struct PeerEnd {
  const WireRail* rail = nullptr;
  const WirePath* path = nullptr;  // the peer's queue pairs
  std::uint32_t own_psn = 0;
  const std::atomic<bool>* abandoned = nullptr;  // set by another thread: ends before the next try
  bool again = false;                            // not the first try: a failure is no news
  bool late = false;                             // the path's late queue pairs
};

// Returns true if the link has a path whose rails are named when it is opened.
bool names_rails(const PathSet& paths) noexcept;
// Returns the name of a direct path: "mesh0:1 10.0.12.1 -> mesh0:1 10.0.12.2".
std::string path_name(const DeviceContext& device, const PathEnds& ends, const WireRail& peer);
// Returns the name of a path over other hosts whose rails are named: "mesh1:1 -> mesh1:1".
std::string relayed_name(const DeviceContext& device, const WireRail& peer);

// Takes every queue pair of the path, or every late one, from RESET to RTS. Fills the receive
// queues before anything can arrive. Returns Transport if refused (logged with device, peer address
// and errno), or PeerClosed if abandoned.
Status connect_path(Path& path, const PeerEnd& peer, const Settings& settings);

}  // namespace mesh::engine
