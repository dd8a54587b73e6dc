#pragma once
// Destroys queue pairs in the background, on threads that end when none is left. One thread
// destroys the queue pairs of one owner at a time, so one that takes long delays no other owner's.
// Most devices need microseconds. soft-RoCE waits until the port has sent the queue pair's last
// packet, which never happens while the other end of the cable takes no packets.
//
// Thread: any; `gone` is called on the background threads.
// Bounds: the number given to reserve(), and kThreadsMax owners at the same time.

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
  // Called as gone(tag) when the queue pair with that tag is destroyed. It may take locks that
  // callers of take() hold.
  using Gone = std::function<void(std::uint32_t tag)>;
  explicit Disposal(Gone gone) : gone_(std::move(gone)) {}
  ~Disposal() { wait_until_destroyed(); }
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  // Makes room for that many at a time, so that take() allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t queue_pairs);
  struct Whose {
    const void* owner = nullptr;  // only compared, never dereferenced
    std::uint32_t tag = 0;
  };
  // Returns false if no thread could be started: the caller keeps the queue pair, and no thread
  // will be tried again.
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
  // Returns the index in waiting_ of the last queue pair of that owner. If it has none, that of the
  // last one whose owner no thread serves; if all are served, waiting_.size().
  std::size_t next_for(const void* owner) const noexcept;
  void start_where_needed() noexcept;
  std::thread take_thread() noexcept;  // one that may still run, or none

  const Gone gone_;
  std::mutex mutex_;
  std::vector<Item> waiting_;
  std::array<Worker, kThreadsMax> workers_;
  bool refused_ = false;  // a thread could not be started while none was running
};

}  // namespace mesh::engine
