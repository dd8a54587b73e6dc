#pragma once
// The layout of messages that are under way at once in one piece of memory: each has a slot that
// begins with a page. Thread: any.

#include <algorithm>
#include <cstddef>

namespace mesh::perf {

inline constexpr std::size_t kSlotAlign = 4096;

// Returns the distance from one slot to the next for messages of so many bytes.
constexpr std::size_t stride_of(std::size_t bytes) {
  return std::max(kSlotAlign, (bytes + kSlotAlign - 1) / kSlotAlign * kSlotAlign);
}

}  // namespace mesh::perf
