// The memory of a link on a card that has come into the place of another one.
#include "engine/data/device_context.h"
#include "engine/data/link_memory.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mesh::engine {

void LinkMemory::drop(const DeviceContext& device, std::vector<Former>* former) {
  for (const auto& block : blocks_) {
    Region* const region = block == nullptr ? nullptr : region_of(*block, device);
    if (region == nullptr) continue;
    DCHECK(region->late == nullptr);
    if (region->mr) former->push_back({.memory = block->memory, .mr = std::move(region->mr)});
    set_region(*block, *region, {});
  }
}

std::vector<LinkMemory::Missing> LinkMemory::missing(const DeviceContext& device) const {
  std::vector<Missing> found;
  for (std::size_t at = 0; at < blocks_.size(); ++at) {
    if (blocks_[at] == nullptr) continue;
    Block& block = *blocks_[at];
    const Region* const region = region_of(block, device);
    if (region != nullptr && !region->mr)
      found.push_back({.block = at, .memory = block.memory, .bytes = block.bytes});
  }
  return found;
}

Status LinkMemory::make(Missing& missing, DeviceContext& device) {
  missing.made = device.register_range(missing.memory.get(), missing.bytes,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (missing.made) return {};
  const int error = errno;
  LOG_WARN("{}: the new card does not register {} bytes for a peer link: {}{}", device.name(),
           missing.bytes, std::strerror(error), verbs::memory_hint(error));
  return Errc::System;
}

void LinkMemory::take(Missing missing, DeviceContext& device) {
  Block& block = *blocks_[missing.block];
  set_region(block, *region_of(block, device), std::move(missing.made));
}

std::vector<LinkMemory::KeyRun> LinkMemory::keys_on(const DeviceContext& device) const {
  std::vector<KeyRun> runs;
  const auto key = std::find_if(keys_.begin(), keys_.end(),
                                [&device](const Key& each) { return each.device == &device; });
  if (key == keys_.end()) return runs;
  const auto place = static_cast<std::size_t>(key - keys_.begin());
  for (std::uint32_t at = 0; at < blocks_.size(); ++at) {
    if (blocks_[at] == nullptr) continue;
    const std::uint32_t first = at == 0 ? 0 : channels_at_first_ + (at - 1) * channels_per_block_;
    runs.push_back({.first = first, .rkey = blocks_[at]->rkeys[place]});
  }
  return runs;
}

}  // namespace mesh::engine
