#include "engine/data/link_memory.h"

#include "engine/data/device_context.h"
#include "engine/message/wire.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/pages.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

namespace mesh::engine {

void LinkMemory::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

void LinkMemory::configure(std::size_t bytes_per_channel, std::vector<Key> keys) {
  DCHECK(bytes_per_channel != 0 && bytes_per_channel % 64 == 0);
  DCHECK(keys.size() <= kLinkKeysMax);
  DCHECK(blocks_.empty());  // places in a block depend on it
  bytes_per_channel_ = bytes_per_channel;
  channels_per_block_ = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(kBlockBytesMax / bytes_per_channel, 1, kChannelsPerBlock));
  channels_at_first_ = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(page_bytes() / bytes_per_channel, 1, channels_per_block_));
  keys_ = std::move(keys);
}

bool LinkMemory::lacks(const DeviceContext& device) const noexcept {
  return std::any_of(blocks_.begin(), blocks_.end(), [&device](const auto& block) {
    const Region* const region = block == nullptr ? nullptr : region_of(*block, device);
    return region != nullptr && !region->mr;
  });
}

LinkMemory::Spares LinkMemory::spares() const {
  Spares spares;
  for (const Key& key : keys_) {
    const auto needs = [&key](const Key& each) { return each.device == key.device && !each.spare; };
    if (blocks_.empty() ? std::none_of(keys_.begin(), keys_.end(), needs) : lacks(*key.device))
      spares.push_back(key.device);
  }
  return spares;
}

Result<LinkMemory::Block> LinkMemory::make_block(std::size_t bytes, const Spares& spares) const {
  const std::size_t rounded = whole_pages(bytes);  // the peer must not write to a neighbour's bytes
  DCHECK(rounded != 0);
  Block block;
  block.memory.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), rounded)), Free());
  if (!block.memory) {
    LOG_WARN("out of memory: {} bytes for a peer link", rounded);
    return Errc::System;
  }
  std::memset(block.memory.get(), 0, rounded);
  block.bytes = rounded;
  block.rkeys.assign(keys_.size(), 0);
  if (const Status status = register_block(block, spares); !status.ok()) return status;
  return block;
}

// A card that has left, or is sick, must not fail or hold up links that do not use it.
Status LinkMemory::register_block(Block& block, const Spares& spares) const {
  const auto is_spare = [&spares](const DeviceContext* device) {
    return std::find(spares.begin(), spares.end(), device) != spares.end();
  };
  for (const Key& key : keys_)
    if (region_of(block, *key.device) == nullptr) block.regions.push_back({.device = key.device});
  block.regions.shrink_to_fit();
  for (Region& region : block.regions) {
    DeviceContext& device = *region.device;
    if (is_spare(&device)) continue;
    const CallWatch::Call waits(device.calls, device.name(), "ibv_reg_mr");
    verbs::MrHandle mr = register_at(device, block.memory.get(), block.bytes);
    if (!mr && !device.gone()) return Errc::System;  // gone: a new card may come
    set_region(block, region, std::move(mr));
  }
  for (Region& region : block.regions)
    if (is_spare(region.device)) region.late = begin_late(block, *region.device);
  for (Region& region : block.regions)
    if (region.late != nullptr && region.late->call->wait())
      set_region(block, region, std::move(*region.late->mr));
  return {};
}

verbs::MrHandle LinkMemory::register_at(DeviceContext& device, void* memory, std::size_t bytes) {
  verbs::MrHandle mr =
      device.register_range(memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const int error = errno;
  if (!mr && !device.gone())
    LOG_WARN("cannot register {} bytes on {} for a peer link: {}{}", bytes, device.name(),
             std::strerror(error), verbs::memory_hint(error));
  return mr;
}

LinkMemory::Region* LinkMemory::region_of(Block& block, const DeviceContext& device) noexcept {
  const auto at =
      std::find_if(block.regions.begin(), block.regions.end(),
                   [&device](const Region& region) { return region.device == &device; });
  return at == block.regions.end() ? nullptr : &*at;
}

// Without `mr` the region stays missing.
void LinkMemory::set_region(Block& block, Region& region, verbs::MrHandle mr) const {
  region.mr = std::move(mr);
  region.late.reset();
  for (std::size_t at = 0; at < keys_.size(); ++at)
    if (keys_[at].device == region.device) block.rkeys[at] = region.mr ? region.mr->rkey : 0;
}

void LinkMemory::put(std::size_t at, Block block) {
  if (at >= blocks_.size()) blocks_.resize(at + 1);
  blocks_[at] = std::make_unique<Block>(std::move(block));
}

void LinkMemory::Growth::run() noexcept {
  try {
    made_ = memory_.make_block(memory_.bytes_at(at_), spares_);
  } catch (const std::exception& error) {
    LOG_WARN("memory for more channels of a peer link: {}", error.what());
  }
}

Status LinkMemory::take(Growth& growth) {
  CHECK(&growth.memory_ == this && (growth.at_ >= blocks_.size() || !blocks_[growth.at_]));
  if (growth.made_.ok()) put(growth.at_, std::move(*growth.made_));
  return growth.made_.status();
}

LinkMemory::Position LinkMemory::position_of(std::uint32_t index) const noexcept {
  if (index < channels_at_first_) return {.block = 0, .channel = index};
  const std::uint32_t behind = index - channels_at_first_;
  return {.block = 1 + behind / channels_per_block_, .channel = behind % channels_per_block_};
}

std::size_t LinkMemory::bytes_at(std::size_t block) const noexcept {
  return bytes_per_channel_ * (block == 0 ? channels_at_first_ : channels_per_block_);
}

bool LinkMemory::waits_for_devices(std::uint32_t index) const noexcept {
  const std::size_t at = position_of(index).block;
  return !keys_.empty() && (at >= blocks_.size() || !blocks_[at]);
}

Result<PeerWritable> LinkMemory::channel_memory(std::uint32_t index) {
  DCHECK(index < kChannelsMax);
  DCHECK(bytes_per_channel_ != 0);
  const Position position = position_of(index);
  if (position.block >= blocks_.size() || !blocks_[position.block]) {
    Result<Block> made = make_block(bytes_at(position.block), spares());
    if (!made.ok()) return made.status();
    put(position.block, std::move(*made));
  }
  const Block& block = *blocks_[position.block];
  return PeerWritable{.memory = block.memory.get() + position.channel * bytes_per_channel_,
                      .rkeys = block.rkeys};
}

Result<PeerWritable> LinkMemory::window_words(std::size_t bytes) {
  DCHECK(bytes_per_channel_ != 0 && blocks_.empty());
  const std::size_t room = whole_pages(bytes + bytes_per_channel_) - bytes;
  channels_at_first_ = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(room / bytes_per_channel_, 1, channels_per_block_));
  const std::size_t before = channels_at_first_ * bytes_per_channel_;
  Result<Block> made = make_block(before + bytes, spares());
  if (!made.ok()) return made.status();
  put(0, std::move(*made));
  return PeerWritable{.memory = blocks_[0]->memory.get() + before, .rkeys = blocks_[0]->rkeys};
}

void LinkMemory::release() noexcept {
  for (const auto& block : blocks_) {
    if (block == nullptr) continue;
    for (Region& region : block->regions) {
      // The device's thread gives back what it registers after this.
      if (region.late != nullptr && region.late->call->abandon()) continue;
      verbs::MrHandle& mr = region.late == nullptr ? region.mr : *region.late->mr;
      if (mr) region.device->deregister(std::move(mr), block->memory);
    }
  }
  blocks_.clear();
}

}  // namespace mesh::engine
