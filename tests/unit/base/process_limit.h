#pragma once
// Sets limits on the descriptors and mappings of this process for a while.
// Thread: the test's; a limit holds for the whole process.

#include "tests/prelude.h"

namespace mesh::testkit {

inline std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// Lowers one limit of this process until it is destroyed.
class Limit {
 public:
  Limit(__rlimit_resource what, rlim_t value) : what_(what) {
    ::getrlimit(what_, &before_);
    const rlimit now{value, before_.rlim_max};
    ::setrlimit(what_, &now);
  }
  ~Limit() { ::setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource what_;
  rlimit before_{};
};

// Returns the RLIMIT_NOFILE that leaves room for `more` descriptors behind the first unused number.
inline rlim_t files_and(int more) {
  const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
  ::close(lowest);
  return static_cast<rlim_t>(lowest) + static_cast<rlim_t>(more);
}

}  // namespace mesh::testkit
