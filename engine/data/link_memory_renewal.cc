// The memory of a link on a card that has come into the place of another one.
#include "engine/data/device_context.h"
#include "engine/data/link_memory.h"
#include "src/base/log.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mesh::engine {

bool LinkMemory::is_on(const DeviceContext& device) const noexcept {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&device](const Key& key) { return key.device == &device; });
}

void LinkMemory::drop(const DeviceContext& device, std::vector<Former>* former) {
  if (!is_on(device)) return;
  for (const auto& block : blocks_) {
    if (block == nullptr) continue;
    for (Region& region : block->regions) {
      if (region.device == &device)
        former->push_back({.memory = block->memory, .mr = std::move(region.mr)});
    }
    std::erase_if(block->regions, [&](const Region& region) { return region.device == &device; });
    for (std::size_t at = 0; at < keys_.size(); ++at)
      if (keys_[at].device == &device) block->rkeys[at] = 0;
  }
  if (!lacks(device)) lacking_.push_back(&device);
}

std::vector<LinkMemory::Missing> LinkMemory::missing(const DeviceContext& device) const {
  std::vector<Missing> found;
  for (std::size_t at = 0; is_on(device) && at < blocks_.size(); ++at) {
    if (blocks_[at] == nullptr) continue;
    const Block& block = *blocks_[at];
    const auto is_its = [&device](const Region& region) { return region.device == &device; };
    if (std::none_of(block.regions.begin(), block.regions.end(), is_its))
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
  for (std::size_t at = 0; at < keys_.size(); ++at)
    if (keys_[at].device == &device) block.rkeys[at] = missing.made->rkey;
  block.regions.push_back({.device = &device, .mr = std::move(missing.made)});
  std::erase(block.refused, &device);
  if (this->missing(device).empty()) std::erase(lacking_, &device);
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
