#pragma once
// Selects the plugin's lines that NCCL shows: those of a level up to NCCL_DEBUG whose subsystems
// meet NCCL_DEBUG_SUBSYS. A line that meets none of them is dropped at every level, a warning too.
// Thread: any (values).

#include "plugin/nccl/types.h"
#include "src/base/config.h"

#include <string_view>

namespace mesh::driver {

struct LogFilter {
  ncclDebugLogLevel level = NCCL_LOG_INFO;
  unsigned long subsystems = NCCL_INIT | NCCL_BOOTSTRAP | NCCL_ENV;  // NCCL's default

  static LogFilter everything() { return {NCCL_LOG_TRACE, NCCL_ALL}; }
  // Returns the filter that NCCL's variables ask for. Without NCCL_DEBUG, where NCCL shows nothing,
  // it shows what NCCL_DEBUG=INFO does.
  static LogFilter from(const Environment& environment);

  bool passes(ncclDebugLogLevel line_level, unsigned long line_subsystems) const noexcept {
    return line_level <= level && (line_subsystems & subsystems) != 0;
  }
};

// Returns the bits of a list such as "INIT,NET"; "^NET" is all but it. Skips unknown names.
unsigned long subsystems_of(std::string_view list);

}  // namespace mesh::driver
