#include "src/soft/memory_table.h"

#include "src/base/check.h"

namespace mesh::soft {

MemoryTable::~MemoryTable() {
  for (const std::atomic<Slot*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

MemoryTable::Slot* MemoryTable::slot(std::uint32_t index) const noexcept {
  DCHECK(index < kRegionsMax);
  Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + index % kChunk;
}

std::uint32_t MemoryTable::add(const Region& region) {
  std::uint32_t index = free_head_;
  if (index != 0) {
    free_head_ = slot(index)->next_free;
  } else {
    if (made_ >= kRegionsMax) return 0;
    index = made_++;
    std::atomic<Slot*>& chunk = chunks_[index / kChunk];
    if (chunk.load(std::memory_order_relaxed) == nullptr)
      chunk.store(new Slot[kChunk], std::memory_order_release);
  }
  Slot& entry = *slot(index);
  DCHECK(index != 0 && index < made_ && entry.key.load(std::memory_order_relaxed) == 0);
  entry.generation = (entry.generation + 1) & 0xffff;
  entry.address.store(region.address, std::memory_order_relaxed);
  entry.bytes.store(region.bytes, std::memory_order_relaxed);
  entry.pd.store(region.pd, std::memory_order_relaxed);
  entry.access.store(region.access, std::memory_order_relaxed);
  const std::uint32_t key = entry.generation << 16 | index;
  entry.key.store(key, std::memory_order_release);
  ++used_;
  DCHECK(key != 0 && used_ < made_);
  return key;
}

void MemoryTable::remove(std::uint32_t key) {
  const std::uint32_t index = key & 0xffff;
  Slot* entry = slot(index);
  if (entry == nullptr || entry->key.load(std::memory_order_relaxed) != key) return;
  entry->key.store(0, std::memory_order_seq_cst);
  entry->next_free = free_head_;
  free_head_ = index;
  DCHECK(used_ > 0);
  --used_;
}

bool MemoryTable::allows(const Use& use) const noexcept {
  const Slot* entry = slot(use.key & 0xffff);
  if (entry == nullptr || use.key == 0 || entry->key.load(std::memory_order_acquire) != use.key)
    return false;
  const std::uint64_t address = entry->address.load(std::memory_order_acquire);
  const std::uint64_t bytes = entry->bytes.load(std::memory_order_acquire);
  const bool fits =
      use.address >= address && use.bytes <= bytes && use.address - address <= bytes - use.bytes;
  const bool may = (entry->access.load(std::memory_order_acquire) & use.access) == use.access;
  const bool ours = entry->pd.load(std::memory_order_acquire) == use.pd;
  return fits && may && ours && entry->key.load(std::memory_order_relaxed) == use.key;
}

}  // namespace mesh::soft
