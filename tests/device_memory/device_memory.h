#pragma once
// Stands in for the memory of a GPU: pages of a memory file at an address at which the process may
// neither read nor write them. A CPU access at that address crashes, so that a mistake cannot pass
// as a wrong result. A NIC reaches the pages through a descriptor, or through the address if it has
// peer memory. The device itself has another mapping, in which the tests do what a kernel of CUDA
// would do. Thread: one owner. Bound: the bytes asked for.

#include "src/base/unique_fd.h"

#include <cstddef>

namespace mesh::testkit {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes);  // zeroed; address() is null if the system has none
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  std::byte* address() const noexcept { return address_; }   // for the NIC, not for the CPU
  std::byte* device_view() const noexcept { return view_; }  // the pages as the device sees them
  std::size_t bytes() const noexcept { return bytes_; }      // whole pages

  // A descriptor of the whole allocation, which the caller owns: an exported DMA buffer.
  UniqueFd export_buffer() const;
  // Gives the addresses back, as cudaFree does, even while somebody still uses the pages.
  void free() noexcept;

 private:
  void swap(DeviceMemory& other) noexcept;

  std::byte* address_ = nullptr;
  std::byte* view_ = nullptr;
  std::size_t bytes_ = 0;
  UniqueFd file_;
};

}  // namespace mesh::testkit
