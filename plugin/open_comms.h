#pragma once
// The comms that NCCL got and has not closed, by address, each with its context. NCCL may close a
// comm after the finalize that has destroyed it. Such a comm is no longer here, and its close is
// ignored. Thread: any; locks. Bound: one entry for each open comm.

#include <mesh/engine.h>

#include <mutex>
#include <unordered_map>

namespace mesh::plugin {

class OpenComms {
 public:
  void add(const void* comm, Context* context);  // throws bad_alloc without adding anything
  bool empty() const;
  Context* context_of(const void* comm) const;  // null: it is not open
  Context* take(const void* comm) noexcept;     // removes it; null: it was not open
  void drop_all_of(const Context* context) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Context*> contexts_;
};

}  // namespace mesh::plugin
