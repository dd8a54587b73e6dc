#pragma once
// Memory for queue pairs of chains: whole zeroed pages, so that a registration of it shows nothing
// else. Thread: any. Bound: the bytes asked for.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace mesh::relay {

inline constexpr std::size_t kPageBytes = 4096;

struct FreePages {
  void operator()(std::byte* pages) const noexcept { std::free(pages); }
};
using Pages = std::unique_ptr<std::byte, FreePages>;

constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Null: there is no memory.
inline Pages make_pages(std::size_t bytes) noexcept {
  Pages pages(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, whole_pages(bytes))));
  if (pages != nullptr) std::memset(pages.get(), 0, whole_pages(bytes));
  return pages;
}

}  // namespace mesh::relay
