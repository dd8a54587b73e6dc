#pragma once
// Sets the floating-point environment to what C++ begins with, and restores the caller's: a
// program's setting for denormals or rounding would give its host other bits than the other hosts
// have. Thread: the one that makes it. Bound: a few instructions.

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mesh::oneshot {

class FloatEnvironment {
 public:
  FloatEnvironment() noexcept : callers_(get()) {
    if (callers_ != kDefault) set(kDefault);
  }
  ~FloatEnvironment() {
    if (callers_ != kDefault) set(callers_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

#if defined(__x86_64__)
  static constexpr std::uint64_t kDefault = 0x1f80;  // exceptions masked, nearest, denormals

  // Without the flags of exceptions that have happened.
  static std::uint64_t get() noexcept { return ::_mm_getcsr() & ~std::uint64_t{0x3f}; }
  static void set(std::uint64_t word) noexcept { ::_mm_setcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kDefault = 0;

  static std::uint64_t get() noexcept {
    std::uint64_t word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void set(std::uint64_t word) noexcept {
    __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory");
  }
#else
  static constexpr std::uint64_t kDefault = 0;

  static std::uint64_t get() noexcept { return kDefault; }
  static void set(std::uint64_t) noexcept {}
#endif

 private:
  const std::uint64_t callers_;
};

}  // namespace mesh::oneshot
