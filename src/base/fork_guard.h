#pragma once
// After fork the child must not keep a killed parent's connections alive nor touch the plugin.
// Descriptors named here are closed in the child by a pthread_atfork handler, and the library marks
// itself dead there. Thread: any. Bound: descriptor numbers below kForkFdsMax; above, fork_close_fd
// answers false.

namespace mesh {

namespace detail {
// No atomic: written only in a child, by the one thread that it has then. Hidden, so that asking
// costs no look-up of its address.
[[gnu::visibility("hidden")]] extern bool g_forked_child;
}  // namespace detail

inline constexpr int kForkFdsMax = 65536;

bool fork_close_fd(int fd) noexcept;   // remember fd; installs the handler at first use
void fork_forget_fd(int fd) noexcept;  // UniqueFd does this before it closes

// True in a child of a process that used the library. Asked in every call of NCCL's.
inline bool in_forked_child() noexcept { return detail::g_forked_child; }

}  // namespace mesh
