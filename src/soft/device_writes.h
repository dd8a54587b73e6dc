#pragma once
// Writes into device memory that are answered and are not there yet: a GPU's bus may keep them
// until the NIC reads such memory (NicSpec::late_device_writes). Thread: the NIC's turn lock.
// Bound: kHeldBytesMax; what would be more makes all of them land.

#include <cstddef>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kHeldBytesMax = 16 << 20;

class DeviceWrites {
 public:
  // Returns where to put the next bytes instead.
  std::byte* hold(std::byte* to, std::size_t bytes);
  void shorten_last(std::size_t bytes);  // only so many bytes came; 0: none
  void land() noexcept;

 private:
  struct Write {
    std::byte* to = nullptr;
    std::vector<std::byte> bytes;
  };
  std::vector<Write> writes_;
  std::size_t held_bytes_ = 0;
};

}  // namespace mesh::soft
