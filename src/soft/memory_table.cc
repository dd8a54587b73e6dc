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
  // Released, so that no field is seen before the key was: a reader that finds the key again after
  // it read the fields has read those that belong to it.
  entry.address.store(region.address, std::memory_order_release);
  entry.bytes.store(region.bytes, std::memory_order_release);
  entry.shift.store(region.seen_at == 0 ? 0 : region.seen_at - region.address,
                    std::memory_order_release);
  entry.pd.store(region.pd, std::memory_order_release);
  entry.access.store(region.access, std::memory_order_release);
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

void MemoryTable::clear() noexcept {
  for (std::uint32_t index = 1; index < made_; ++index) {
    const std::uint32_t key = slot(index)->key.load(std::memory_order_relaxed);
    if (key != 0) remove(key);
  }
  DCHECK(used_ == 0);
}

std::byte* MemoryTable::resolve(const Use& use) const noexcept {
  const Slot* entry = slot(use.key & 0xffff);
  if (entry == nullptr || use.key == 0 || entry->key.load(std::memory_order_acquire) != use.key)
    return nullptr;
  const std::uint64_t address = entry->address.load(std::memory_order_acquire);
  const std::uint64_t bytes = entry->bytes.load(std::memory_order_acquire);
  const bool fits =
      use.address >= address && use.bytes <= bytes && use.address - address <= bytes - use.bytes;
  const bool may = (entry->access.load(std::memory_order_acquire) & use.access) == use.access;
  const bool ours = entry->pd.load(std::memory_order_acquire) == use.pd;
  const std::uint64_t shift = entry->shift.load(std::memory_order_acquire);
  if (!fits || !may || !ours || entry->key.load(std::memory_order_relaxed) != use.key)
    return nullptr;
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(use.address + shift));
}

bool MemoryTable::resolve(const SgeUse& use, RingSge* seen) const noexcept {
  DCHECK(use.count <= kSgesMax);
  for (std::uint32_t i = 0; i < use.count; ++i) {
    const RingSge& sge = use.sge[i];
    seen[i] = sge;
    if (sge.bytes == 0) continue;
    const std::byte* at = resolve(Use{sge.lkey, sge.address, sge.bytes, use.pd, use.access});
    if (at == nullptr) return false;
    seen[i].address = reinterpret_cast<std::uintptr_t>(at);
  }
  return true;
}

}  // namespace mesh::soft
