#pragma once
// Loses a path when the test chooses, as an error completion would, and keeps work under way until
// then. Thread: one.

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

inline void lose_path(Channel& channel, std::uint32_t index) {
  const engine::ProgressLoop::Guard guard(channel.loop);
  channel.link.quarantine(channel.link.paths()[index], "the test says so");
}

// Delays all writes that the host posts from now on to that NIC, or to every NIC if `nic` is empty.
inline void delay_writes(BedHost& host, const std::string& nic, std::uint64_t delay_ns) {
  soft::Fault fault;
  fault.kind = soft::FaultKind::WriteDelay;
  fault.nic = nic;
  fault.delay_ns = delay_ns;
  EXPECT_TRUE(host.provider->faults().arm(fault).ok());
}

}  // namespace mesh::testkit
