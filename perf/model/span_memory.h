#pragma once
// A large range of addresses over little memory: the same pages again and again, so that a message
// of 1 GiB costs no gigabyte and copies run within the cache. What is written at one place shows at
// others; a model looks at times, not at bytes. Thread: any (value, moved). Bound: kChunkBytes of
// memory.

#include <cstddef>

namespace mesh::model {

class SpanMemory {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

  SpanMemory() = default;
  explicit SpanMemory(std::size_t bytes);  // data() is null when the system refuses
  ~SpanMemory();
  SpanMemory(SpanMemory&& other) noexcept;
  SpanMemory& operator=(SpanMemory&& other) noexcept;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mesh::model
