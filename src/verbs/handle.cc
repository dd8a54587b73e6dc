#include "src/verbs/handle.h"

#include "src/base/log.h"

#include <cerrno>
#include <cstring>

namespace mesh::verbs {

void report_destroy_failure(const Provider& provider, const char* object, int error) noexcept {
  const bool left = error == EIO || error == ENODEV;  // its device, which has told it by then
  MESH_LOG(
      left ? LogLevel::Detail : LogLevel::Warn,
      "a {} of fabric {} on host {} could not be destroyed ({}); it is lost until the process ends",
      object, provider.fabric(), provider.host_name(), std::strerror(error > 0 ? error : -error));
}

}  // namespace mesh::verbs
