#pragma once
// Page-aligned memory of its own mapping, so that a test may protect it after handing it back. It
// is host memory, or stands for that of a GPU (tests/device_memory): then the plugin gets an
// address at which no CPU may touch it, and data() is the device's own view of it. Thread: one
// owner; use_memory() from main, before there are others.

#include "tests/device_memory/device_memory.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace mesh::driver {

enum class MemoryKind : std::uint8_t { Host, Device };

// Sets the kind of memory of every later Registered. It is host memory at first.
void use_memory(MemoryKind kind) noexcept;
MemoryKind memory_in_use() noexcept;

class Buffer {
 public:
  Buffer() = default;
  // The memory is zeroed; data() is null if the system has none.
  explicit Buffer(std::size_t bytes, MemoryKind kind = MemoryKind::Host);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        device_(std::move(other.device_)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  char* data() const noexcept { return data_; }  // ours to fill and to read
  // The address that the plugin gets.
  char* address() const noexcept {
    return is_device() ? reinterpret_cast<char*>(device_.address()) : data_;
  }
  bool is_device() const noexcept { return device_.address() != nullptr; }
  UniqueFd export_buffer() const { return device_.export_buffer(); }  // for device memory
  std::size_t bytes() const noexcept { return bytes_; }
  bool make_read_only() noexcept;

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  testkit::DeviceMemory device_;
};

}  // namespace mesh::driver
