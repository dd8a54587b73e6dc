#pragma once
// Limits the lines in a time window, for lines that an unauthenticated connection can cause at
// will: they must not fill the log. Lines that were not shown are counted, and the next line says
// how many. Thread: as each class says. Bound: kLines in kLogBudgetWindowNs.

#include "src/base/check.h"
#include "src/base/timeouts.h"

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

  // Returns false if the line must not be written.
  bool take(std::uint64_t now_ns) noexcept {
    if (said_ == 0 || now_ns - began_ns_ >= kLogBudgetWindowNs) {
      began_ns_ = now_ns;
      said_ = 0;
    }
    DCHECK(said_ <= kLines);
    if (said_ == kLines) {
      ++unsaid_;
      return false;
    }
    ++said_;
    return true;
  }
  // Returns the end of a line that may be written: empty, or " (and 12 more that were not shown)".
  // Starts that count anew.
  std::string rest() {
    const std::uint64_t unsaid = unsaid_;
    unsaid_ = 0;
    return unsaid == 0 ? std::string() : fmt::format(" (and {} more that were not shown)", unsaid);
  }

 private:
  std::uint64_t began_ns_ = 0, unsaid_ = 0;
  std::uint32_t said_ = 0;
};

// A LogBudget that several threads share. Thread: any.
class SharedLogBudget {
 public:
  // Returns the end of the line (LogBudget::rest), or no value if the line must not be written.
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
