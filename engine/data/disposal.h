#pragma once
// Destroys queue pairs in the background, one after the other, on a thread that ends when none is
// left. Most devices need microseconds for one. soft-RoCE waits until the port has sent the last
// packet of the queue pair, which takes for ever while the other end of the cable takes no packets.
// Thread: any; `gone` is called on the background thread. Bound: the number given to reserve().

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
  // gone(tag): the queue pair with that tag is destroyed. It may take locks that callers of take()
  // hold.
  using Gone = std::function<void(std::uint32_t tag)>;
  explicit Disposal(Gone gone) : gone_(std::move(gone)) {}
  ~Disposal() { wait_until_destroyed(); }
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  // Makes room for that many at a time, so that take() allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t queue_pairs);
  // False: a thread could not be started, and will not be tried again; the caller keeps the queue
  // pair.
  bool take(verbs::QpHandle& queue_pair, std::uint32_t tag) noexcept;
  // Returns when all are destroyed and the last gone() has returned. take() must not be called
  // meanwhile, and the caller must hold no lock that gone() takes.
  void wait_until_destroyed() noexcept;

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
  bool refused_ = false;       // a thread could not be started
  std::thread thread_;
};

}  // namespace mesh::engine
