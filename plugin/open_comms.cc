#include "plugin/open_comms.h"

#include "src/base/check.h"

namespace mesh::plugin {

void OpenComms::add(const void* comm, Context* context) {
  DCHECK(comm != nullptr && context != nullptr);
  const std::lock_guard lock(mutex_);
  contexts_.insert_or_assign(comm, context);
}

bool OpenComms::empty() const {
  const std::lock_guard lock(mutex_);
  return contexts_.empty();
}

Context* OpenComms::context_of(const void* comm) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(comm);
  return found == contexts_.end() ? nullptr : found->second;
}

Context* OpenComms::take(const void* comm) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(comm);
  if (found == contexts_.end()) return nullptr;
  Context* const context = found->second;
  contexts_.erase(found);
  return context;
}

void OpenComms::drop_all_of(const Context* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(contexts_, [context](const auto& entry) { return entry.second == context; });
}

}  // namespace mesh::plugin
