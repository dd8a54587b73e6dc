#pragma once
// The verbs states of one RC queue pair: from RESET over INIT and RTR to RTS. Thread: any that owns
// the queue pair. to_rtr() may take seconds: the kernel resolves the peer's address on the way.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mesh::engine {

// Our end: the port, which of its addresses speaks, what the job wants of it, and how log lines
// call it.
struct PortEnd {
  verbs::Provider& provider;  // which made the queue pair
  const verbs::Rail& rail;
  std::size_t address = 0;  // index in the rail's list
  int gid_index = 0;        // of that address, now
  const Settings& settings;
  const std::string& name;
};
// The queue pair at the other end.
struct FarEnd {
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t qpn = 0, psn = 0;
  ibv_mtu mtu = IBV_MTU_1024;  // the smaller of both ports'
};

// The kernel asks for a neighbour's hardware address once and waits a second: one lost frame would
// be the end of the link. For all queue pairs of a path together: they ask for the same address.
struct ResolveTries {
  const std::atomic<bool>* abandoned =
      nullptr;         // set from another thread: ends before the next try
  bool again = false;  // not the first time: a failure is no news
  int left = 3;

  bool is_abandoned() const noexcept {
    return abandoned != nullptr && abandoned->load(std::memory_order_relaxed);
  }
};

Status to_init(const PortEnd& own, ibv_qp* qp);
// Transport: refused, logged with device, peer address and errno. PeerClosed: abandoned.
Status to_rtr(const PortEnd& own, ibv_qp* qp, const FarEnd& far, ResolveTries& tries);
Status to_rts(const PortEnd& own, ibv_qp* qp, std::uint32_t psn);

}  // namespace mesh::engine
