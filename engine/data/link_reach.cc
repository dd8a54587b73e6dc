#include "engine/data/link_reach.h"

#include "engine/data/progress_loop.h"
#include "src/base/log.h"

namespace mesh::engine {

void LinkReach::want_path() noexcept {
  if (!wanted_.exchange(true, std::memory_order_relaxed)) loop_.wake_control();
}

void LinkReach::tell_unreachable() noexcept {
  if (told_.exchange(true, std::memory_order_relaxed)) return;
  LOG_WARN("peer {}: a message to a host that no path leads to fails: {}", peer_host_, why_);
}

}  // namespace mesh::engine
