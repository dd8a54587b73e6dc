#pragma once
// The registered regions of one NIC, which say what a key allows. The table is private memory of
// the process that grows in chunks and never moves. Thread: add and remove under the NIC's turn
// lock; allows and resolve from any thread, where a stale key is simply not found. Bound:
// kRegionsMax regions.

#include "src/soft/ring.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mesh::soft {

inline constexpr std::uint32_t kRegionsMax = 65536;

class MemoryTable {
 public:
  struct Region {
    std::uint64_t address = 0, bytes = 0;
    const void* pd = nullptr;
    int access = 0;  // ibv_access_flags
    // The first byte's address as the NIC sees it, if the process itself may not touch the memory.
    // 0: `address`.
    std::uint64_t seen_at = 0;
  };

  ~MemoryTable();
  std::uint32_t add(const Region& region);  // returns the key; 0: the table is full
  void remove(std::uint32_t key);
  void clear() noexcept;  // removes all

  // A use that a key must allow: all of [address, address + bytes), with every flag of `access`,
  // within the protection domain.
  struct Use {
    std::uint32_t key;
    std::uint64_t address, bytes;
    const void* pd;
    int access;
  };
  bool allows(const Use& use) const noexcept { return resolve(use) != nullptr; }
  // Returns where the NIC sees the first byte of the use, or null if the use is not allowed.
  std::byte* resolve(const Use& use) const noexcept;
  // Resolves a work request's scatter-gather elements. Returns false if one is not allowed.
  struct SgeUse {
    const RingSge* sge;
    std::uint32_t count;
    const void* pd;
    int access;
  };
  bool resolve(const SgeUse& use, RingSge* seen) const noexcept;
  std::uint32_t size() const noexcept { return used_; }

 private:
  // The fields are atomic because a poster may look at a slot with a stale key while another thread
  // gives the slot to a new region.
  struct Slot {
    // 0: the slot is free. Released last when set, and checked again after the fields were read.
    std::atomic<std::uint32_t> key{0};
    std::atomic<std::uint64_t> address{0}, bytes{0};
    std::atomic<std::uint64_t> shift{0};  // from the address to where the NIC sees it; wraps
    std::atomic<const void*> pd{nullptr};
    std::atomic<int> access{0};
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };
  static constexpr std::uint32_t kChunk = 1024;
  Slot* slot(std::uint32_t index) const noexcept;

  std::array<std::atomic<Slot*>, kRegionsMax / kChunk> chunks_{};
  std::uint32_t made_ = 1;       // slots ever used; slot 0 stays unused, so that no key is 0
  std::uint32_t free_head_ = 0;  // index of the first free slot; 0: none is free
  std::uint32_t used_ = 0;
};

}  // namespace mesh::soft
