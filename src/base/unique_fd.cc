#include "src/base/unique_fd.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"

#include <unistd.h>

namespace mesh {

void UniqueFd::reset(int fd) noexcept {
  DCHECK(fd < 0 || fd != fd_);
  // In a forked child the handler has closed the descriptor, and its number may be in use again.
  if (fd_ >= 0 && !in_forked_child()) {
    fork_forget_fd(fd_);
    ::close(fd_);
  }
  fd_ = fd;
}

}  // namespace mesh
