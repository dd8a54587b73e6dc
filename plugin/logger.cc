#include "plugin/logger.h"

#include "src/base/log.h"
#include "src/base/yielding.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace mesh::plugin {

namespace {

constexpr std::size_t kRecentLineBytes = 512;  // longer lines are cut

struct RecentLine {
  LogLevel level = LogLevel::None;
  std::array<char, kRecentLineBytes> text{};
};
// In static memory and without a destructor: the plugin's threads may log until the process is
// gone, and what a library keeps on the heap when its engine has ended looks like a leak.
struct Recent {
  std::mutex mutex;
  std::size_t logged = 0;                      // since forget_lines()
  std::array<RecentLine, kRecentLines> lines;  // a ring
};
constinit Recent g_recent;

void remember(LogLevel level, std::string_view text) noexcept {
  if (level > LogLevel::Info) return;
  const std::lock_guard lock(g_recent.mutex);
  RecentLine& line = g_recent.lines[g_recent.logged++ % kRecentLines];
  line.level = level;
  line.text[text.copy(line.text.data(), line.text.size() - 1)] = '\0';
}

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

// Returns the beginning of a line that says what the line is about, such as "peer b: ".
std::string_view subject_of(std::string_view text) noexcept {
  constexpr std::size_t kSubjectBytesMax = 48;
  const std::size_t end = text.substr(0, kSubjectBytesMax).find(": ");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 2);
}

// Returns the text's first part that fits a line: up to a semicolon, a comma or at least a space. A
// word that is too long stays whole.
std::string_view first_part(std::string_view text, std::size_t room) noexcept {
  if (text.size() <= room) return text;
  for (const std::string_view mark : {"; ", ", ", " "}) {
    const std::size_t at = text.substr(0, room + 1).rfind(mark);
    // A line that is less than half full would make more of them.
    if (at != std::string_view::npos && (at >= room / 2 || mark == " "))
      return text.substr(0, at + mark.size() - 1);
  }
  return text.substr(0, text.find(' '));
}

// Logs the text. NCCL keeps its last warning as the error that a program reads
// (ncclGetLastError), so a warning is one call, however long it is. An INFO text that is longer
// than a line takes several, each with the text's subject: a reader who looks for a peer finds all
// of them. The text is never used as the format, because a file name or a peer may put a percent
// sign there.
void forward(LogLevel level, const char* file, int line, const char* text) {
  remember(level, text);
  // Counted before the logger is read, so that quiet_logger() misses no call (both seq_cst).
  g_calls.fetch_add(1, std::memory_order_seq_cst);
  if (const ncclDebugLogger_t logger = g_logger.load(std::memory_order_seq_cst);
      logger != nullptr) {
    const NcclLevel as = nccl_level(level);
    // The lines for those who look into the network are not shown by default, and stay whole.
    const std::size_t bytes_max = level == LogLevel::Info ? kLogLineBytesMax : SIZE_MAX;
    std::string_view rest = text, subject;
    do {
      const std::string_view part = first_part(rest, bytes_max - subject.size());
      logger(as.level, as.subsystems, file, line, "NET/Mesh : %.*s%.*s",
             static_cast<int>(subject.size()), subject.data(), static_cast<int>(part.size()),
             part.data());
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      subject = subject_of(text);
    } while (!rest.empty());
  }
  g_calls.fetch_sub(1, std::memory_order_release);
}

}  // namespace

void use_logger(ncclDebugLogger_t logger) noexcept {
  if (logger == nullptr) return;
  g_logger.store(logger, std::memory_order_release);
  set_log_sink(forward);
}

std::vector<std::string> recent_lines(LogLevel up_to) {
  const std::lock_guard lock(g_recent.mutex);
  std::vector<std::string> texts;
  const std::size_t first = g_recent.logged - std::min(g_recent.logged, kRecentLines);
  for (std::size_t i = first; i < g_recent.logged; ++i) {
    const RecentLine& line = g_recent.lines[i % kRecentLines];
    if (line.level <= up_to) texts.emplace_back(line.text.data());
  }
  return texts;
}

void forget_lines() noexcept {
  const std::lock_guard lock(g_recent.mutex);
  g_recent.logged = 0;
}

void drop_logger() noexcept { g_logger.store(nullptr, std::memory_order_release); }

void quiet_logger() noexcept {
  g_logger.store(nullptr, std::memory_order_seq_cst);
  Yielding calls;
  while (g_calls.load(std::memory_order_seq_cst) != 0) calls.wait();
}

}  // namespace mesh::plugin
