#pragma once
// After fork the child must not keep a killed parent's connections alive nor touch the plugin. Descriptors named here are
// closed in the child by a pthread_atfork handler, and the library marks itself dead there.
// Thread: any. Bound: descriptor numbers below kForkFdsMax; above, fork_close_fd answers false.

namespace mesh {

inline constexpr int kForkFdsMax = 65536;

bool fork_close_fd(int fd) noexcept;   // remember fd; installs the handler at first use
void fork_forget_fd(int fd) noexcept;  // UniqueFd does this before it closes
bool in_forked_child() noexcept;       // true in a child of a process that used the library

}  // namespace mesh
