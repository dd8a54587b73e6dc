#pragma once
// Zeroed whole pages, for memory that is registered: the registration exposes no other data, and a
// forked child keeps all of its own where a registration takes whole pages from it. Thread: any.
// Bound: the bytes asked for.

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace mesh {

inline std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

struct FreePages {
  void operator()(std::byte* pages) const noexcept { std::free(pages); }
};
using Pages = std::unique_ptr<std::byte, FreePages>;

inline std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// Returns null if there is no memory.
inline Pages make_pages(std::size_t bytes) noexcept {
  Pages pages(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), whole_pages(bytes))));
  if (pages != nullptr) std::memset(pages.get(), 0, whole_pages(bytes));
  return pages;
}

}  // namespace mesh
