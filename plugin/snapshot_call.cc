#include "plugin/snapshot_call.h"

#include "plugin/registry.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/snapshot_json.h"

#include <algorithm>
#include <exception>
#include <string>

std::size_t nccl_mesh_snapshot(char* text, std::size_t bytes) noexcept {
  if (mesh::in_forked_child()) return 0;
  try {
    const std::string json = mesh::to_json(mesh::plugin::Registry::instance().snapshot());
    if (bytes == 0) return json.size();
    const std::size_t part = std::min(json.size(), bytes - 1);
    std::copy_n(json.data(), part, text);
    text[part] = '\0';
    return json.size();
  } catch (const std::exception& error) {
    LOG_WARN("no snapshot: {}", error.what());
    return 0;
  }
}
