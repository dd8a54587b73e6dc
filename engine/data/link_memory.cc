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
  return std::find(lacking_.begin(), lacking_.end(), &device) != lacking_.end();
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
  std::vector<DeviceContext*> devices;
  for (const Key& key : keys_) {
    if (std::find(devices.begin(), devices.end(), key.device) == devices.end())
      devices.push_back(key.device);
  }
  for (DeviceContext* const device : devices) {
    if (is_spare(device)) continue;
    const CallWatch::Call waits(device->calls, device->name(), "ibv_reg_mr");
    verbs::MrHandle mr = register_at(*device, block.memory.get(), block.bytes);
    if (!mr && !device->gone()) return Errc::System;  // gone: a new card may come
    note_region(block, *device, std::move(mr));
  }
  for (DeviceContext* const device : devices)
    if (is_spare(device)) block.late.push_back(begin_late(block, *device));
  std::erase_if(block.late, [&](Late& late) {
    const bool over = late.call->wait();
    note_region(block, *late.device, over ? std::move(*late.mr) : verbs::MrHandle());
    return over;
  });
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

// An empty region: the device has refused the block, or is late with it.
void LinkMemory::note_region(Block& block, DeviceContext& device, verbs::MrHandle mr) const {
  if (!mr) return block.refused.push_back(&device);
  for (std::size_t at = 0; at < keys_.size(); ++at)
    if (keys_[at].device == &device) block.rkeys[at] = mr->rkey;
  block.regions.push_back({.device = &device, .mr = std::move(mr)});
}

void LinkMemory::put(std::size_t at, Block block) {
  for (const DeviceContext* const device : block.refused) {
    if (!lacks(*device)) lacking_.push_back(device);
  }
  for (Late& late : block.late) {
    late.block = at;
    late_.push_back(std::move(late));
  }
  block.late.clear();
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
    Result<Block> made =
        make_block(bytes_at(position.block), blocks_.empty() ? spares_at_first() : lacking_);
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
  Result<Block> made = make_block(before + bytes, spares_at_first());
  if (!made.ok()) return made.status();
  put(0, std::move(*made));
  return PeerWritable{.memory = blocks_[0]->memory.get() + before, .rkeys = blocks_[0]->rkeys};
}

void LinkMemory::release() noexcept {
  for (Late& late : late_) let_go(late, *blocks_[late.block]);
  late_.clear();
  for (const auto& block : blocks_) {
    if (block == nullptr) continue;
    for (Region& region : block->regions)
      region.device->deregister(std::move(region.mr), block->memory);
  }
  blocks_.clear();
}

}  // namespace mesh::engine
