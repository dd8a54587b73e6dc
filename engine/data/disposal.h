#pragma once
// Destroys queue pairs on a thread of its own, one after the other, while nobody waits. Most
// devices need a moment for one. Some need as long as a packet of it is on its way: soft-RoCE waits
// for those that it gave to a port whose other end has stopped taking any. The thread is there only
// while there is something to destroy. Thread: any; `gone` is called on the thread. Bound: what
// reserve() was told.

#include "src/verbs/handle.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mesh::engine {

class Disposal {
 public:
  // gone(tag): that queue pair is destroyed. May take whatever the callers of take() hold.
  using Gone = std::function<void(std::uint32_t tag)>;
  explicit Disposal(Gone gone) : gone_(std::move(gone)) {}
  ~Disposal() { settle(); }
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  // Room for so many at a time; take() asks for no memory of ours then. Throws std::bad_alloc.
  void reserve(std::size_t queue_pairs);
  // False: no thread is to be had, now or at any other time, and the queue pair is still the
  // caller's.
  bool take(verbs::QpHandle& queue_pair, std::uint32_t tag) noexcept;
  // Until all of them are destroyed and gone() has returned. Nobody calls take() meanwhile, and the
  // caller holds nothing that gone() takes.
  void settle() noexcept;

 private:
  struct Item {
    verbs::QpHandle queue_pair;
    std::uint32_t tag = 0;
  };
  void run() noexcept;

  const Gone gone_;
  std::mutex mutex_;
  std::vector<Item> waiting_;  // the next one last
  bool running_ = false;       // the thread will look at waiting_ once more
  bool refused_ = false;       // there was no thread for us
  std::thread thread_;
};

}  // namespace mesh::engine
