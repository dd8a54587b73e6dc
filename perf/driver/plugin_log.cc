#include "perf/driver/plugin_log.h"

#include "perf/driver/net_adapter.h"
#include "perf/driver/world.h"
#include "src/base/log_time.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace mesh::driver {
namespace {
std::string without_prefix(std::string text) {
  if (text.starts_with(kPluginPrefix)) text.erase(0, kPluginPrefix.size());
  return text;
}
}  // namespace

PluginLog::PluginLog() : filter_(LogFilter::from(process_environment())) {}

PluginLog& PluginLog::instance() {
  // Never destroyed: the plugin's threads may log until the process is gone.
  static PluginLog* const log = new PluginLog;
  return *log;
}

void PluginLog::set_echo(Echo echo, std::string prefix) {
  const std::lock_guard<std::mutex> lock(mutex_);
  echo_ = echo;
  prefix_ = std::move(prefix);
}

void PluginLog::set_filter(const LogFilter& filter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  filter_ = filter;
}

void PluginLog::add(ncclDebugLogLevel level, unsigned long subsystems, std::string line) {
  const bool warning = level == NCCL_LOG_WARN;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!filter_.passes(level, subsystems)) return;
  if (warning) ++warnings_;
  if (echo_ == Echo::Everything || (echo_ == Echo::Warnings && warning)) {
    static const bool times = variable(process_environment(), "NCCL_MESH_LOG").ends_with("+time");
    std::fprintf(stderr, "%s%s%s %s\n", times ? log_time().c_str() : "", prefix_.c_str(),
                 warning ? "WARN" : "INFO", line.c_str());
  }
  lines_.push_back({.text = std::move(line), .warning = warning});
  if (lines_.size() > kLinesMax) lines_.pop_front();
}

bool PluginLog::contains(const std::string& sentence) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
    return line.text.find(sentence) != std::string::npos;
  });
}

std::vector<std::string> PluginLog::lines() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> lines;
  lines.reserve(lines_.size());
  for (const Line& line : lines_) lines.push_back(line.text);
  return lines;
}

std::vector<std::string> PluginLog::texts() const {
  std::vector<std::string> texts = lines();
  for (std::string& text : texts) text = without_prefix(std::move(text));
  return texts;
}

std::vector<std::string> PluginLog::warning_texts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> texts;
  for (const Line& line : lines_) {
    if (line.warning) texts.push_back(without_prefix(line.text));
  }
  return texts;
}

std::size_t PluginLog::warnings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return warnings_;
}

void PluginLog::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  lines_.clear();
  warnings_ = 0;
}

// NOLINTNEXTLINE(readability-function-size): NCCL's signature
void plugin_log_callback(ncclDebugLogLevel level, unsigned long flags, const char* /*file*/,
                         int /*line*/, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  char text[2048];
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  PluginLog::instance().add(level, flags, text);
}

}  // namespace mesh::driver
