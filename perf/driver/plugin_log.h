#pragma once
// What the plugin said through NCCL's logger: kept line by line so that a test can look for a
// sentence, and echoed to stderr as the caller wants. One per process, as NCCL's logger is. Keeps
// the newest 20,000 lines. Thread: any.

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace mesh::driver {

enum class Echo { Nothing, Warnings, Everything };

class PluginLog {
 public:
  static PluginLog& instance();

  void set_echo(Echo echo, std::string prefix);
  void add(int level, std::string line);
  bool contains(const std::string& sentence) const;
  std::vector<std::string> lines() const;
  std::size_t warnings() const;
  void clear();

 private:
  static constexpr std::size_t kLinesMax = 20000;

  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  std::size_t warnings_ = 0;
  Echo echo_ = Echo::Warnings;
  std::string prefix_;
};

}  // namespace mesh::driver
