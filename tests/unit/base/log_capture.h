#pragma once
// Collects log lines during its life, for tests of what the log must tell a reader.
// Thread: lines may come from any; one capture at a time.

#include "src/base/log.h"
#include "tests/prelude.h"

namespace mesh::testkit {

struct LoggedLine {
  LogLevel level;
  std::string text;
};

class LogCapture {
 public:
  LogCapture() {
    const std::lock_guard lock(mutex());
    lines().clear();
    set_log_sink(&LogCapture::take);
  }
  ~LogCapture() { set_log_sink(nullptr); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<LoggedLine> all() const {
    const std::lock_guard lock(mutex());
    return lines();
  }
  // Returns the number of lines of `level` that contain `text`.
  int count(LogLevel level, const std::string& text) const {
    const std::vector<LoggedLine> copy = all();
    return static_cast<int>(std::count_if(copy.begin(), copy.end(), [&](const LoggedLine& line) {
      return line.level == level && line.text.find(text) != std::string::npos;
    }));
  }
  // Checks that exactly `times` lines of `level` contain `text`, and shows all lines if not.
  testing::AssertionResult said(LogLevel level, const std::string& text, int times = 1) const {
    const int found = count(level, text);
    if (found == times) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << found << " lines, not " << times << ", have \"" << text << "\" in:\n"
           << joined();
  }
  testing::AssertionResult warned(const std::string& text, int times = 1) const {
    return said(LogLevel::Warn, text, times);
  }
  std::string joined() const {
    std::string text;
    for (const LoggedLine& line : all()) text += line.text + "\n";
    return text;
  }

 private:
  static void take(LogLevel level, const char*, int, const char* text) {
    const std::lock_guard lock(mutex());
    lines().push_back({level, text});
  }
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::vector<LoggedLine>& lines() {
    static std::vector<LoggedLine> instance;
    return instance;
  }
};

}  // namespace mesh::testkit
