#include "engine/data/bulk_order.h"

#include "engine/data/path.h"
#include "engine/data/send_queue_pair.h"
#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

void BulkOrder::assign(const std::vector<Path*>& usable) {
  reservation_.withdraw();  // it was made for other queue pairs
  std::size_t fewest = usable.empty() ? 1 : usable.front()->queue_pairs.size();
  for (const Path* const path : usable) fewest = std::min(fewest, path->queue_pairs.size());
  DCHECK(fewest != 0);
  each_ = static_cast<std::uint32_t>(fewest) - 1;  // without the express one
  order_.clear();
  for (const std::uint32_t round : {0u, 1u}) {
    for (std::size_t i = 1; i <= each_; ++i) {
      for (const Path* const path : usable)
        order_.push_back(&SendQueuePair::of(*path->queue_pairs[i]));
    }
    if (round == 0) count_ = static_cast<std::uint32_t>(order_.size());
  }
  DCHECK(order_.size() == std::size_t{2} * count_);
  cursor_ = 0;
}

bool BulkOrder::reserve_uniform() noexcept {
  reservation_.withdraw();
  if (count_ == 0) return false;
  std::uint32_t least = UINT32_MAX;
  for (std::uint32_t i = 0; i < count_; ++i) least = std::min(least, order_[i]->stripes_left());
  reservation_.give(least);
  return reservation_.take();
}

}  // namespace mesh::engine
