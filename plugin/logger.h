#pragma once
// Passes our log lines to NCCL's logger. A process has one logger, because NCCL passes the same one
// at every init. Thread: any. Bound: one logger.

#include "plugin/nccl/types.h"
#include "src/base/log.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::plugin {

// Sets the logger; null changes nothing. Lines go to stderr until there is a logger.
void use_logger(ncclDebugLogger_t logger) noexcept;
// Stops calls of the logger at the exit of the process, when NCCL's own state may be gone.
void drop_logger() noexcept;
// The newest lines, warnings and INFO, that were logged since forget_lines(): what a snapshot tells
// people. At most kRecentLines are kept, and none while there is no logger.
inline constexpr std::size_t kRecentLines = 64;
std::vector<std::string> recent_lines(LogLevel up_to);
void forget_lines() noexcept;

// Stops calls of the logger, and waits until no thread is in it: afterwards NCCL may be unloaded.
void quiet_logger() noexcept;

}  // namespace mesh::plugin
