#include "src/soft/late_writes.h"

#include "src/base/check.h"
#include "src/soft/copy.h"

#include <algorithm>

namespace mesh::soft {

bool LateWrites::add(const MemoryTable::Use& use, const std::byte* bytes,
                     std::uint64_t due_ns) noexcept {
  DCHECK(use.bytes <= kLateBytesMax);
  if (count_ == kLateMax) return false;
  Write& write = writes_[count_++];
  write.use = use;
  write.due_ns = due_ns;
  std::copy_n(bytes, use.bytes, write.bytes.begin());
  return true;
}

// Lands the writes that are due. Writes into a region that is no longer registered are dropped.
void LateWrites::land(const MemoryTable& regions, std::uint64_t now_ns) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Write& write = writes_[i];
    if (write.due_ns > now_ns) {
      if (kept != i) writes_[kept] = write;
      ++kept;
    } else if (std::byte* const to = regions.resolve(write.use); to != nullptr) {
      dma_store(to, write.bytes.data(), static_cast<std::size_t>(write.use.bytes));
    }
  }
  count_ = kept;
}

std::uint64_t LateWrites::due_ns() const noexcept {
  std::uint64_t due_ns = UINT64_MAX;
  for (std::size_t i = 0; i < count_; ++i) due_ns = std::min(due_ns, writes_[i].due_ns);
  return due_ns;
}

std::byte* DeviceWrites::hold(std::byte* to, std::size_t bytes) {
  if (held_bytes_ + bytes > kHeldBytesMax) land();
  writes_.push_back({.to = to, .bytes = std::vector<std::byte>(bytes)});
  held_bytes_ += bytes;
  return writes_.back().bytes.data();
}

void DeviceWrites::shorten_last(std::size_t bytes) {
  DCHECK(!writes_.empty() && bytes <= writes_.back().bytes.size());
  held_bytes_ -= writes_.back().bytes.size() - bytes;
  writes_.back().bytes.resize(bytes);
  if (bytes == 0) writes_.pop_back();
}

void DeviceWrites::land() noexcept {
  for (const Write& write : writes_) dma_store(write.to, write.bytes.data(), write.bytes.size());
  writes_.clear();
  held_bytes_ = 0;
}

}  // namespace mesh::soft
