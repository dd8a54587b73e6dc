#pragma once
// So many lines in a time, so that whoever can cause them at will cannot fill the log. What was not
// said is counted and told with the next line that is. Thread: as each class says.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace mesh {

// Thread: one owner.
class LogBudget {
 public:
  static constexpr std::uint32_t kLines = 16;
  static constexpr std::uint64_t kWindowNs = 10'000'000'000;

  // False: say nothing.
  bool take(std::uint64_t now_ns) noexcept {
    if (said_ == 0 || now_ns - began_ns_ >= kWindowNs) {
      began_ns_ = now_ns;
      said_ = 0;
    }
    if (said_ == kLines) {
      ++unsaid_;
      return false;
    }
    ++said_;
    return true;
  }
  // Behind a line that may be said: empty, or " (and 12 more that were not shown)". Starts counting
  // anew.
  std::string rest() {
    const std::uint64_t unsaid = unsaid_;
    unsaid_ = 0;
    return unsaid == 0 ? std::string() : fmt::format(" (and {} more that were not shown)", unsaid);
  }

 private:
  std::uint64_t began_ns_ = 0, unsaid_ = 0;
  std::uint32_t said_ = 0;
};

// The same for lines that many threads say. Thread: any.
class SharedLogBudget {
 public:
  // Nothing: say nothing. Else what goes behind the line.
  std::optional<std::string> take(std::uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    if (!budget_.take(now_ns)) return std::nullopt;
    return budget_.rest();
  }

 private:
  std::mutex mutex_;
  LogBudget budget_;
};

}  // namespace mesh
