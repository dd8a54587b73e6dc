#include "src/base/log.h"

#include "src/base/check.h"
#include "src/base/log_time.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace mesh {

namespace {
std::atomic<LogSink> g_sink{nullptr};
std::atomic<int> g_level{static_cast<int>(LogLevel::Info)};
std::atomic<bool> g_times{false};

constexpr std::size_t kTimeBytes = sizeof("2026-11-28T16:05:09.123456Z ");
using TimeText = std::array<char, 2 * kTimeBytes>;

TimeText time_text() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  TimeText text{};
  const std::size_t seconds = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + seconds, text.size() - seconds, ".%06ldZ ", now.tv_nsec / 1000);
  return text;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::None: return "";
    case LogLevel::Warn: return "WARN";
    case LogLevel::Info: return "INFO";
    case LogLevel::Detail: return "DETAIL";
    case LogLevel::Trace: return "TRACE";
  }
  return "";
}
}  // namespace

void set_log_sink(LogSink sink) noexcept { g_sink.store(sink, std::memory_order_release); }

void set_log_level(LogLevel level) noexcept {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void set_log_times(bool on) noexcept { g_times.store(on, std::memory_order_relaxed); }

std::string log_time() { return time_text().data(); }

bool log_enabled(LogLevel level) noexcept {
  return g_sink.load(std::memory_order_acquire) != nullptr ||
         static_cast<int>(level) <= g_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const char* file, int line, const char* text) noexcept {
  if (LogSink sink = g_sink.load(std::memory_order_acquire); sink != nullptr) {
    sink(level, file, line, text);
    return;
  }
  const TimeText time = g_times.load(std::memory_order_relaxed) ? time_text() : TimeText{};
  std::fprintf(stderr, "%snccl-mesh %s %s\n", time.data(), level_name(level), text);
}

void log_without_values(LogLevel level, const char* file, int line, const char* format) noexcept {
  constexpr std::size_t kLineMax = 512;
  std::array<char, kLineMax> text{};
  std::snprintf(text.data(), text.size(), "%s (out of memory for the values of this line)", format);
  log_line(level, file, line, text.data());
}

void check_failed(const char* file, int line, const char* condition) noexcept {
  log_line(
      LogLevel::Warn, file, line,
      fmt::format("a bug in nccl-mesh, please report it: CHECK({}) failed", condition).c_str());
  std::abort();
}

std::vector<std::string> log_lines(const std::string& begin, std::span<const std::string> items) {
  std::vector<std::string> lines;
  for (const std::string& item : items) {
    if (!lines.empty() && lines.back().size() + 2 + item.size() <= kLogLineBytesMax) {
      lines.back() += ", " + item;
    } else {
      lines.push_back(begin + item);
    }
  }
  return lines;
}

}  // namespace mesh
