#pragma once
// A local rail and a peer's rail that reach each other, with what is under way between them.
// Thread: the loop's holder (progress lock), and the control mutex too for what a handshake, a
// fence or an opening sets; `debts` any. Of a path over other hosts or by proof each opening sets
// device, rail, ends and name. Bound: kPathsMax of a peer link.

#include <mesh/metrics.h>
#include <mesh/policy.h>

#include "engine/data/path_latency.h"
#include "engine/data/path_silence.h"
#include "src/base/check.h"
#include "src/verbs/wr_chain.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh {
class Channel;
}

namespace mesh::engine {

class DeviceContext;
class QueuePair;

// A path that failed is quarantined at once: nothing more is posted to it. When both sides have
// stopped and counted (the fence) it is down, what it lost goes over other paths, and it is opened
// again in the background under the next epoch. A path on standby has no verbs queue pairs, and
// nobody tries to open it: better ones are up, or no message has needed it.
enum class PathState : std::uint8_t { Up, Quarantined, Down, Standby };

struct PathHealth {
  PathState state = PathState::Up;
  std::uint32_t epoch = 0;     // how often its queue pairs were made anew; both sides count alike
  std::uint64_t failures = 0;  // times it was lost while a channel needed it
  std::uint64_t replayed_stripes = 0;  // stripes of ours that it lost and others carried
  std::uint64_t reopen_tries = 0;
  std::uint64_t black_holes = 0;  // times small packets came through, and full ones did not
  std::string last_cause;         // of its last failure, for log lines
  bool probe_failed = false;      // while Down: its new queue pairs do not carry anything
};

// The two ends of a path: our rail's address, and the peer's rail with its address, as indices into
// the lists of the two sides.
struct PathEnds {
  std::uint32_t own_address = 0;
  std::uint32_t peer_rail = 0;
  std::uint32_t peer_address = 0;
  std::uint32_t peer_speed_mbps = 0;  // 0: not known
  std::uint32_t mtu_bytes = 0;        // the smaller of both ports'
  bool port_down = false;             // a port of it was down when the link was made
  bool guessed = false;               // nothing but addresses says so far that its rails meet
  bool relayed = false;               // over other hosts; the route names rails and addresses
  bool by_proof = false;              // over a cable that datagrams tell when it is opened
  bool is_place() const noexcept { return relayed || by_proof; }  // opening names its rails
};

// The counters of a path on rails that it has left for others.
struct FormerRails {
  std::string name, rail;
  PathCounters counters;
  LatencyHistogram latency;
  std::uint64_t failures = 0, replayed_stripes = 0, reopen_tries = 0;
};

// Counts what the device is still to do with the queue pairs of a path. Thread: any.
struct DeviceDebts {
  std::atomic<std::uint32_t> stops{0};     // queue pairs on their way to ERR
  std::atomic<std::uint32_t> destroys{0};  // queue pairs that are being destroyed
};

struct Path {
  DeviceContext* device = nullptr;
  std::uint32_t index = 0;  // in the link
  std::uint32_t rail = 0;   // the device context's index
  // 0: primary. The paths of each further tier stand by for all paths before it. In a CTS entry
  // the path has its key at key_place, which it shares with one path of each other tier.
  std::uint32_t tier = 0, key_place = 0;
  // The fewest hosts that a path over other hosts may lead over, by its place; 0: of other paths.
  std::uint32_t hosts_least = 0;
  // The places of this path's keys, of our small memory and of the peer's, among LinkKeys.
  std::uint32_t own_key = 0, far_key = 0;
  PathEnds ends;
  std::uint16_t own_lid = 0;         // of our port, as the peer was told it; InfiniBand
  bool wants_ece = false;            // NCCL_IB_ECE_ENABLE
  bool has_ece = false;              // its queue pairs use options that both sides agreed on
  ibv_ece ece{};                     // offered or used, as its last bring-up found; 0: none
  std::string name;                  // "mesh0:1 10.0.12.1 -> mesh0:1 10.0.12.2", for log lines
  std::string over;                  // relayed: the hosts on the way, when a route was found
  std::uint32_t hosts_between = 0;   // connector: their number
  verbs::RemoteTarget probe_target;  // connector: in the peer's memory; address 0: there is none
  std::uint32_t cable_rails = 1;     // number of our rails that are on its cable
  std::uint64_t inflight_bytes_max = 0;    // the policy's, or more between sites (link_setup.h)
  std::uint64_t usual_inflight_bytes = 0;  // the policy's, for this path's port
  // Adaptive routing: a larger message's data and announcements are separate work requests.
  std::uint64_t apart_above = UINT64_MAX;
  // The channel that only the bytes in flight hold back: bytes that come free gather for it. Null
  // once that channel posts or ends.
  const Channel* byte_waiter = nullptr;
  // Sets the speed of our port, which may have been down until now; 0: the port does not say.
  void set_port_speed(const TransferPolicy& policy, std::uint32_t own_mbps) noexcept;
  // Has its queue pairs moved to ERR: the device is done with that when stops() is false.
  void stop() noexcept;
  std::string text() const;  // its name, and the hosts on the way; for log lines
  // Sum the queue pairs of all epochs: of all rails that it has had, and of those that it has now.
  PathCounters counters() const noexcept;
  PathCounters counters_of_rails() const noexcept;
  void leave_rails();  // before others are named: moves the counters to `former`
  std::uint64_t timed_writes() const noexcept;  // that have completed, on all rails
  // Any thread. Return true if the device is still moving queue pairs of the path to ERR, or still
  // destroying former ones.
  bool stops() const noexcept { return debts->stops.load(std::memory_order_acquire) != 0; }
  bool destroys() const noexcept { return debts->destroys.load(std::memory_order_acquire) != 0; }
  // ---- Of all queue pairs; the caller holds the progress lock.
  bool owes_completion() const noexcept;
  PathLook look() const noexcept;
  std::uint64_t inflight_bytes() const noexcept {
    DCHECK(bulk_done <= bulk_posted);
    return bulk_posted - bulk_done;
  }

  std::uint64_t bulk_posted = 0,
                bulk_done = 0;   // bytes given to the bulk queue pairs, and completed
  std::uint32_t speed_mbps = 0;  // the slower of both ports'
  PathHealth health;             // loop (progress lock)
  PathCounters past;             // of the queue pairs of former epochs
  PathLatency latency;
  std::vector<FormerRails> former;  // bound: the pairs of rails of both hosts
  std::uint32_t next_qp = 0;        // with several paths: where the next message's stripes begin
  // The queue pair that carried its last middle message, as an index, and the bytes of that one if
  // the next may be staged there with it (send_channel.h); 0: it may not.
  std::uint32_t last_middle = 0, middle_bytes = 0;
  // The first is the express one, the others are bulk; they are made anew in place. Empty until a
  // path that stands by is opened for the first time. A path may have the express one alone until
  // a message wants more (late_queue_pairs.h).
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::unique_ptr<QueuePair>> late;  // bulk ones that are being made
  // Shared with the device context, which may still have them when the path has gone.
  std::shared_ptr<DeviceDebts> debts = std::make_shared<DeviceDebts>();
};

}  // namespace mesh::engine
