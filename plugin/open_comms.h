#pragma once
// The comms that NCCL was given and has not closed, by address, each with its context. NCCL may
// close a comm after the finalize that has destroyed it: such a comm is no longer here, and its
// close is forgiven. Thread: any; locks. Bound: one entry per open comm.

#include <mesh/engine.h>

#include <mutex>
#include <unordered_map>

namespace mesh::plugin {

class OpenComms {
 public:
  void add(const void* comm, Context* context);  // throws bad_alloc, and then has added nothing
  Context* context_of(const void* comm) const;   // null: not open
  Context* take(const void* comm) noexcept;      // from now on it is not open. Null: it was not
  void drop_all_of(const Context* context) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Context*> contexts_;
};

}  // namespace mesh::plugin
