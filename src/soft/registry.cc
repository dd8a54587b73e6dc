#include "src/soft/registry.h"

#include "src/base/check.h"

namespace mesh::soft {

Registry& Registry::instance() {
  // It is never destroyed, because an exit handler that runs after the static destructors may close
  // a host.
  static auto* const registry = new Registry;
  return *registry;
}

bool Registry::claim(const std::string& universe, const std::string& host, LocalHost* owner) {
  DCHECK(owner != nullptr && !host.empty());
  std::lock_guard lock(mutex_);
  return hosts_.emplace(std::make_pair(universe, host), owner).second;
}

void Registry::release(const std::string& universe, const std::string& host) {
  std::lock_guard lock(mutex_);
  const std::size_t erased = hosts_.erase({universe, host});
  CHECK(erased == 1);
}

bool Registry::visit(const std::string& universe, const std::string& host,
                     const std::function<void(LocalHost&)>& use) {
  std::lock_guard lock(mutex_);
  const auto it = hosts_.find({universe, host});
  if (it == hosts_.end()) return false;
  use(*it->second);
  return true;
}

}  // namespace mesh::soft
