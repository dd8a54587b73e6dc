#pragma once
// Takes one RC queue pair through the verbs states: from RESET over INIT and RTR to RTS. Thread:
// any that owns the queue pair. to_rtr() may take seconds: the kernel resolves the peer's address
// on the way.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/base/log.h"
#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mesh::engine {

// Our end of a queue pair: the port, its address in use, the job's settings, and the name for log
// lines.
struct PortEnd {
  verbs::Provider& provider;  // the one that made the queue pair
  const verbs::Rail& rail;
  std::size_t address = 0;  // index in the rail's list
  int gid_index = 0;        // of that address at present
  const Settings& settings;
  const std::string& name;
};
// The peer's queue pair, to which ours connects.
struct FarEnd {
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t qpn = 0, psn = 0;
  ibv_mtu mtu = IBV_MTU_1024;  // the smaller of both ports'
};

// The tries of to_rtr(). The kernel asks for a neighbour's hardware address once and waits a
// second, so one lost frame would end the link. All queue pairs of a path share them.
struct ResolveTries {
  const std::atomic<bool>* abandoned = nullptr;  // set by another thread: ends before the next try
  LogLevel level = LogLevel::Warn;               // of the line about a failure
  int left = 3;

  bool is_abandoned() const noexcept {
    return abandoned != nullptr && abandoned->load(std::memory_order_relaxed);
  }
};

Status to_init(const PortEnd& own, ibv_qp* qp);
// Returns Transport if refused (logged with own.name and errno), or PeerClosed if abandoned.
Status to_rtr(const PortEnd& own, ibv_qp* qp, const FarEnd& far, ResolveTries& tries);
Status to_rts(const PortEnd& own, ibv_qp* qp, std::uint32_t psn);

}  // namespace mesh::engine
