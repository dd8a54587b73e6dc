#pragma once
// Log lines, to NCCL's logger if there is one, otherwise to stderr. For the control path only. The
// caller formats a line and hands it over as a whole. Nothing throws: if there is no memory to
// format a line, it is written without its values. Thread: any. Bound: one line for each call.

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mesh {

// Info is for what every user of the plugin should see once: rails, links, policy, refusals. Detail
// is for those who look into the network.
enum class LogLevel : int { None = 0, Warn = 1, Info = 2, Detail = 3, Trace = 4 };

// Takes one finished line without newline. Must not throw.
using LogSink = void (*)(LogLevel level, const char* file, int line, const char* text);

void set_log_sink(LogSink sink) noexcept;     // null: stderr
void set_log_level(LogLevel level) noexcept;  // for stderr only; a sink filters for itself
bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, const char* file, int line, const char* text) noexcept;
void log_without_values(LogLevel level, const char* file, int line, const char* format) noexcept;

// An INFO line has 160 bytes, which a terminal shows whole, with the "NET/Mesh : " that the
// plugin's logger writes before it. A WARN is one line of any length, because NCCL keeps the last
// one.
inline constexpr std::size_t kLogLineBytesMax = 160 - 11;
// Returns lines that each have `begin` and as many items, with ", " between, as fit. An item that
// fits in no line gets a line of its own.
std::vector<std::string> log_lines(const std::string& begin, std::span<const std::string> items);

}  // namespace mesh

#define MESH_LOG_FORMAT(format, ...) format
#define MESH_LOG(level, ...)                                                                 \
  do {                                                                                       \
    if (!::mesh::log_enabled(level)) break;                                                  \
    try {                                                                                    \
      ::mesh::log_line(level, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__).c_str());       \
    } catch (...) {                                                                          \
      ::mesh::log_without_values(level, __FILE__, __LINE__, MESH_LOG_FORMAT(__VA_ARGS__, )); \
    }                                                                                        \
  } while (false)
#define LOG_WARN(...) MESH_LOG(::mesh::LogLevel::Warn, __VA_ARGS__)
#define LOG_INFO(...) MESH_LOG(::mesh::LogLevel::Info, __VA_ARGS__)
#define LOG_DETAIL(...) MESH_LOG(::mesh::LogLevel::Detail, __VA_ARGS__)
#define LOG_TRACE(...) MESH_LOG(::mesh::LogLevel::Trace, __VA_ARGS__)
