// The memory of a link on a device that takes long to register it, and that the link can do
// without: the rail of a path that stands by.
#include "engine/data/device_context.h"
#include "engine/data/link_memory.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

LinkMemory::Spares LinkMemory::spares_at_first() const {
  Spares spares;
  for (const Key& key : keys_) {
    const auto needs = [&key](const Key& each) { return each.device == key.device && !each.spare; };
    if (std::none_of(keys_.begin(), keys_.end(), needs)) spares.push_back(key.device);
  }
  return spares;
}

LinkMemory::Late LinkMemory::begin_late(const Block& block, DeviceContext& device) {
  Late late{.device = &device, .mr = std::make_shared<verbs::MrHandle>(), .call = {}};
  const auto work = [&device, mr = late.mr, memory = block.memory, bytes = block.bytes] {
    *mr = register_at(device, memory.get(), bytes);
  };
  late.call = PatientCall::begin({device, "ibv_reg_mr"}, work, [mr = late.mr] { mr->reset(); });
  return late;
}

// The device's thread gives back what it registers after this.
void LinkMemory::let_go(Late& late, const Block& block) noexcept {
  if (!late.call->abandon() && *late.mr) late.device->deregister(std::move(*late.mr), block.memory);
}

bool LinkMemory::is_late(const DeviceContext& device) const noexcept {
  return std::any_of(late_.begin(), late_.end(),
                     [&device](const Late& each) { return each.device == &device; });
}

std::vector<DeviceContext*> LinkMemory::take_late() {
  std::vector<DeviceContext*> whole;
  for (const Late& late : late_) {
    if (!late.call->over() || !*late.mr) continue;
    const Block& block = *blocks_[late.block];
    take({.block = late.block,
          .memory = block.memory,
          .bytes = block.bytes,
          .made = std::move(*late.mr)},
         *late.device);
    if (!lacks(*late.device)) whole.push_back(late.device);
  }
  std::erase_if(late_, [](const Late& late) { return late.call->over(); });
  return whole;
}

}  // namespace mesh::engine
