#include "src/soft/registry.h"

namespace mesh::soft {

Registry& Registry::instance() {
  // Never destroyed: a host may be closed by an exit handler that runs after the static
  // destructors.
  static auto* const registry = new Registry;
  return *registry;
}

bool Registry::claim(const std::string& universe, const std::string& host, LocalHost* owner) {
  std::lock_guard lock(mutex_);
  return hosts_.emplace(std::make_pair(universe, host), owner).second;
}

void Registry::release(const std::string& universe, const std::string& host) {
  std::lock_guard lock(mutex_);
  hosts_.erase({universe, host});
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
