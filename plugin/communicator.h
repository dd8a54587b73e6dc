#pragma once
// The object that init of v11 and later returns to NCCL, and that NCCL passes to listen, connect
// and finalize. NCCL's RMA backend takes it for a configuration of NCCL's own: it reads the traffic
// class at its beginning, and writes another class there before it connects (net_ib's
// ncclIbSetTrafficClass). Thread: NCCL's, any. Bound: one a communicator.

#include <mesh/engine.h>

#include "plugin/nccl/versions.h"

#include <atomic>
#include <cstddef>
#include <type_traits>

namespace mesh::plugin {

struct Communicator {
  nccl::NewestCommConfig config{NCCL_NET_TRAFFIC_CLASS_UNDEF};  // NCCL may write it at any time
  std::atomic<int> engine_has{NCCL_NET_TRAFFIC_CLASS_UNDEF};  // the class that the engine was told
  Context* context = nullptr;
  bool closing = false;  // close_communicator() is under way

  int traffic_class() noexcept {
    return std::atomic_ref(config.trafficClass).load(std::memory_order_relaxed);
  }
};
static_assert(std::is_standard_layout_v<Communicator> && offsetof(Communicator, config) == 0);
static_assert(offsetof(nccl::NewestCommConfig, trafficClass) == 0);
static_assert(std::is_same_v<decltype(nccl::NewestCommConfig::trafficClass), int>);

}  // namespace mesh::plugin
