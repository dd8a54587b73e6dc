#include "src/base/unique_fd.h"

#include "src/base/fork_guard.h"

#include <unistd.h>

namespace mesh {

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) {
    fork_forget_fd(fd_);
    ::close(fd_);
  }
  fd_ = fd;
}

}  // namespace mesh
