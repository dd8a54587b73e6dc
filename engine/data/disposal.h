#pragma once
// Destroys queue pairs in the background, on threads that end when none is left: those of one owner
// one after the other, those of kThreadsMax owners at the same time. Most devices need microseconds
// for one. soft-RoCE waits until the port has sent the last packet of the queue pair, which takes
// for ever while the other end of the cable takes no packets; then nobody else's may wait behind
// it. Thread: any; `gone` is called on the background threads. Bound: the number given to
// reserve().

#include "src/verbs/handle.h"

#include <array>
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
  static constexpr std::size_t kThreadsMax = 8;
  // gone(tag): the queue pair with that tag is destroyed. It may take locks that callers of take()
  // hold.
  using Gone = std::function<void(std::uint32_t tag)>;
  explicit Disposal(Gone gone) : gone_(std::move(gone)) {}
  ~Disposal() { wait_until_destroyed(); }
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  // Makes room for that many at a time, so that take() allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t queue_pairs);
  struct Whose {
    const void* owner = nullptr;  // it is compared with others and not looked at
    std::uint32_t tag = 0;
  };
  // False: the caller keeps the queue pair, because no thread could be started. None will be tried
  // again.
  bool take(verbs::QpHandle& queue_pair, const Whose& whose) noexcept;
  // Returns when all are destroyed and the last gone() has returned. take() must not be called
  // meanwhile, and the caller must hold no lock that gone() takes.
  void wait_until_destroyed() noexcept;

 private:
  struct Item {
    verbs::QpHandle queue_pair;
    Whose whose;
  };
  struct Worker {
    std::thread thread;
    bool running = false;  // it will look at waiting_ once more
    const void* owner = nullptr;
  };
  void run(Worker& self) noexcept;
  bool is_served(const void* owner) const noexcept;
  // Of that owner, or else of one that no thread serves; waiting_.size(): there is none.
  std::size_t next_for(const void* owner) const noexcept;
  void start_where_needed() noexcept;
  std::thread take_thread() noexcept;  // one that may still run, or none

  const Gone gone_;
  std::mutex mutex_;
  std::vector<Item> waiting_;
  std::array<Worker, kThreadsMax> workers_;
  bool refused_ = false;  // there was no thread at all
};

}  // namespace mesh::engine
