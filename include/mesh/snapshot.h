#pragma once
// The engine's figures and states at one moment, for who watches it from outside.
// Thread: any (values). Bound: grows with rails, and with peers and their paths (see
// engine/peer_ledger.h).

#include <mesh/metrics.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

// What the oldest open request of a channel waits for, as far as this host can see.
enum class WaitReason : std::uint8_t {
  Credit,      // send: the peer has posted no receive for it
  Tag,         // send: the peer's next receive has another tag
  Data,        // receive: the peer has sent nothing for it yet, or not all
  Turn,        // posted or ready to be, but nobody has asked about it since the last look
  Completion,  // send: posted, and the NIC has not answered
  Queue,       // for room in a send queue
  Window,      // send: the peer has not returned announcements
  Inflight,    // send: for bytes in flight on its path to be acknowledged
  Path,        // for a path: none of the link's is up
};
inline constexpr std::size_t kWaitReasons = 9;

// True where the peer's or our own program may take its time and nothing need be wrong.
constexpr bool is_patient(WaitReason reason) noexcept { return reason <= WaitReason::Turn; }

// Name as in metrics, static storage. Thread: any.
const char* wait_reason_name(WaitReason reason) noexcept;

// One path to one peer, of every link there was or is between the two hosts in one direction.
struct PathSnapshot {
  std::string name;  // "mesh0:1 10.0.12.1 -> mesh0:1 10.0.12.2"
  std::string rail;  // ours
  PathCounters counters;
  std::uint64_t inflight_bytes = 0;                 // now, of large messages
  std::uint64_t up = 0, quarantined = 0, down = 0;  // links where it is that now
  std::uint64_t epoch = 0;                          // the highest of living links
  std::uint64_t failures = 0, replayed_stripes = 0, reopen_tries = 0;
  std::string last_cause;  // of the last failure; empty: none
};

// Channels of one direction to one peer whose oldest request is open for a second or more, by what
// they wait for.
struct WaitSnapshot {
  std::uint64_t channels = 0;
  std::uint64_t longest_ns = 0;
};

// All links to one peer in one direction; what has ended is counted on.
struct PeerSnapshot {
  std::string peer;                                          // its host's name
  bool sends = false;                                        // we do
  std::uint64_t links = 0, channels = 0, open_requests = 0;  // now
  std::uint64_t messages = 0, bytes = 0;
  std::uint64_t degraded_ns = 0,
                without_path_ns =
                    0;  // some path of a link was not up, or none; as seen once a second
  std::array<WaitSnapshot, kWaitReasons> waits{};  // by reason
  std::vector<PathSnapshot> paths;
};

struct RailSnapshot {
  std::string name, address;
  std::uint64_t speed_mbps = 0;
  std::string state;  // of the port, as the device says: "active", "down"
  bool active = false;
};

// How often something could not be posted at once. A send that waits is counted at every look.
struct StallCounts {
  std::uint64_t credit = 0, queue = 0, window = 0, inflight = 0;
};

// Everything at one moment. Of what EngineStats counts per message, peers and paths have it.
struct EngineSnapshot {
  std::string host;
  EngineStats stats;
  StallCounts stalls;
  std::vector<RailSnapshot> rails;
  std::vector<PeerSnapshot> peers;
};

}  // namespace mesh
