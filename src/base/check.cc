#include "src/base/check.h"

#include "src/base/log.h"

#include <cstdlib>

namespace mesh {

void check_failed(const char* file, int line, const char* condition) noexcept {
  log_line(
      LogLevel::Warn, file, line,
      fmt::format("a bug in nccl-mesh, please report it: CHECK({}) failed", condition).c_str());
  std::abort();
}

}  // namespace mesh
