#include "plugin/logger.h"

#include "src/base/log.h"
#include "src/base/yielding.h"

#include <atomic>

namespace mesh::plugin {

namespace {

std::atomic<ncclDebugLogger_t> g_logger{nullptr};  // released in use_logger, acquired in forward
std::atomic<int> g_calls{0};                       // calls of the logger that are under way

struct NcclLevel {
  ncclDebugLogLevel level;
  unsigned long subsystems;
};

// NCCL's own warnings carry every subsystem, and the start-up lines of its networks INIT and NET.
NcclLevel nccl_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::None: return {NCCL_LOG_NONE, NCCL_ALL};
    case LogLevel::Warn: return {NCCL_LOG_WARN, NCCL_ALL};
    case LogLevel::Info: return {NCCL_LOG_INFO, NCCL_INIT | NCCL_NET};
    case LogLevel::Detail: return {NCCL_LOG_INFO, NCCL_NET};
    case LogLevel::Trace: return {NCCL_LOG_TRACE, NCCL_NET};
  }
  return {NCCL_LOG_NONE, NCCL_ALL};
}

// The text is never used as the format, because a file name or a peer may put a percent sign there.
void forward(LogLevel level, const char* file, int line, const char* text) {
  // Counted before the logger is read, so that quiet_logger() misses no call (both seq_cst).
  g_calls.fetch_add(1, std::memory_order_seq_cst);
  if (const ncclDebugLogger_t logger = g_logger.load(std::memory_order_seq_cst);
      logger != nullptr) {
    const NcclLevel as = nccl_level(level);
    logger(as.level, as.subsystems, file, line, "NET/Mesh : %s", text);
  }
  g_calls.fetch_sub(1, std::memory_order_release);
}

}  // namespace

void use_logger(ncclDebugLogger_t logger) noexcept {
  if (logger == nullptr) return;
  g_logger.store(logger, std::memory_order_release);
  set_log_sink(forward);
}

void drop_logger() noexcept { g_logger.store(nullptr, std::memory_order_release); }

void quiet_logger() noexcept {
  g_logger.store(nullptr, std::memory_order_seq_cst);
  Yielding calls;
  while (g_calls.load(std::memory_order_seq_cst) != 0) calls.wait();
}

}  // namespace mesh::plugin
