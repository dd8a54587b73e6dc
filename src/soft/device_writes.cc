#include "src/soft/device_writes.h"

#include "src/base/check.h"
#include "src/soft/copy.h"

namespace mesh::soft {

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
