#pragma once
// The plugin's lines as a user would see them in NCCL's log. Those that pass NCCL's filter
// (log_filter.h) are kept, so that a test can look for a sentence, and echoed to stderr if the
// caller wants. A process has one, like NCCL's logger. Thread: any. Bound: the newest 20,000 lines.

#include "perf/driver/log_filter.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::driver {

inline constexpr std::string_view kPluginPrefix = "NET/Mesh : ";  // of every line of the plugin

enum class Echo { Nothing, Warnings, Everything };

class PluginLog {
 public:
  static PluginLog& instance();

  void set_echo(Echo echo, std::string prefix);
  void set_filter(const LogFilter& filter);  // at first by NCCL_DEBUG and NCCL_DEBUG_SUBSYS
  void add(ncclDebugLogLevel level, unsigned long subsystems, std::string line);
  bool contains(const std::string& sentence) const;
  std::vector<std::string> lines() const;
  std::vector<std::string> texts() const;  // the lines without the plugin's prefix
  std::vector<std::string> warning_texts() const;
  std::size_t warnings() const;
  void clear();

 private:
  static constexpr std::size_t kLinesMax = 20000;

  PluginLog();

  struct Line {
    std::string text;
    bool warning = false;
  };

  mutable std::mutex mutex_;
  LogFilter filter_;
  std::deque<Line> lines_;
  std::size_t warnings_ = 0;
  Echo echo_ = Echo::Warnings;
  std::string prefix_;
};

}  // namespace mesh::driver
