#pragma once
// What a peer in another process puts in order (it saw our post before it wrote to us), a race
// detector in this process cannot see. Posting releases this edge and every turn acquires it;
// without a race detector it is nothing. Thread: any.

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
