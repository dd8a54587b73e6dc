#include "src/base/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mesh {

bool detail::g_forked_child = false;

namespace {
constexpr int kWordBits = 64;
std::array<std::atomic<std::uint64_t>, kForkFdsMax / kWordBits> g_fds{};

// Makes only async-signal-safe calls, because the parent may have had other threads.
void in_child() {
  detail::g_forked_child = true;
  for (std::size_t word = 0; word < g_fds.size(); ++word) {
    std::uint64_t bits = g_fds[word].exchange(0, std::memory_order_relaxed);
    while (bits != 0) {
      ::close(static_cast<int>(word) * kWordBits + std::countr_zero(bits));
      bits &= bits - 1;
    }
  }
}

std::atomic<std::uint64_t>& word_of(int fd) {
  return g_fds[static_cast<std::size_t>(fd) / kWordBits];
}
std::uint64_t bit_of(int fd) { return std::uint64_t{1} << (fd % kWordBits); }
}  // namespace

void guard_forks() noexcept {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, in_child); });
}

bool fork_close_fd(int fd) noexcept {
  guard_forks();
  if (fd < 0 || fd >= kForkFdsMax) return false;
  word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
  return true;
}

void fork_forget_fd(int fd) noexcept {
  if (fd < 0 || fd >= kForkFdsMax) return;
  word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

}  // namespace mesh
