#include "src/verbs/memory_hint.h"

#include <sys/resource.h>

#include <cerrno>

namespace mesh::verbs {

const char* memory_hint(int error) noexcept {
  if (error != ENOMEM) return "";
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
  return limited ? " (this process may lock only so much memory: see ulimit -l)"
                 : " (ulimit -l sets no limit here; mesh_doctor looks for other causes)";
}

}  // namespace mesh::verbs
