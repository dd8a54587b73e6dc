#include "engine/data/path.h"

#include "engine/data/queue_pair.h"

namespace mesh::engine {

std::string Path::text() const { return over.empty() ? name : name + " over " + over; }

PathCounters Path::counters() const noexcept {
  PathCounters sum = past;
  for (const auto& queue_pair : queue_pairs) queue_pair->add_to(&sum);
  sum.bytes_sent += bulk_posted;
  return sum;
}

}  // namespace mesh::engine
