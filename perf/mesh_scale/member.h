#pragma once
// One process of a communicator of many hosts, and what it holds of the system: a channel to each
// of its peers and one from each, as NCCL connects an all-to-all. The peers are communicators of
// one other process, on another host of the software fabric. Several such pairs share both hosts.
// Each size has processes of its own, so that none finds what another has left. Thread: one.
// Bounds: kPeersMax peers; kProcessesMax pairs; kStepLimit for each step.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::scale {

// The system's resources that a process holds and has used.
struct Usage {
  std::uint64_t heap_bytes = 0;      // allocated and not freed: equal in every run
  std::uint64_t resident_bytes = 0;  // with what the software fabric's NICs hold
  std::uint64_t descriptors = 0, threads = 0;
  std::uint64_t wall_ns = 0, cpu_ns = 0;  // wall: a steady clock; cpu: all threads
};

// Both directions of a peer with a queue pair each, and some with all: a NIC of the software fabric
// has 4096.
inline constexpr std::size_t kPeersMax = 1023;
inline constexpr std::size_t kProcessesMax = 16;   // of a host of the software fabric
inline constexpr std::size_t kLargePeersMax = 16;  // those that are sent large messages
inline constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
inline constexpr std::chrono::seconds kStepLimit{300};

struct Order {
  std::size_t peers = 64;
  std::size_t at_once = 128;  // peers that are connected in one round
  std::size_t processes = 1;  // on the host
};

struct Figures {
  std::size_t peers = 0;
  Usage alone, connected, closing, closed;  // before and after connecting, before and after closing
  std::uint64_t queue_pairs = 0;            // while connected
  // The time of the first and of the second large message to a peer, medians.
  std::uint64_t first_large_ns = 0, second_large_ns = 0;
};

// Runs all processes. `figures` gets those of each process of the host while all are connected.
// Returns an empty text on success, or else what failed.
std::string measure(const Order& order, std::vector<Figures>& figures);

}  // namespace mesh::scale
