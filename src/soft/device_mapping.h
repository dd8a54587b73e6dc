#pragma once
// A mapping by which a NIC sees memory that its process may not touch. It stands for the bus
// addresses by which hardware reaches the memory of a GPU. A DMA buffer is a memory file here, and
// peer memory is a shared mapping without access. Thread: any; each has one owner. Bound: the
// range.

#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace mesh::soft {

class DeviceMapping {
 public:
  DeviceMapping() = default;
  DeviceMapping(DeviceMapping&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        lead_(other.lead_) {}
  DeviceMapping& operator=(DeviceMapping&& other) noexcept;
  DeviceMapping(const DeviceMapping&) = delete;
  DeviceMapping& operator=(const DeviceMapping&) = delete;
  ~DeviceMapping();

  // Maps the range of a buffer. Returns 0 or an errno value, as the kernel would: EBADF for a
  // closed descriptor, EINVAL for one that is no memory file or shorter than the range, and ENOMEM
  // if the mapping fails.
  static int of_buffer(const verbs::DmaBufferRange& range, DeviceMapping* mapping);
  // Maps the memory at an address a second time, for reading and writing; leaves the mapping empty
  // if the process may read the address anyway. Returns EFAULT if the kernel refuses to map it.
  static int of_address(void* address, std::size_t bytes, DeviceMapping* mapping);

  std::uint64_t first_byte() const noexcept {  // 0: it is empty
    return pages_ == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(pages_) + lead_;
  }

 private:
  DeviceMapping(void* pages, std::size_t bytes, std::size_t lead) noexcept
      : pages_(pages), bytes_(bytes), lead_(lead) {}

  void* pages_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t lead_ = 0;  // from the first page to the first byte
};

}  // namespace mesh::soft
