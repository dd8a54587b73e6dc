#pragma once
// The bulk queue pairs of a path that are made late: with the first message that wants them. Most
// links of a large job never need more than their express queue pair. While they are made they
// belong to the path's `late` and not to its `queue_pairs`, so the loop does not know them; they
// join when both sides are done (link/widening.h). Thread: want() by the loop's holder, wanted() by
// any, the rest by the control mutex and progress lock. Bound: policy.qps for each path.

#include <atomic>
#include <cstdint>
#include <memory>

namespace mesh::engine {

class PeerLink;
class QueuePair;
struct Path;

// Makes a queue pair's object, without its verbs queue pair, for the index-th place of the path.
std::unique_ptr<QueuePair> new_queue_pair(PeerLink& link, Path& path, std::uint32_t index);

class LateQueuePairs {
 public:
  explicit LateQueuePairs(PeerLink& link) noexcept : link_(link) {}

  // A message wants a bulk queue pair and there is none. The first call wakes the control thread.
  void want() noexcept;
  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  void forget_wish() noexcept;  // whoever still wants some calls want() again

  // Returns a path that is up and has only its express queue pair; null if there is none.
  Path* next_narrow() noexcept;
  static bool is_narrow(const Path& path) noexcept;

  void provide(Path& path);        // the objects
  void join(Path& path) noexcept;  // they are at RTS on both sides; the caller shares out anew
  void drop(Path& path) noexcept;  // they come to nothing, or the link ends

 private:
  PeerLink& link_;
  std::atomic<bool> wanted_{false};
};

}  // namespace mesh::engine
