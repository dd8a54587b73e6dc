#include "engine/data/late_queue_pairs.h"

#include "engine/data/device_context.h"
#include "engine/data/path.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/recv_queue_pair.h"
#include "engine/data/send_queue_pair.h"
#include "src/base/check.h"

#include <utility>

namespace mesh::engine {

std::unique_ptr<QueuePair> new_queue_pair(PeerLink& link, Path& path, std::uint32_t index) {
  const QueuePairPlace place{.link = &link, .path = &path, .index = index};
  if (link.identity().role == LinkRole::Connector)
    return std::make_unique<SendQueuePair>(link.policy(), place);
  return std::make_unique<RecvQueuePair>(link.policy(), place);
}

void LateQueuePairs::want() noexcept {
  DCHECK(link_.loop().held());
  if (!wanted_.exchange(true, std::memory_order_relaxed)) link_.loop().add_wishing(link_);
}

void LateQueuePairs::forget_wish() noexcept {
  DCHECK(link_.loop().held());
  link_.loop().forget_wishing(link_);  // a link is on that list once at most
  wanted_.store(false, std::memory_order_relaxed);
}

bool LateQueuePairs::is_narrow(const Path& path) noexcept {
  return path.health.state == PathState::Up && path.queue_pairs.size() == 1;
}

Path* LateQueuePairs::next_narrow() noexcept {
  DCHECK(link_.loop().held());
  for (Path& path : link_.paths().all()) {
    if (is_narrow(path)) return &path;
  }
  return nullptr;
}

void LateQueuePairs::provide(Path& path) {
  DCHECK(link_.loop().held());
  DCHECK(path.late.empty() && is_narrow(path));
  path.late.reserve(link_.policy().qps);
  for (std::uint32_t index = 1; index <= link_.policy().qps; ++index)
    path.late.push_back(new_queue_pair(link_, path, index));
}

void LateQueuePairs::join(Path& path) noexcept {
  DCHECK(link_.loop().held());
  DCHECK(is_narrow(path) && path.late.size() == link_.policy().qps);
  DCHECK(path.queue_pairs.capacity() >= 1 + path.late.size());
  for (auto& queue_pair : path.late) path.queue_pairs.push_back(std::move(queue_pair));
  path.late.clear();
}

void LateQueuePairs::drop(Path& path) noexcept {
  DCHECK(link_.loop().held());
  for (const auto& queue_pair : path.late) path.device->stop(*queue_pair);
  for (const auto& queue_pair : path.late) {
    link_.loop().forget(*queue_pair);
    path.device->destroy(*queue_pair);
  }
  path.late.clear();
}

}  // namespace mesh::engine
