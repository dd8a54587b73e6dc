#pragma once
// Page-aligned memory of its own mapping, so that a test may protect it after handing it back.
// Thread: one owner.

#include <cstddef>
#include <utility>

namespace mesh::driver {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // zeroed; data() is null if the system has none
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  char* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool make_read_only() noexcept;

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mesh::driver
