#pragma once
// Tells a watcher which queue pairs carry a channel's sends. It reads what the queue pairs note for
// themselves, so that a channel without a watcher pays nothing. Thread: NCCL's of the channel;
// read() waits for the progress lock. Bound: the last sq_depth work requests of each queue pair; a
// watcher that asks too late misses the older ones.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mesh {

class Channel;
class Request;

// A stripe of a message, or a part of one, that was posted to a queue pair.
struct Posted {
  const Request* request = nullptr;
  int rail = 0;                         // index in Engine::rails()
  std::uint32_t queue_pair = 0;         // its number on that rail
  std::uint64_t work_request = 0;       // number of work requests posted there before it
  std::uint64_t offset = 0, bytes = 0;  // of the whole stripe, in its message
};

class PostedReader {
 public:
  // Returns a reader of what is posted from now on. The channel outlives it. Throws bad_alloc.
  static std::unique_ptr<PostedReader> of(Channel& channel);
  virtual ~PostedReader() = default;

  // Fills `out` with what was posted since the last call, in the order of each queue pair, and
  // returns the number of entries. If `out` is full, call again for the rest. Throws bad_alloc.
  virtual std::size_t read(std::span<Posted> out) = 0;
  // Returns the rail of the best path now.
  virtual int rail() const = 0;
};

}  // namespace mesh
