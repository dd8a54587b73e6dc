#pragma once
// An array of fixed size whose bytes are zero at first, and whose pages nobody touches until they
// are used: most pages of an idle queue pair's queues never are. Allocates in its constructor only,
// which may throw std::bad_alloc. Thread: its owner's.

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace mesh::soft {

template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t count)
      : data_(static_cast<T*>(std::calloc(count, sizeof(T)))), size_(count) {
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t at) noexcept { return data_.get()[at]; }
  const T& operator[](std::size_t at) const noexcept { return data_.get()[at]; }

 private:
  struct Free {
    void operator()(T* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace mesh::soft
