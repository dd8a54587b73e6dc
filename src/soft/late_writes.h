#pragma once
// Writes of one queue pair that were answered and are not in memory yet. Under
// FaultKind::OutOfOrder these are some small ones into regions registered for relaxed ordering,
// where a PCIe bus may let others overtake them. They land when their time comes, in no order among
// themselves, but all of them before whatever completes the queue pair's next receive, and before
// the queue pair lets go of its peer. Thread: the NIC's turn lock. Bound: kLateMax writes.

#include "src/soft/memory_table.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kLateMax = 32, kLateBytesMax = 64;

class LateWrites {
 public:
  bool empty() const noexcept { return count_ == 0; }
  // Returns false if there is no room for the write.
  bool add(const MemoryTable::Use& use, const std::byte* bytes, std::uint64_t due_ns) noexcept;
  void land(const MemoryTable& regions, std::uint64_t now_ns) noexcept;  // those that are due
  void land_all(const MemoryTable& regions) noexcept { land(regions, UINT64_MAX); }
  std::uint64_t due_ns() const noexcept;  // UINT64_MAX: there is none

 private:
  struct Write {
    MemoryTable::Use use{};
    std::uint64_t due_ns = 0;
    std::array<std::byte, kLateBytesMax> bytes{};
  };
  std::array<Write, kLateMax> writes_{};
  std::size_t count_ = 0;
};

inline constexpr std::size_t kHeldBytesMax = 16 << 20;

// Writes into device memory that are answered and are not there yet: a GPU's bus may keep them
// until the NIC reads such memory (NicSpec::late_device_writes). Thread: the NIC's turn lock.
// Bound: kHeldBytesMax; what would be more makes all of them land.
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
