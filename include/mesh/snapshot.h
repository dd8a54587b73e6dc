#pragma once
// The engine's figures and states at one moment, for a watcher outside. Thread: any (values).
// Bound: it grows with rails, and with peers and their paths (engine/figures.h).

#include <mesh/latency.h>
#include <mesh/metrics.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

// Reason why the oldest open request of a channel waits, as far as this host can see.
enum class WaitReason : std::uint8_t {
  Credit,      // send: the peer has posted no receive for it
  Tag,         // send: the peer's next receive has another tag
  Data,        // receive: the peer has not sent all of it yet
  Turn,        // it is posted or could be, but NCCL has not tested it since the last look
  Completion,  // send: it is posted, and the NIC has not answered
  Queue,       // a send queue has no room
  Window,      // send: the peer has not returned announcements
  Inflight,    // send: bytes in flight on its path are not acknowledged
  Path,        // no path of the link is up
  QueuePairs,  // send: the link's bulk queue pairs are being made
};
inline constexpr std::size_t kWaitReasons = 10;

// Returns true if a program, ours or the peer's, may just take its time: nothing need be wrong.
constexpr bool is_patient(WaitReason reason) noexcept { return reason <= WaitReason::Turn; }

// The reason's name in metrics, in static storage. Thread: any.
const char* wait_reason_name(WaitReason reason) noexcept;

// One path to one peer, summed over every link, past or living, between the two hosts in one
// direction.
struct PathSnapshot {
  std::string name;  // "mesh0:1 10.0.12.1 -> mesh0:1 10.0.12.2"
  std::string rail;  // our rail
  PathCounters counters;
  LatencyHistogram latency;          // of a path on which we send
  std::uint64_t inflight_bytes = 0;  // bytes of large messages at this moment
  // Number of living links whose path has each state; standby: not open, because a better path is.
  std::uint64_t up = 0, quarantined = 0, down = 0, standby = 0;
  std::uint64_t epoch = 0;  // the highest of living links
  std::uint64_t failures = 0, replayed_stripes = 0, reopen_tries = 0;
  std::uint64_t black_holes = 0;  // times only small packets came through: an MTU on the way
  std::string last_cause;         // cause of the last failure; empty: none
  // Relayed: the hosts that it leads over ("b", "b and c"), or led over last; each route once.
  std::vector<std::string> routes;
};

// Channels of one direction to one peer that wait for the same reason, and whose oldest request is
// open for a second or more.
struct WaitSnapshot {
  std::uint64_t channels = 0;
  std::uint64_t longest_ns = 0;
};

// All links to one peer in one direction. The sums include links that have ended.
struct PeerSnapshot {
  std::string peer;                                          // its host's name
  bool sends = false;                                        // this side sends
  std::uint64_t links = 0, channels = 0, open_requests = 0;  // at this moment
  std::uint64_t spent_links = 0;  // links that have failed or have no open channel
  std::uint64_t messages = 0, bytes = 0;
  // Time in which some path of a link was not up, and in which none was. Sampled once a second.
  std::uint64_t degraded_ns = 0, without_path_ns = 0;
  std::array<WaitSnapshot, kWaitReasons> waits{};  // by reason
  std::vector<PathSnapshot> paths;
};

struct AddressSnapshot {
  std::string address;  // with its prefix, "10.0.12.1/24"
  int gid_index = -1;
};

struct RailSnapshot {
  std::string name, address;
  std::uint64_t speed_mbps = 0;
  std::string state;  // the port's state as the device says: "active", "down"
  bool active = false;
  bool offered = false;  // a device of NCCL's; false: its port was down at the start
  std::vector<AddressSnapshot> addresses;  // the preferred one first
  std::string gid_type;                    // "RoCE v2"
  std::uint64_t mtu = 0;                   // of RDMA packets
  int numa_node = -1;
  std::string pci;               // "0000:01:00.0"; empty: no PCI parent
  std::uint64_t port_downs = 0;  // times the device has told that the port went down
};

// Why a port is no rail.
enum class RefusalKind : std::uint8_t {
  Unusable,
  Down,
  LeftOut,
  NoAddress,    // it has no GID that can be used
  NoPartition,  // it has no partition key as NCCL_IB_PKEY or NCCL_IB_PKEY_VALUE says
  NoMemory,     // the device had no memory for a queue, as a rule because of ulimit -l
  Limited,      // the device grants less than is needed
  IWarp
};

struct RefusedPort {
  std::string port;  // "mlx5_0:1", or "mlx5_0" for all ports of a device
  RefusalKind kind = RefusalKind::Unusable;
  std::string reason;  // "has no RoCE v2 GID among 4: give its net device an address"
};

// Traffic that this process carries for other hosts, in at one of its rails and out at another.
struct RelayedSnapshot {
  std::string from, rail;  // the rail over which it comes, and the rail over which it leaves
  std::uint64_t bytes = 0, work_requests = 0;
  std::uint64_t ring_full = 0;  // turns with work for which the next host had no room
};

struct RelaySnapshot {
  std::uint64_t paths = 0, chains = 0, ring_bytes = 0;  // those of other hosts, at this moment
  // Paths that were asked for and refused; malformed frames about paths; malformed work requests,
  // each of which has cut its chain.
  std::uint64_t refused_paths = 0, refused_frames = 0, refused_requests = 0;
  std::vector<RelayedSnapshot> ways;
};

// Questions over our cables for hosts that carry messages between two others, and their answers.
struct NeighbourCounts {
  std::uint64_t asked = 0;     // questions sent, one for each port
  std::uint64_t taken = 0;     // answers to them that named a host
  std::uint64_t answered = 0;  // questions of others that were answered
  // Datagrams that were ignored: neither question nor answer; made without our job's secret, or too
  // late; above a bound.
  std::uint64_t malformed = 0, foreign = 0, excess = 0;
};

// Counts how often something could not be posted at once. A waiting send counts at each look.
struct StallCounts {
  std::uint64_t credit = 0, queue = 0, window = 0, inflight = 0;
};

// All figures at one moment. EngineStats's counts of messages are also there by peer and path.
struct EngineSnapshot {
  std::string host;
  EngineStats stats;
  StallCounts stalls;
  std::vector<RailSnapshot> rails;
  std::vector<RefusedPort> refused_ports;
  std::vector<std::string> notes;  // about rails, for people: which share a subnet
  std::vector<PeerSnapshot> peers;
  RelaySnapshot relay;
  NeighbourCounts neighbours;
};

}  // namespace mesh
