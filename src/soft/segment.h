#pragma once
// Mapped memory. A segment is a piece of zeroed memory that two hosts of the fabric share: plain
// memory within a process, a memfd between processes. Thread: control; the data path uses the
// memory itself. Bound: its bytes.

#include <mesh/status.h>

#include "src/base/unique_fd.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace mesh::soft {

// A mapping of mmap(2), which it unmaps. Thread: one owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* memory, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(memory)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const noexcept { return data_; }  // null: there is none
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

enum class Sharing : unsigned char {
  Process,  // with threads of this process only
  Host,     // with other processes too
};

class Segment {
 public:
  static Result<Segment> create(std::size_t bytes, Sharing sharing);
  // Maps a segment. Returns Protocol if the descriptor has fewer bytes, or could lose some later.
  static Result<Segment> map(UniqueFd fd, std::size_t bytes);

  std::byte* data() const noexcept { return memory_.data(); }
  std::size_t bytes() const noexcept { return memory_.bytes(); }
  // Gives the memfd away, once; it is invalid for plain memory. The mapping alone keeps the memory
  // afterwards.
  UniqueFd take_fd() noexcept { return std::move(fd_); }
  int fd() const noexcept { return fd_.get(); }

 private:
  Mapping memory_;
  UniqueFd fd_;
};

// A mapping by which a NIC sees memory that its process may not touch. It stands for the bus
// addresses by which hardware reaches the memory of a GPU. A DMA buffer is a memory file here, and
// peer memory is a shared mapping without access. Thread: any; each has one owner. Bound: the
// range.
class DeviceMapping {
 public:
  // Maps the range of a buffer. Returns 0 or an errno value, as the kernel would: EBADF for a
  // closed descriptor, EINVAL for one that is no memory file or shorter than the range, and ENOMEM
  // if the mapping fails.
  static int of_buffer(const verbs::DmaBufferRange& range, DeviceMapping* mapping);
  // Maps the memory at an address a second time, for reading and writing; leaves the mapping empty
  // if the process may read the address anyway. Returns EFAULT if the kernel refuses to map it.
  static int of_address(void* address, std::size_t bytes, DeviceMapping* mapping);

  std::uint64_t first_byte() const noexcept {  // 0: it is empty
    return pages_.data() == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(pages_.data()) + lead_;
  }

 private:
  Mapping pages_;
  std::size_t lead_ = 0;  // from the first page to the first byte
};

}  // namespace mesh::soft
