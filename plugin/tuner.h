#pragma once
// The tuner that belongs to one-shot all-reduce, as NCCL calls it. Without it NCCL's model takes a
// CollNet at every size. It changes nothing for communicators without a CollNet of ours: NCCL asks
// the tuner of its net's library for all communicators. Thread: the application's. Bound: none.

#include "plugin/nccl/tuner.h"

#include <cstddef>
#include <cstdint>

namespace mesh::plugin::tuner {

struct Communicator {
  const std::uint64_t* id = nullptr;  // null from callers of v3 and v4
  std::size_t hosts = 0;
  bool cuts_chunks = false;  // NCCL will call cut()
};
ncclResult_t init(const Communicator& communicator, void** context) noexcept;
ncclResult_t finalize(void* context) noexcept;

struct Costs {
  float* first = nullptr;  // `protocols` floats for each algorithm; negative: no choice
  int algorithms = 0, protocols = 0;
};
struct Message {
  int function = 0;  // NCCL's enum
  std::size_t bytes = 0;
};
// Leaves an all-reduce for which one exchange is faster to the CollNet if NCCL offers it, and takes
// the CollNet from smaller and larger ones if there is another choice.
ncclResult_t choose(void* context, const Message& message, const Costs& costs) noexcept;

struct Choice {
  int algorithm = 0, protocol = 0, channels = 0;
};
ncclResult_t cut(void* context, const Message& message, const Choice& choice,
                 std::size_t* chunk_bytes) noexcept;

}  // namespace mesh::plugin::tuner
