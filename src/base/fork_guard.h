#pragma once
// After a fork the child must neither keep a killed parent's connections alive nor touch the
// plugin. A pthread_atfork handler closes the descriptors named here in the child, and marks the
// library dead there. Thread: any. Bound: descriptor numbers below kForkFdsMax; fork_close_fd
// returns false for others.

namespace mesh {

namespace detail {
// Not atomic, because only a child writes it, while it has one thread. Hidden, so that reading it
// needs no look-up of its address.
[[gnu::visibility("hidden")]] extern bool g_forked_child;
}  // namespace detail

inline constexpr int kForkFdsMax = 65536;

void guard_forks() noexcept;           // installs the handler; repeated calls do nothing
bool fork_close_fd(int fd) noexcept;   // remembers fd, and installs the handler
void fork_forget_fd(int fd) noexcept;  // UniqueFd calls it before it closes

// Returns true in a child of a process that used the library. Every call from NCCL asks this.
inline bool in_forked_child() noexcept { return detail::g_forked_child; }

}  // namespace mesh
