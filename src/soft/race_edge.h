#pragma once
// An order that a race detector cannot see: a peer in another process saw our post before it wrote
// to us. Posting releases this edge and every turn acquires it. Without a race detector the edge
// does nothing. Thread: any. Bound: none.

#include <atomic>

#if defined(__SANITIZE_THREAD__)
#define MESH_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MESH_RACE_DETECTOR 1
#endif
#endif

namespace mesh::soft {

class RaceEdge {
 public:
#ifdef MESH_RACE_DETECTOR
  void release() noexcept { word_.fetch_add(1, std::memory_order_acq_rel); }
  void acquire() noexcept { word_.fetch_add(0, std::memory_order_acq_rel); }

 private:
  std::atomic<unsigned> word_{0};
#else
  void release() noexcept {}
  void acquire() noexcept {}
#endif
};

}  // namespace mesh::soft
